-- Two predictions of the same rows: the mean of a metric for each, and the paired difference.
CREATE TYPE @extschema@.tuskml_comparison AS (
    n bigint, mean_a float8, mean_b float8, difference float8, std_err float8, lower float8, upper float8, p_value float8);
COMMENT ON TYPE tuskml_comparison IS 'What compare answers';

CREATE FUNCTION tuskml._tuskml_compare(internal, "any", "any", "any", text{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_compare' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_compare_text(internal, text, text, text, text{|, float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_compare_text' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_compare_give(internal) RETURNS tuskml_comparison
AS 'MODULE_PATHNAME', 'tuskml_compare_give' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_compare_{1:combine|serialize|deserialize}({1:internal, internal|internal|bytea, internal})
RETURNS {1:internal|bytea|internal}
AS 'MODULE_PATHNAME', 'tuskml_compare_{1}' LANGUAGE C IMMUTABLE {1:|STRICT |STRICT }PARALLEL SAFE;

-- An aggregate needs these rights of its owner only.
REVOKE ALL ON FUNCTION tuskml._tuskml_compare(internal, "any", "any", "any", text{|, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_compare_text(internal, text, text, text, text{|, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_compare_{1:give|combine|serialize|deserialize}({1:internal|internal, internal|internal|bytea, internal})
FROM PUBLIC;

CREATE AGGREGATE tuskml.compare(label {1:float8|boolean|float8|boolean|text}, prediction_a {1:float8|float8|boolean|boolean|text},
    prediction_b {1:float8|float8|boolean|boolean|text}, metric text{|, weight float8}) (
    SFUNC = tuskml._tuskml_compare{1:||||_text}, STYPE = internal, SSPACE = 256, FINALFUNC = tuskml._tuskml_compare_give,
    COMBINEFUNC = tuskml._tuskml_compare_combine, SERIALFUNC = tuskml._tuskml_compare_serialize,
    DESERIALFUNC = tuskml._tuskml_compare_deserialize, PARALLEL = SAFE);
