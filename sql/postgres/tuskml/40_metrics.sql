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
