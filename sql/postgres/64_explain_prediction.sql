-- What each feature of a row adds to the margin, as a list (udas/scalars/explaining/contributions.h): the number of
-- margins, a value for each feature, and for each margin its base value and contributions.
CREATE FUNCTION _tuskml_contributions(model tuskml_model, features anyarray) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_explain_dense' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_contributions(model tuskml_model, features tuskml_sparse_real) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_explain_sparse' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_contributions(model tuskml_model, features tuskml_sparse_double) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_explain_sparse' LANGUAGE C IMMUTABLE PARALLEL SAFE;
CREATE FUNCTION _tuskml_contributions(model tuskml_model, features record) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_explain_row' LANGUAGE C STABLE PARALLEL SAFE;

-- Such a list as rows: the base value first, then the features.
CREATE FUNCTION _tuskml_explained(told float8[], names text[], class_names text[])
RETURNS TABLE (feature text, value float8, contribution float8, class text)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE WHEN j = 0 THEN 'base value' ELSE coalesce(names[j], 'x' || j) END, CASE WHEN j > 0 THEN told[1 + j] END,
       told[2 + d + k * (d + 1) + j], CASE WHEN told[1] > 1 THEN class_names[k + 1] END
FROM (SELECT told[1]::integer AS margins, ((cardinality(told) - 1 - told[1]) / (told[1] + 1))::integer AS d) AS sizes,
     generate_series(0, margins - 1) AS k, generate_series(0, d) AS j
ORDER BY k, j
$$;

-- What each feature of a row adds to the margin: with the base value they add up to it.
CREATE FUNCTION explain_prediction(model tuskml_model, features anyarray)
RETURNS TABLE (feature text, value float8, contribution float8, class text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT * FROM @extschema@._tuskml_explained(
    @extschema@._tuskml_contributions(model, features), coalesce((model).features, '{}'), coalesce((model).class_names, '{}'))
$$;
CREATE FUNCTION explain_prediction(model tuskml_model, features tuskml_sparse_real)
RETURNS TABLE (feature text, value float8, contribution float8, class text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT * FROM @extschema@._tuskml_explained(
    @extschema@._tuskml_contributions(model, features), coalesce((model).features, '{}'), coalesce((model).class_names, '{}'))
$$;
CREATE FUNCTION explain_prediction(model tuskml_model, features tuskml_sparse_double)
RETURNS TABLE (feature text, value float8, contribution float8, class text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT * FROM @extschema@._tuskml_explained(
    @extschema@._tuskml_contributions(model, features), coalesce((model).features, '{}'), coalesce((model).class_names, '{}'))
$$;
CREATE FUNCTION explain_prediction(model tuskml_model, features record)
RETURNS TABLE (feature text, value float8, contribution float8, class text)
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT * FROM @extschema@._tuskml_explained(
        @extschema@._tuskml_contributions(model, features), coalesce((model).features, '{}'), coalesce((model).class_names, '{}'));
END
$$;
