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
