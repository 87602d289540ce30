-- Least squares by moments of the rows. A window adds and removes rows; a removal that costs digits makes it begin again.
CREATE FUNCTION tuskml._tuskml_rolling_{1:add|remove}(internal, label float8, features anyarray{|, weight float8}) RETURNS internal
AS 'MODULE_PATHNAME', 'tuskml_rolling_{1}' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_rolling_give(internal) RETURNS tuskml_model
AS 'MODULE_PATHNAME', 'tuskml_rolling_give' LANGUAGE C IMMUTABLE PARALLEL SAFE;
REVOKE ALL ON FUNCTION tuskml._tuskml_rolling_{add|remove}(internal, float8, anyarray{|, float8}) FROM PUBLIC;
REVOKE ALL ON FUNCTION tuskml._tuskml_rolling_give(internal) FROM PUBLIC;

CREATE AGGREGATE tuskml.rolling_model(label float8, features anyarray{|, weight float8}) (
    SFUNC = tuskml._tuskml_rolling_add, STYPE = internal, SSPACE = 4096, FINALFUNC = tuskml._tuskml_rolling_give,
    MSFUNC = tuskml._tuskml_rolling_add, MINVFUNC = tuskml._tuskml_rolling_remove, MSTYPE = internal, MSSPACE = 4096,
    MFINALFUNC = tuskml._tuskml_rolling_give, PARALLEL = SAFE);
