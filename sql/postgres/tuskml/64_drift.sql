-- How far rows are from those that a model was trained on, as an array of a row per feature.
CREATE TYPE @extschema@.tuskml_drift_line AS (
    feature text, psi float8, ks_low float8, ks_high float8, nulls_before float8, nulls_now float8,
    new_levels text, missing_levels text);
COMMENT ON TYPE tuskml_drift_line IS 'A row of what drift answers';

CREATE FUNCTION tuskml._tuskml_drift_add(internal, tuskml_model, anyelement{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_drift_add' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_drift_give(internal) RETURNS tuskml_drift_line[]
AS 'MODULE_PATHNAME', 'tuskml_drift_give' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_drift_{1:combine|serialize|deserialize}({1:internal, internal|internal|bytea, internal})
RETURNS {1:internal|bytea|internal}
AS 'MODULE_PATHNAME', 'tuskml_drift_{1}' LANGUAGE C IMMUTABLE {1:|STRICT |STRICT }PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_drift_add(internal, tuskml_model, anyelement{|, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_drift_{1:give|combine|serialize|deserialize}({1:internal|internal, internal|internal|bytea, internal})
FROM PUBLIC;

CREATE AGGREGATE tuskml.drift(model tuskml_model, features anyelement{|, weight float8}) (
    SFUNC = tuskml._tuskml_drift_add, STYPE = internal, SSPACE = 4096, FINALFUNC = tuskml._tuskml_drift_give,
    COMBINEFUNC = tuskml._tuskml_drift_combine, SERIALFUNC = tuskml._tuskml_drift_serialize,
    DESERIALFUNC = tuskml._tuskml_drift_deserialize, PARALLEL = SAFE);
