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
