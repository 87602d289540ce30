-- Metrics whose positive class is named, as text; the label is of any type that a training takes. Each type of labels has a
-- declaration of its own, so that a literal is read as the class and not as the weight.
CREATE FUNCTION _tuskml_log_loss(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_log_loss' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_log_loss(internal, "any", "any", text) FROM PUBLIC;
CREATE FUNCTION _tuskml_log_loss(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_log_loss' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_log_loss(internal, "any", "any", text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_brier(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_brier' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_brier(internal, "any", "any", text) FROM PUBLIC;
CREATE FUNCTION _tuskml_brier(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_brier' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_brier(internal, "any", "any", text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_auc(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_auc' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_auc(internal, "any", "any", text) FROM PUBLIC;
CREATE FUNCTION _tuskml_auc(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_auc' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_auc(internal, "any", "any", text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_average_precision(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_average_precision' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_average_precision(internal, "any", "any", text) FROM PUBLIC;
CREATE FUNCTION _tuskml_average_precision(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_average_precision' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_average_precision(internal, "any", "any", text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_roc_curve(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_roc_curve' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_roc_curve(internal, "any", "any", text) FROM PUBLIC;
CREATE FUNCTION _tuskml_roc_curve(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_roc_curve' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_roc_curve(internal, "any", "any", text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_pr_curve(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_precision_recall_curve' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_pr_curve(internal, "any", "any", text) FROM PUBLIC;
CREATE FUNCTION _tuskml_pr_curve(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_precision_recall_curve' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_pr_curve(internal, "any", "any", text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_lift(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_lift' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_lift(internal, "any", "any", text) FROM PUBLIC;
CREATE FUNCTION _tuskml_lift(internal, "any", "any", text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_lift' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_lift(internal, "any", "any", text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_calibration(internal, "any", "any", text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_calibration' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_calibration(internal, "any", "any", text) FROM PUBLIC;
CREATE FUNCTION _tuskml_calibration(internal, "any", "any", text, bigint) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_calibration' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_calibration(internal, "any", "any", text, bigint) FROM PUBLIC;
CREATE FUNCTION _tuskml_calibration(internal, "any", "any", text, integer) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_calibration' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_calibration(internal, "any", "any", text, integer) FROM PUBLIC;
CREATE FUNCTION _tuskml_calibration(internal, "any", "any", text, bigint, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_calibration' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_calibration(internal, "any", "any", text, bigint, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_calibration(internal, "any", "any", text, integer, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_calibration' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_calibration(internal, "any", "any", text, integer, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_precision_score(internal, "any", "any", text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_precision_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_precision_score(internal, "any", "any", text, text) FROM PUBLIC;
CREATE FUNCTION _tuskml_precision_score(internal, "any", "any", text, text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_precision_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_precision_score(internal, "any", "any", text, text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_recall_score(internal, "any", "any", text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_recall_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_recall_score(internal, "any", "any", text, text) FROM PUBLIC;
CREATE FUNCTION _tuskml_recall_score(internal, "any", "any", text, text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_recall_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_recall_score(internal, "any", "any", text, text, float8) FROM PUBLIC;
CREATE FUNCTION _tuskml_f1_score(internal, "any", "any", text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_f1_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_f1_score(internal, "any", "any", text, text) FROM PUBLIC;
CREATE FUNCTION _tuskml_f1_score(internal, "any", "any", text, text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_f1_score' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION _tuskml_f1_score(internal, "any", "any", text, text, float8) FROM PUBLIC;
CREATE AGGREGATE @extschema@.log_loss(label float8, p float8, positive text) (
    SFUNC = _tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label boolean, p float8, positive text) (
    SFUNC = _tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label text, p float8, positive text) (
    SFUNC = _tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label "any", p float8, positive text) (
    SFUNC = _tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label float8, p float8, positive text, weight float8) (
    SFUNC = _tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label boolean, p float8, positive text, weight float8) (
    SFUNC = _tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label text, p float8, positive text, weight float8) (
    SFUNC = _tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label "any", p float8, positive text, weight float8) (
    SFUNC = _tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label float8, p float8, positive text) (
    SFUNC = _tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label boolean, p float8, positive text) (
    SFUNC = _tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label text, p float8, positive text) (
    SFUNC = _tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label "any", p float8, positive text) (
    SFUNC = _tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label float8, p float8, positive text, weight float8) (
    SFUNC = _tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label boolean, p float8, positive text, weight float8) (
    SFUNC = _tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label text, p float8, positive text, weight float8) (
    SFUNC = _tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label "any", p float8, positive text, weight float8) (
    SFUNC = _tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.auc(label float8, score float8, positive text) (
    SFUNC = _tuskml_auc, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.auc(label boolean, score float8, positive text) (
    SFUNC = _tuskml_auc, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.auc(label text, score float8, positive text) (
    SFUNC = _tuskml_auc, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.auc(label "any", score float8, positive text) (
    SFUNC = _tuskml_auc, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.auc(label float8, score float8, positive text, weight float8) (
    SFUNC = _tuskml_auc, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.auc(label boolean, score float8, positive text, weight float8) (
    SFUNC = _tuskml_auc, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.auc(label text, score float8, positive text, weight float8) (
    SFUNC = _tuskml_auc, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.auc(label "any", score float8, positive text, weight float8) (
    SFUNC = _tuskml_auc, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.average_precision(label float8, score float8, positive text) (
    SFUNC = _tuskml_average_precision, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.average_precision(label boolean, score float8, positive text) (
    SFUNC = _tuskml_average_precision, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.average_precision(label text, score float8, positive text) (
    SFUNC = _tuskml_average_precision, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.average_precision(label "any", score float8, positive text) (
    SFUNC = _tuskml_average_precision, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.average_precision(label float8, score float8, positive text, weight float8) (
    SFUNC = _tuskml_average_precision, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.average_precision(label boolean, score float8, positive text, weight float8) (
    SFUNC = _tuskml_average_precision, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.average_precision(label text, score float8, positive text, weight float8) (
    SFUNC = _tuskml_average_precision, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.average_precision(label "any", score float8, positive text, weight float8) (
    SFUNC = _tuskml_average_precision, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_scored_number,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.roc_curve(label float8, score float8, positive text) (
    SFUNC = _tuskml_roc_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_roc_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.roc_curve(label boolean, score float8, positive text) (
    SFUNC = _tuskml_roc_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_roc_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.roc_curve(label text, score float8, positive text) (
    SFUNC = _tuskml_roc_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_roc_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.roc_curve(label "any", score float8, positive text) (
    SFUNC = _tuskml_roc_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_roc_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.roc_curve(label float8, score float8, positive text, weight float8) (
    SFUNC = _tuskml_roc_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_roc_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.roc_curve(label boolean, score float8, positive text, weight float8) (
    SFUNC = _tuskml_roc_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_roc_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.roc_curve(label text, score float8, positive text, weight float8) (
    SFUNC = _tuskml_roc_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_roc_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.roc_curve(label "any", score float8, positive text, weight float8) (
    SFUNC = _tuskml_roc_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_roc_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_recall_curve(label float8, score float8, positive text) (
    SFUNC = _tuskml_pr_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_pr_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_recall_curve(label boolean, score float8, positive text) (
    SFUNC = _tuskml_pr_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_pr_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_recall_curve(label text, score float8, positive text) (
    SFUNC = _tuskml_pr_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_pr_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_recall_curve(label "any", score float8, positive text) (
    SFUNC = _tuskml_pr_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_pr_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_recall_curve(label float8, score float8, positive text, weight float8) (
    SFUNC = _tuskml_pr_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_pr_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_recall_curve(label boolean, score float8, positive text, weight float8) (
    SFUNC = _tuskml_pr_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_pr_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_recall_curve(label text, score float8, positive text, weight float8) (
    SFUNC = _tuskml_pr_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_pr_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_recall_curve(label "any", score float8, positive text, weight float8) (
    SFUNC = _tuskml_pr_curve, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_pr_curve_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.lift(label float8, score float8, positive text) (
    SFUNC = _tuskml_lift, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_lift_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.lift(label boolean, score float8, positive text) (
    SFUNC = _tuskml_lift, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_lift_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.lift(label text, score float8, positive text) (
    SFUNC = _tuskml_lift, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_lift_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.lift(label "any", score float8, positive text) (
    SFUNC = _tuskml_lift, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_lift_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.lift(label float8, score float8, positive text, weight float8) (
    SFUNC = _tuskml_lift, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_lift_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.lift(label boolean, score float8, positive text, weight float8) (
    SFUNC = _tuskml_lift, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_lift_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.lift(label text, score float8, positive text, weight float8) (
    SFUNC = _tuskml_lift, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_lift_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.lift(label "any", score float8, positive text, weight float8) (
    SFUNC = _tuskml_lift, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_lift_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label float8, p float8, positive text) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label boolean, p float8, positive text) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label text, p float8, positive text) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label "any", p float8, positive text) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label float8, p float8, positive text, bins bigint) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label float8, p float8, positive text, bins integer) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label boolean, p float8, positive text, bins bigint) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label boolean, p float8, positive text, bins integer) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label text, p float8, positive text, bins bigint) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label text, p float8, positive text, bins integer) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label "any", p float8, positive text, bins bigint) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label "any", p float8, positive text, bins integer) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label float8, p float8, positive text, bins bigint, weight float8) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label float8, p float8, positive text, bins integer, weight float8) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label boolean, p float8, positive text, bins bigint, weight float8) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label boolean, p float8, positive text, bins integer, weight float8) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label text, p float8, positive text, bins bigint, weight float8) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label text, p float8, positive text, bins integer, weight float8) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label "any", p float8, positive text, bins bigint, weight float8) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.calibration(label "any", p float8, positive text, bins integer, weight float8) (
    SFUNC = _tuskml_calibration, STYPE = internal, SSPACE = 1024, FINALFUNC = _tuskml_calibration_rows,
    COMBINEFUNC = _tuskml_scored_combine, SERIALFUNC = _tuskml_scored_serialize, DESERIALFUNC = _tuskml_scored_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label float8, predicted float8, average text, positive text) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label boolean, predicted float8, average text, positive text) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label float8, predicted boolean, average text, positive text) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label boolean, predicted boolean, average text, positive text) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label text, predicted text, average text, positive text) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label "any", predicted "any", average text, positive text) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label float8, predicted float8, average text, positive text, weight float8) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label boolean, predicted float8, average text, positive text, weight float8) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label float8, predicted boolean, average text, positive text, weight float8) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label boolean, predicted boolean, average text, positive text, weight float8) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label text, predicted text, average text, positive text, weight float8) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.precision_score(label "any", predicted "any", average text, positive text, weight float8) (
    SFUNC = _tuskml_precision_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label float8, predicted float8, average text, positive text) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label boolean, predicted float8, average text, positive text) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label float8, predicted boolean, average text, positive text) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label boolean, predicted boolean, average text, positive text) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label text, predicted text, average text, positive text) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label "any", predicted "any", average text, positive text) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label float8, predicted float8, average text, positive text, weight float8) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label boolean, predicted float8, average text, positive text, weight float8) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label float8, predicted boolean, average text, positive text, weight float8) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label boolean, predicted boolean, average text, positive text, weight float8) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label text, predicted text, average text, positive text, weight float8) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.recall_score(label "any", predicted "any", average text, positive text, weight float8) (
    SFUNC = _tuskml_recall_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label float8, predicted float8, average text, positive text) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label boolean, predicted float8, average text, positive text) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label float8, predicted boolean, average text, positive text) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label boolean, predicted boolean, average text, positive text) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label text, predicted text, average text, positive text) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label "any", predicted "any", average text, positive text) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label float8, predicted float8, average text, positive text, weight float8) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label boolean, predicted float8, average text, positive text, weight float8) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label float8, predicted boolean, average text, positive text, weight float8) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label boolean, predicted boolean, average text, positive text, weight float8) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label text, predicted text, average text, positive text, weight float8) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.f1_score(label "any", predicted "any", average text, positive text, weight float8) (
    SFUNC = _tuskml_f1_score, STYPE = internal, SSPACE = 512, FINALFUNC = _tuskml_classes_number,
    COMBINEFUNC = _tuskml_classes_combine, SERIALFUNC = _tuskml_classes_serialize, DESERIALFUNC = _tuskml_classes_deserialize,
    PARALLEL = SAFE);
