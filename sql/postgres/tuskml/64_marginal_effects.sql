-- The average marginal effects of a model's features over rows, as an array of a row per term.
CREATE TYPE @extschema@.tuskml_effect AS (
    term text, effect float8, std_err float8, statistic float8, p_value float8, lower float8, upper float8);
COMMENT ON TYPE tuskml_effect IS 'A row of what marginal_effects answers';

CREATE FUNCTION tuskml._tuskml_effects_add(internal, tuskml_model, anyelement{|, float8|, float8, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_marginal_effects_add' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_effects_give(internal) RETURNS tuskml_effect[]
AS 'MODULE_PATHNAME', 'tuskml_marginal_effects_give' LANGUAGE C STABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_effects_{1:combine|serialize|deserialize}({1:internal, internal|internal|bytea, internal})
RETURNS {1:internal|bytea|internal}
AS 'MODULE_PATHNAME', 'tuskml_marginal_effects_{1}' LANGUAGE C IMMUTABLE {1:|STRICT |STRICT }PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_effects_add(internal, tuskml_model, anyelement{|, float8|, float8, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_effects_{1:give|combine|serialize|deserialize}({1:internal|internal, internal|internal|bytea, internal})
FROM PUBLIC;

CREATE AGGREGATE tuskml.marginal_effects(model tuskml_model, features anyelement{|, weight float8|, weight float8, "offset" float8}) (
    SFUNC = tuskml._tuskml_effects_add, STYPE = internal, SSPACE = 4096, FINALFUNC = tuskml._tuskml_effects_give,
    COMBINEFUNC = tuskml._tuskml_effects_combine, SERIALFUNC = tuskml._tuskml_effects_serialize,
    DESERIALFUNC = tuskml._tuskml_effects_deserialize, PARALLEL = SAFE);
