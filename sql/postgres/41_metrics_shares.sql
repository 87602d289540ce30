-- log_loss and brier of a label and the probabilities of all classes by name, as predict_probas returns them.
CREATE FUNCTION _tuskml_log_loss_shares(internal, "any", jsonb) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_log_loss_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_log_loss_shares(internal, "any", jsonb, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_log_loss_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_brier_shares(internal, "any", jsonb) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_brier_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_brier_shares(internal, "any", jsonb, float8) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_brier_shares' LANGUAGE C IMMUTABLE PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION _tuskml_log_loss_shares(internal, "any", jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION _tuskml_log_loss_shares(internal, "any", jsonb, float8) FROM PUBLIC;
REVOKE ALL ON FUNCTION _tuskml_brier_shares(internal, "any", jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION _tuskml_brier_shares(internal, "any", jsonb, float8) FROM PUBLIC;

-- The mean of -log of what the label got, of any number of classes.
CREATE AGGREGATE @extschema@.log_loss(label text, p jsonb) (
    SFUNC = _tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label text, p jsonb, weight float8) (
    SFUNC = _tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label float8, p jsonb) (
    SFUNC = _tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label float8, p jsonb, weight float8) (
    SFUNC = _tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label boolean, p jsonb) (
    SFUNC = _tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.log_loss(label boolean, p jsonb, weight float8) (
    SFUNC = _tuskml_log_loss_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);

-- The mean of the squared distances of all probabilities from 0 or 1, of two classes the half of it.
CREATE AGGREGATE @extschema@.brier(label text, p jsonb) (
    SFUNC = _tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label text, p jsonb, weight float8) (
    SFUNC = _tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label float8, p jsonb) (
    SFUNC = _tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label float8, p jsonb, weight float8) (
    SFUNC = _tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label boolean, p jsonb) (
    SFUNC = _tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
CREATE AGGREGATE @extschema@.brier(label boolean, p jsonb, weight float8) (
    SFUNC = _tuskml_brier_shares, STYPE = internal, SSPACE = 96, FINALFUNC = _tuskml_metric_give,
    COMBINEFUNC = _tuskml_metric_combine, SERIALFUNC = _tuskml_metric_serialize, DESERIALFUNC = _tuskml_metric_deserialize,
    PARALLEL = SAFE);
