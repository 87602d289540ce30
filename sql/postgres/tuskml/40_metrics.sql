-- The metrics that are sums over rows have one kind of state.
CREATE FUNCTION tuskml._tuskml_metric_give(internal) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_metric_give' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_metric_combine(internal, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_metric_combine' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_metric_serialize(internal) RETURNS bytea
AS 'MODULE_PATHNAME', 'tuskml_metric_serialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_metric_deserialize(bytea, internal) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_metric_deserialize' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The transitions: a label and a prediction, booleans or double precision.
CREATE FUNCTION tuskml._tuskml_log_loss(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_log_loss' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_log_loss(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_log_loss' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_accuracy(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_accuracy' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_accuracy(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_accuracy' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_rmse(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_rmse' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_rmse(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_rmse' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_mae(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_mae' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_mae(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_mae' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_r2(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_r2' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_r2(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_r2' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_brier(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_brier' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_brier(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_brier' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_mape(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_mape' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_mape(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_mape' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_poisson_deviance(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_poisson_deviance' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_poisson_deviance(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_poisson_deviance' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_gamma_deviance(internal, "any", "any") RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_gamma_deviance' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_gamma_deviance(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_gamma_deviance' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_pinball(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_pinball' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_pinball(internal, "any", "any", float8, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_pinball' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_tweedie_deviance(internal, "any", "any", float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_tweedie_deviance' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_tweedie_deviance(internal, "any", "any", float8, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_tweedie_deviance' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_accuracy_text(internal, text, text) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_accuracy_text' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_accuracy_text(internal, text, text, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_accuracy_text' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_metric_give(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_metric_combine(internal, internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_metric_serialize(internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_metric_deserialize(bytea, internal) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_log_loss(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_log_loss(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_accuracy(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_accuracy(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_rmse(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_rmse(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_mae(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_mae(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_r2(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_r2(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_brier(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_brier(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_mape(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_mape(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_poisson_deviance(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_poisson_deviance(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_gamma_deviance(internal, "any", "any") FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_gamma_deviance(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_pinball(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_pinball(internal, "any", "any", float8, float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_tweedie_deviance(internal, "any", "any", float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_tweedie_deviance(internal, "any", "any", float8, float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_accuracy_text(internal, text, text) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_accuracy_text(internal, text, text, float8) FROM PUBLIC;

-- The mean of -log of the label's probability; labels are boolean, 0 and 1, or -1 and +1.
CREATE AGGREGATE tuskml.log_loss(label float8, p float8) (
    SFUNC = tuskml._tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.log_loss(label float8, p float8, weight float8) (
    SFUNC = tuskml._tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.log_loss(label boolean, p float8) (
    SFUNC = tuskml._tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.log_loss(label boolean, p float8, weight float8) (
    SFUNC = tuskml._tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The share of rows that are equal.
CREATE AGGREGATE tuskml.accuracy(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_accuracy, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label float8, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_accuracy, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_accuracy, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label boolean, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_accuracy, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label float8, predicted boolean) (
    SFUNC = tuskml._tuskml_accuracy, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label float8, predicted boolean, weight float8) (
    SFUNC = tuskml._tuskml_accuracy, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label boolean, predicted boolean) (
    SFUNC = tuskml._tuskml_accuracy, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label boolean, predicted boolean, weight float8) (
    SFUNC = tuskml._tuskml_accuracy, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label text, predicted text) (
    SFUNC = tuskml._tuskml_accuracy_text, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.accuracy(label text, predicted text, weight float8) (
    SFUNC = tuskml._tuskml_accuracy_text, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The root of the mean squared error.
CREATE AGGREGATE tuskml.rmse(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_rmse, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.rmse(label float8, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_rmse, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.rmse(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_rmse, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.rmse(label boolean, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_rmse, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean absolute error.
CREATE AGGREGATE tuskml.mae(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_mae, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.mae(label float8, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_mae, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.mae(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_mae, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.mae(label boolean, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_mae, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- 1 - squared error / squared distance of the labels from their mean.
CREATE AGGREGATE tuskml.r2(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_r2, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.r2(label float8, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_r2, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.r2(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_r2, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.r2(label boolean, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_r2, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean squared distance of a probability from its label; labels as for log_loss.
CREATE AGGREGATE tuskml.brier(label float8, p float8) (
    SFUNC = tuskml._tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.brier(label float8, p float8, weight float8) (
    SFUNC = tuskml._tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.brier(label boolean, p float8) (
    SFUNC = tuskml._tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.brier(label boolean, p float8, weight float8) (
    SFUNC = tuskml._tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean absolute error as a share of the label; a label of 0 counts as 2.2e-16.
CREATE AGGREGATE tuskml.mape(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_mape, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.mape(label float8, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_mape, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.mape(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_mape, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.mape(label boolean, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_mape, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean loss of a predicted quantile.
CREATE AGGREGATE tuskml.pinball(label float8, predicted float8, quantile float8) (
    SFUNC = tuskml._tuskml_pinball, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.pinball(label float8, predicted float8, quantile float8, weight float8) (
    SFUNC = tuskml._tuskml_pinball, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.pinball(label boolean, predicted float8, quantile float8) (
    SFUNC = tuskml._tuskml_pinball, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.pinball(label boolean, predicted float8, quantile float8, weight float8) (
    SFUNC = tuskml._tuskml_pinball, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean Tweedie deviance of a power between 1 and 2; labels from 0, predictions above 0.
CREATE AGGREGATE tuskml.tweedie_deviance(label float8, predicted float8, power float8) (
    SFUNC = tuskml._tuskml_tweedie_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.tweedie_deviance(label float8, predicted float8, power float8, weight float8) (
    SFUNC = tuskml._tuskml_tweedie_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.tweedie_deviance(label boolean, predicted float8, power float8) (
    SFUNC = tuskml._tuskml_tweedie_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.tweedie_deviance(label boolean, predicted float8, power float8, weight float8) (
    SFUNC = tuskml._tuskml_tweedie_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean Poisson deviance; labels from 0, predictions above 0.
CREATE AGGREGATE tuskml.poisson_deviance(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_poisson_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.poisson_deviance(label float8, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_poisson_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.poisson_deviance(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_poisson_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.poisson_deviance(label boolean, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_poisson_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean gamma deviance; labels and predictions above 0.
CREATE AGGREGATE tuskml.gamma_deviance(label float8, predicted float8) (
    SFUNC = tuskml._tuskml_gamma_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.gamma_deviance(label float8, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_gamma_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.gamma_deviance(label boolean, predicted float8) (
    SFUNC = tuskml._tuskml_gamma_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.gamma_deviance(label boolean, predicted float8, weight float8) (
    SFUNC = tuskml._tuskml_gamma_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
