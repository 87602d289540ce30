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

-- The mean of -log of the label's probability; labels are boolean, 0 and 1, or -1 and +1.
CREATE AGGREGATE tuskml.log_loss(label {float8|boolean}, p float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_log_loss, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The share of rows that are equal.
CREATE AGGREGATE tuskml.accuracy(label {1:float8|boolean|float8|boolean|text}, predicted {1:float8|float8|boolean|boolean|text}{|, weight float8}) (
    SFUNC = tuskml._tuskml_accuracy{1:||||_text}, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The root of the mean squared error.
CREATE AGGREGATE tuskml.rmse(label {float8|boolean}, predicted float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_rmse, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean absolute error.
CREATE AGGREGATE tuskml.mae(label {float8|boolean}, predicted float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_mae, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- 1 - squared error / squared distance of the labels from their mean.
CREATE AGGREGATE tuskml.r2(label {float8|boolean}, predicted float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_r2, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean squared distance of a probability from its label; labels as for log_loss.
CREATE AGGREGATE tuskml.brier(label {float8|boolean}, p float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_brier, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean absolute error as a share of the label; a label of 0 counts as 2.2e-16.
CREATE AGGREGATE tuskml.mape(label {float8|boolean}, predicted float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_mape, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean loss of a predicted quantile.
CREATE AGGREGATE tuskml.pinball(label {float8|boolean}, predicted float8, quantile float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_pinball, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean Tweedie deviance of a power between 1 and 2; labels from 0, predictions above 0.
CREATE AGGREGATE tuskml.tweedie_deviance(label {float8|boolean}, predicted float8, power float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_tweedie_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean Poisson deviance; labels from 0, predictions above 0.
CREATE AGGREGATE tuskml.poisson_deviance(label {float8|boolean}, predicted float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_poisson_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean gamma deviance; labels and predictions above 0.
CREATE AGGREGATE tuskml.gamma_deviance(label {float8|boolean}, predicted float8{|, weight float8}) (
    SFUNC = tuskml._tuskml_gamma_deviance, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
