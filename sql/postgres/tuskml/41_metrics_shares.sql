-- log_loss and brier of a label and the probabilities of all classes by name, as predict_probas returns them.
CREATE FUNCTION tuskml._tuskml_log_loss_shares(internal, "any", jsonb) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_log_loss_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_log_loss_shares(internal, "any", jsonb, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_log_loss_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_brier_shares(internal, "any", jsonb) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_brier_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_brier_shares(internal, "any", jsonb, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_brier_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_log_loss_shares(internal, "any", jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_log_loss_shares(internal, "any", jsonb, float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_brier_shares(internal, "any", jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_brier_shares(internal, "any", jsonb, float8) FROM PUBLIC;

-- The mean of -log of the label's probability, for any number of classes.
CREATE AGGREGATE tuskml.log_loss(label text, p jsonb) (
    SFUNC = tuskml._tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.log_loss(label text, p jsonb, weight float8) (
    SFUNC = tuskml._tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.log_loss(label float8, p jsonb) (
    SFUNC = tuskml._tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.log_loss(label float8, p jsonb, weight float8) (
    SFUNC = tuskml._tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.log_loss(label boolean, p jsonb) (
    SFUNC = tuskml._tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.log_loss(label boolean, p jsonb, weight float8) (
    SFUNC = tuskml._tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean of the squared distances of all probabilities from 0 or 1, halved for two classes.
CREATE AGGREGATE tuskml.brier(label text, p jsonb) (
    SFUNC = tuskml._tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.brier(label text, p jsonb, weight float8) (
    SFUNC = tuskml._tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.brier(label float8, p jsonb) (
    SFUNC = tuskml._tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.brier(label float8, p jsonb, weight float8) (
    SFUNC = tuskml._tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.brier(label boolean, p jsonb) (
    SFUNC = tuskml._tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE tuskml.brier(label boolean, p jsonb, weight float8) (
    SFUNC = tuskml._tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = tuskml._tuskml_metric_give,
    COMBINEFUNC = tuskml._tuskml_metric_combine, SERIALFUNC = tuskml._tuskml_metric_serialize, DESERIALFUNC = tuskml._tuskml_metric_deserialize,
    PARALLEL = SAFE);
