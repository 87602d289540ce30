-- The best items as numbers: what the scores are made of (udas/scalars/recommending/recommend.h), and then an item and its
-- score in turn.
CREATE FUNCTION tuskml._tuskml_recommend(payload bytea, for_user float8, n bigint, exclude float8[]) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_recommend' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_similar_items(payload bytea, to_item float8, n bigint, exclude float8[]) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_similar_items' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- The n items with the highest predictions for a user, without those to exclude, such as the ones that the user has seen. A user
-- who was not in the training gets the items that are best for all; basis says so.
CREATE FUNCTION tuskml.recommend(model tuskml_model, for_user float8, n bigint DEFAULT 10, exclude float8[] DEFAULT '{}')
RETURNS TABLE (item bigint, score float8, basis text)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
SELECT found[2 * k]::bigint, found[2 * k + 1], (ARRAY['user', 'biases of items', 'mean of users'])[found[1]::integer + 1]
FROM (SELECT tuskml._tuskml_recommend((model).payload, for_user, n, coalesce(exclude, '{}')) AS found OFFSET 0) AS f,
     generate_series(1, cardinality(found) / 2) AS t (k)
ORDER BY k
$$;

-- The n items whose factors are most similar to those of an item, by their cosine.
CREATE FUNCTION tuskml.similar_items(model tuskml_model, to_item float8, n bigint DEFAULT 10, exclude float8[] DEFAULT '{}')
RETURNS TABLE (item bigint, score float8)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
SELECT found[2 * k]::bigint, found[2 * k + 1]
FROM (SELECT tuskml._tuskml_similar_items((model).payload, to_item, n, coalesce(exclude, '{}')) AS found OFFSET 0) AS f,
     generate_series(1, cardinality(found) / 2) AS t (k)
ORDER BY k
$$;
