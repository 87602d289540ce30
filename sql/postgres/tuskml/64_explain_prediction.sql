-- Contribution of each feature of a row to the margin, as a list
-- (udas/scalars/explaining/contributions.h): the number of margins, a value for each feature, and
-- for each margin its base value and contributions. Features of any type that predictions take; an
-- error for others.
CREATE FUNCTION tuskml._tuskml_contributions(model tuskml_model, features anyelement) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_explain_prediction' LANGUAGE C STABLE PARALLEL SAFE;

-- Such a list as rows: the base value first, then the features. Place `at` belongs to margin k and feature j, 0 for the base
-- value. A series instead of the list's own places would be planned as a thousand rows of each, which PostgreSQL compiles. In
-- PL/pgSQL a list is taken apart once; elsewhere the text at a place is found by counting from the first.
CREATE FUNCTION tuskml._tuskml_explained(told float8[], names text[], class_names text[])
RETURNS TABLE (feature text, value float8, contribution float8, class text)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE ROWS 20 SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    d integer := (cardinality(told) - 1 - told[1]) / (told[1] + 1);
BEGIN
    RETURN QUERY
    SELECT CASE WHEN j = 0 THEN 'base value' ELSE coalesce(names[j], 'x' || j) END, CASE WHEN j > 0 THEN told[1 + j] END,
           item, CASE WHEN told[1] > 1 THEN class_names[k + 1] WHEN cardinality(class_names) = 2 THEN class_names[2] END
    FROM unnest(told) WITH ORDINALITY AS items (item, at),
         LATERAL (SELECT (at::integer - 2 - d) / (d + 1) AS k, (at::integer - 2 - d) % (d + 1) AS j) AS places
    WHERE at > 1 + d
    ORDER BY k, j;
END
$$;

-- Contribution of each feature of a row to the margin of a class, for two classes the higher one:
-- with the base value they add up to it.
CREATE FUNCTION tuskml.explain_prediction(model tuskml_model, features anyelement)
RETURNS TABLE (feature text, value float8, contribution float8, class text)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 20 SET search_path = pg_catalog, pg_temp AS $$
SELECT told.feature, told.value, told.contribution, told.class FROM tuskml._tuskml_explained(
    tuskml._tuskml_contributions(model, features), coalesce((model).features, '{}'), coalesce((model).class_names, '{}')) AS told
$$;

-- The prediction with its standard error, the confidence interval of the mean, and the interval of a label.
CREATE TYPE @extschema@.tuskml_interval AS (
    fit float8, std_err float8, lower float8, upper float8, prediction_lower float8, prediction_upper float8);
COMMENT ON TYPE tuskml_interval IS 'What predict_interval answers';
CREATE FUNCTION tuskml.predict_interval(model tuskml_model, features anyelement, level float8 DEFAULT 0.95) RETURNS tuskml_interval
AS 'MODULE_PATHNAME', 'tuskml_predict_interval' LANGUAGE C STABLE PARALLEL SAFE;

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
