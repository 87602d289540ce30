-- Metrics whose positive class is named, as text; the label is of any type that a training takes. Each type of labels has a
-- declaration of its own, so that a literal is read as the class and not as the weight; each has one with a weight too.
DO $make$
DECLARE
    metric record;
    rows record;
    weight pg_catalog.text;
BEGIN
    FOR metric IN
        SELECT name, second, family, final, function, space, pg_catalog.concat('_tuskml_', COALESCE(transition, name)) AS transition
        FROM (VALUES
            ('log_loss', 'p', 'metric', 'metric_give', 'log_loss', 96, NULL),
            ('brier', 'p', 'metric', 'metric_give', 'brier', 96, NULL),
            ('auc', 'score', 'scored', 'scored_number', 'auc', 1024, NULL),
            ('ks', 'score', 'scored', 'scored_number', 'ks', 1024, NULL),
            ('psi', 'score', 'scored', 'scored_number', 'psi', 1024, NULL),
            ('average_precision', 'score', 'scored', 'scored_number', 'average_precision', 1024, NULL),
            ('roc_curve', 'score', 'scored', 'roc_curve_rows', 'roc_curve', 1024, NULL),
            ('precision_recall_curve', 'score', 'scored', 'pr_curve_rows', 'precision_recall_curve', 1024, 'pr_curve'),
            ('lift', 'score', 'scored', 'lift_rows', 'lift', 1024, NULL),
            ('calibration', 'p', 'scored', 'calibration_rows', 'calibration', 1024, NULL),
            ('precision_score', 'predicted', 'classes', 'classes_number', 'precision_score', 512, NULL),
            ('recall_score', 'predicted', 'classes', 'classes_number', 'recall_score', 512, NULL),
            ('f1_score', 'predicted', 'classes', 'classes_number', 'f1_score', 512, NULL)
        ) AS metrics (name, second, family, final, function, space, transition)
    LOOP
        -- The types of label and prediction, and the arguments after them with their types alone.
        FOR rows IN
            SELECT l.label, l.predicted, m.more, m.types
            FROM (VALUES ('float8', 'float8', true), ('boolean', 'float8', true), ('text', 'float8', false), ('"any"', 'float8', false),
                         ('float8', 'boolean', true), ('boolean', 'boolean', true), ('text', 'text', true), ('"any"', '"any"', true)
                 ) AS l (label, predicted, of_classes),
                 (VALUES ('positive text', 'text', 'all'), ('positive text, bins bigint', 'text, bigint', 'calibration'),
                         ('positive text, bins integer', 'text, integer', 'calibration'), ('average text, positive text', 'text, text', 'classes')
                 ) AS m (more, types, who)
            WHERE CASE WHEN metric.family OPERATOR(pg_catalog.=) 'classes' THEN l.of_classes AND m.who OPERATOR(pg_catalog.=) 'classes'
                       ELSE l.predicted OPERATOR(pg_catalog.=) 'float8' AND m.who OPERATOR(pg_catalog.=) ANY (ARRAY['all', metric.name]) END
        LOOP
            FOREACH weight IN ARRAY CASE WHEN metric.name OPERATOR(pg_catalog.=) 'calibration' AND rows.types OPERATOR(pg_catalog.=) 'text'
                                        THEN ARRAY[NULL] ELSE ARRAY[NULL, 'float8'] END::pg_catalog.text[] LOOP
                EXECUTE pg_catalog.format(
                    'CREATE OR REPLACE FUNCTION tuskml.%1$I(internal, "any", "any", %2$s) RETURNS internal '
                    'AS ''MODULE_PATHNAME'', ''tuskml_%3$s'' LANGUAGE C IMMUTABLE PARALLEL SAFE; '
                    'REVOKE ALL ON FUNCTION tuskml.%1$I(internal, "any", "any", %2$s) FROM PUBLIC',
                    metric.transition, pg_catalog.concat_ws(', ', rows.types, weight), metric.function);
                EXECUTE pg_catalog.format(
                    'CREATE OR REPLACE AGGREGATE tuskml.%1$I(label %2$s, %3$s %4$s, %5$s) (SFUNC = tuskml.%6$I, STYPE = internal, '
                    'SSPACE = %7$s, FINALFUNC = tuskml._tuskml_%8$s, COMBINEFUNC = tuskml._tuskml_%9$s_combine, '
                    'SERIALFUNC = tuskml._tuskml_%9$s_serialize, DESERIALFUNC = tuskml._tuskml_%9$s_deserialize, PARALLEL = SAFE)',
                    metric.name, rows.label, metric.second, rows.predicted, pg_catalog.concat_ws(', ', rows.more, CASE WHEN weight IS NOT NULL THEN 'weight float8' END),
                    metric.transition, metric.space, metric.final, metric.family);
            END LOOP;
        END LOOP;
    END LOOP;
END
$make$;
