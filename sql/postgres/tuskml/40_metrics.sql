-- The metrics that are sums over rows have one kind of state.
CREATE FUNCTION tuskml._tuskml_metric_give(internal) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_metric_give' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_metric_{1:combine|serialize|deserialize}({1:internal, internal|internal|bytea, internal})
RETURNS {1:internal|bytea|internal}
AS 'MODULE_PATHNAME', 'tuskml_metric_{1}' LANGUAGE C IMMUTABLE {1:|STRICT |STRICT }PARALLEL SAFE;

-- The transitions: a label and a prediction, booleans or double precision; then what some metrics need, and a weight.
CREATE FUNCTION tuskml._tuskml_{1:log_loss|accuracy|rmse|mae|r2|brier|mape|poisson_deviance|gamma_deviance}(internal, "any", "any"{|, float8})
RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1}' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_{1:pinball|tweedie_deviance}(internal, "any", "any", float8{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1}' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_accuracy_text(internal, text, text{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_accuracy_text' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_metric_{1:give|combine|serialize|deserialize}({1:internal|internal, internal|internal|bytea, internal})
FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_{log_loss|accuracy|rmse|mae|r2|brier|mape|poisson_deviance|gamma_deviance}(internal, "any", "any"{|, float8})
FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_{pinball|tweedie_deviance}(internal, "any", "any", float8{|, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_accuracy_text(internal, text, text{|, float8}) FROM PUBLIC;

-- The mean of -log of the label's probability, and its mean squared distance; labels are boolean, 0 and 1, or -1 and +1.
CREATE AGGREGATE tuskml.{1:log_loss|brier}(label {float8|boolean}, p float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_{1}, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The share of rows that are equal.
CREATE AGGREGATE tuskml.accuracy(label {1:float8|boolean|float8|boolean|text}, predicted {1:float8|float8|boolean|boolean|text}{|, weight float8}) (
    SFUNC = tuskml._tuskml_accuracy{1:||||_text}, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The root of the mean squared error; the mean absolute error; 1 - squared error / squared distance of the labels from their mean;
-- the mean absolute error as a share of the label, of which 0 counts as 2.2e-16; and mean deviances, of which Poisson's takes
-- labels from 0, and both take predictions above 0.
CREATE AGGREGATE tuskml.{1:rmse|mae|r2|mape|poisson_deviance|gamma_deviance}(label {float8|boolean}, predicted float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_{1}, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean loss of a predicted quantile, and the mean Tweedie deviance of a power between 1 and 2, with labels from 0.
CREATE AGGREGATE tuskml.{1:pinball|tweedie_deviance}(label {float8|boolean}, predicted float8, {1:quantile|power} float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_{1:pinball|tweedie_deviance}, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- log_loss and brier of a label and the probabilities of all classes by name, as predict_probas returns them.
CREATE FUNCTION tuskml._tuskml_{1:log_loss|brier}_shares(internal, "any", jsonb{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1}_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_{log_loss|brier}_shares(internal, "any", jsonb{|, float8}) FROM PUBLIC;

-- The mean of -log of the label's probability, for any number of classes.
CREATE AGGREGATE tuskml.log_loss(label {text|float8|boolean}, p jsonb{|, weight float8}) (
    SFUNC = tuskml._tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean of the squared distances of all probabilities from 0 or 1, halved for two classes.
CREATE AGGREGATE tuskml.brier(label {text|float8|boolean}, p jsonb{|, weight float8}) (
    SFUNC = tuskml._tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- Metrics that rank the scores of all rows by label; those that are tables return arrays of rows.
CREATE TYPE @extschema@.tuskml_roc_point AS (threshold float8, tpr float8, fpr float8);
CREATE TYPE @extschema@.tuskml_precision_recall_point AS (threshold float8, "precision" float8, recall float8);
CREATE TYPE @extschema@.tuskml_calibration_bin AS (bin bigint, lower float8, upper float8, mean_p float8, rate float8, n bigint);
CREATE TYPE @extschema@.tuskml_lift_decile AS (
    decile bigint, n bigint, positives bigint, rate float8, lift float8, cumulative_gain float8);

CREATE FUNCTION tuskml._tuskml_scored_number(internal) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_scored_number' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_{1:roc_curve|pr_curve|calibration|lift}_rows(internal)
RETURNS tuskml_{1:roc_point|precision_recall_point|calibration_bin|lift_decile}[]
AS 'MODULE_PATHNAME', 'tuskml_scored_table' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_scored_{1:combine|serialize|deserialize}({1:internal, internal|internal|bytea, internal})
RETURNS {1:internal|bytea|internal}
AS 'MODULE_PATHNAME', 'tuskml_scored_{1}' LANGUAGE C IMMUTABLE {1:|STRICT |STRICT }PARALLEL SAFE;

-- The transitions: a label and a score, booleans or double precision.
CREATE FUNCTION tuskml._tuskml_{1:auc|ks|psi|average_precision|roc_curve|pr_curve|lift}(internal, "any", "any"{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1:auc|ks|psi|average_precision|roc_curve|precision_recall_curve|lift}' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_calibration(internal, "any", "any"{|, bigint|, bigint, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_calibration' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_{scored_number|roc_curve_rows|pr_curve_rows|calibration_rows|lift_rows|scored_serialize}(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_scored_{1:combine|deserialize}({1:internal|bytea}, internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_{auc|ks|psi|average_precision|roc_curve|pr_curve|lift}(internal, "any", "any"{|, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_calibration(internal, "any", "any"{|, bigint|, bigint, float8}) FROM PUBLIC;

-- For any two labels: the area under the ROC curve, where ties count half; the largest distance between the distributions of the
-- scores; and their population stability index. For labels as for log_loss: the sum of precision times the step of recall, from
-- the highest score down.
CREATE AGGREGATE tuskml.{1:auc|ks|psi|average_precision}(label {float8|boolean}, score float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_{1}, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_scored_number,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);

-- The rates of true and false positives by threshold, of any two labels; precision by recall from the highest score down, of labels
-- as for log_loss; both have at most 1,000 points. And positive rows by decile of the score, against their share in all rows.
CREATE AGGREGATE tuskml.{1:roc_curve|precision_recall_curve|lift}(label {float8|boolean}, score float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_{1:roc_curve|pr_curve|lift}, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_{1:roc_curve|pr_curve|lift}_rows,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);

-- Mean probability and share of positive labels in bins of equal width (10, or as given).
CREATE AGGREGATE tuskml.calibration(label {float8|boolean}, p float8{|, bins bigint|, bins bigint, weight float8}) (
    SFUNC = tuskml._tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_calibration_rows,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);

-- Metrics of the k highest scores of a group, such as a user's, or of all without k. Their average over groups is that of the field.
CREATE FUNCTION tuskml._tuskml_{1:ndcg|precision_at_k|recall_at_k|average_precision_at_k}(internal, "any", "any"{|, bigint}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1}' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_{ndcg|precision_at_k|recall_at_k|average_precision_at_k}(internal, "any", "any"{|, bigint}) FROM PUBLIC;

-- Normalized discounted cumulative gain, whose labels are gains of 0 or more, and ties share the discounts of their ranks. For
-- labels as for log_loss: the share of positive ones among the k highest scores; the share of the positive ones that are among
-- them; and the mean of the precisions at each of these, over as many as could be there.
CREATE AGGREGATE tuskml.{1:ndcg|precision_at_k|recall_at_k|average_precision_at_k}(label {float8|boolean}, score float8{|, k bigint}) (
    SFUNC = tuskml._tuskml_{1}, STYPE = internal, SSPACE = 1024, FINALFUNC = tuskml._tuskml_scored_number,
    COMBINEFUNC = tuskml._tuskml_scored_combine, SERIALFUNC = tuskml._tuskml_scored_serialize, DESERIALFUNC = tuskml._tuskml_scored_deserialize,
    PARALLEL = SAFE);

-- Metrics that count labels and predicted classes: text, numbers or booleans.
CREATE TYPE @extschema@.tuskml_confusion_cell AS (label text, predicted text, n bigint);
CREATE TYPE @extschema@.tuskml_weighted_confusion_cell AS (label text, predicted text, n bigint, weight float8);

CREATE FUNCTION tuskml._tuskml_classes_number(internal) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_classes_number' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_confusion_{1:rows|weighted}(internal) RETURNS tuskml_{1:|weighted_}confusion_cell[]
AS 'MODULE_PATHNAME', 'tuskml_classes_table' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_classes_{1:combine|serialize|deserialize}({1:internal, internal|internal|bytea, internal})
RETURNS {1:internal|bytea|internal}
AS 'MODULE_PATHNAME', 'tuskml_classes_{1}' LANGUAGE C IMMUTABLE {1:|STRICT |STRICT }PARALLEL SAFE;

-- The transitions.
CREATE FUNCTION tuskml._tuskml_{1:precision|recall|f1}_score(internal, "any", "any"{|, text|, text, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_{1}_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_confusion(internal, "any", "any"{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_confusion' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_{classes_number|confusion_rows|confusion_weighted|classes_serialize}(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_classes_{1:combine|deserialize}({1:internal|bytea}, internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_{precision|recall|f1}_score(internal, "any", "any"{|, text|, text, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_confusion(internal, "any", "any"{|, float8}) FROM PUBLIC;

-- The share of rows predicted positive that are, the share of positive rows that are predicted so, and the harmonic mean of
-- both: of two classes, or the average ('macro', 'weighted', 'micro') of all.
CREATE AGGREGATE tuskml.{2:precision|recall|f1}_score(label {1:float8|boolean|float8|boolean|text}, predicted {1:float8|float8|boolean|boolean|text}{
    |, average text|, average text, weight float8}) (
    SFUNC = tuskml._tuskml_{2}_score, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_classes_number,
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);

-- How often each label is predicted as each class, as an array of rows.
CREATE AGGREGATE tuskml.confusion(label {1:float8|boolean|float8|boolean|text}, predicted {1:float8|float8|boolean|boolean|text}{2:
    |, weight float8}) (
    SFUNC = tuskml._tuskml_confusion, STYPE = internal, SSPACE = 512, FINALFUNC = tuskml._tuskml_confusion_{2:rows|weighted},
    COMBINEFUNC = tuskml._tuskml_classes_combine, SERIALFUNC = tuskml._tuskml_classes_serialize, DESERIALFUNC = tuskml._tuskml_classes_deserialize,
    PARALLEL = SAFE);

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

-- Metrics of classes take numeric as it is, since a cast to double precision rounds different classes to the same one. Their
-- aggregates of double precision are declared again, with numeric for the label, for the prediction if it is a class, and for both.
DO $make$
DECLARE
    metric record;
    argument pg_catalog.text;
BEGIN
    FOREACH argument IN ARRAY ARRAY['label', 'predicted'] LOOP
        FOR metric IN
            SELECT tuskml._tuskml_definition(p.oid, 'tuskml') AS definition
            FROM pg_catalog.pg_proc AS p
            WHERE p.pronamespace OPERATOR(pg_catalog.=) 'tuskml'::pg_catalog.regnamespace AND p.prokind OPERATOR(pg_catalog.=) 'a'
              AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY[
                  'accuracy', 'precision_score', 'recall_score', 'f1_score', 'confusion', 'log_loss', 'brier', 'auc', 'ks', 'psi', 'average_precision',
                  'roc_curve', 'precision_recall_curve', 'calibration', 'lift', 'precision_at_k', 'recall_at_k', 'average_precision_at_k'])
            ORDER BY p.oid
        LOOP
            IF pg_catalog.strpos(metric.definition, argument OPERATOR(pg_catalog.||) ' double precision') OPERATOR(pg_catalog.>) 0 THEN
                EXECUTE pg_catalog.replace(metric.definition, argument OPERATOR(pg_catalog.||) ' double precision',
                                           argument OPERATOR(pg_catalog.||) ' numeric');
            END IF;
        END LOOP;
    END LOOP;
END
$make$;

-- Two predictions of the same rows: the mean of a metric for each, and the paired difference.
CREATE TYPE @extschema@.tuskml_comparison AS (
    n bigint, mean_a float8, mean_b float8, difference float8, std_err float8, lower float8, upper float8, p_value float8);
COMMENT ON TYPE tuskml_comparison IS 'What compare answers';

CREATE FUNCTION tuskml._tuskml_compare(internal, "any", "any", "any", text{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_compare' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_compare_text(internal, text, text, text, text{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_compare_text' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_compare_give(internal) RETURNS tuskml_comparison
AS 'MODULE_PATHNAME', 'tuskml_compare_give' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_compare_{1:combine|serialize|deserialize}({1:internal, internal|internal|bytea, internal})
RETURNS {1:internal|bytea|internal}
AS 'MODULE_PATHNAME', 'tuskml_compare_{1}' LANGUAGE C IMMUTABLE {1:|STRICT |STRICT }PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_compare(internal, "any", "any", "any", text{|, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_compare_text(internal, text, text, text, text{|, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_compare_{1:give|combine|serialize|deserialize}({1:internal|internal, internal|internal|bytea, internal})
FROM PUBLIC;

CREATE AGGREGATE tuskml.compare(label {1:float8|boolean|float8|boolean|text}, prediction_a {1:float8|float8|boolean|boolean|text},
    prediction_b {1:float8|float8|boolean|boolean|text}, metric text{|, weight float8}) (
    SFUNC = tuskml._tuskml_compare{1:||||_text}, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_compare_give,
    COMBINEFUNC = tuskml._tuskml_compare_combine, SERIALFUNC = tuskml._tuskml_compare_serialize,
    DESERIALFUNC = tuskml._tuskml_compare_deserialize, PARALLEL = SAFE);
