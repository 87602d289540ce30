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
