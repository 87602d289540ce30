-- The best items as texts: what the scores are made of (udas/scalars/recommending/recommend.h), and then an item and its score
-- in turn. numbers: whether items have to be whole numbers.
CREATE FUNCTION tuskml._tuskml_recommend(payload bytea, for_user text, n bigint, exclude text[], numbers boolean) RETURNS text[]
AS 'MODULE_PATHNAME', 'tuskml_recommend' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_similar_items(payload bytea, to_item text, n bigint, exclude text[], numbers boolean) RETURNS text[]
AS 'MODULE_PATHNAME', 'tuskml_similar_items' LANGUAGE C STABLE STRICT PARALLEL SAFE;
CREATE FUNCTION tuskml._tuskml_recommend_by_items(payload bytea, items text[], n bigint, exclude text[], numbers boolean,
                                                  ratings float8[], options text) RETURNS text[]
AS 'MODULE_PATHNAME', 'tuskml_recommend_by_items' LANGUAGE C STABLE STRICT PARALLEL SAFE;

-- The n items with the highest predictions for a user, without those to exclude, such as the ones that the user has seen. A user
-- who was not in the training gets the items that are best for all; basis says so.
CREATE FUNCTION tuskml.recommend(model tuskml_model, for_user {1:float8|bigint|text|uuid}, n bigint DEFAULT 10, exclude {1}[] DEFAULT '{}')
RETURNS TABLE (item {1:bigint|bigint|text|text}, score float8, basis text)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
SELECT found[2 * k]::{1:bigint|bigint|text|text}, found[2 * k + 1]::float8, found[1]
FROM (SELECT tuskml._tuskml_recommend((model).payload, for_user::text, n, coalesce(exclude, '{}')::text[], {1:true|true|false|false})
      AS found OFFSET 0) AS f,
     generate_series(1, cardinality(found) / 2) AS t (k)
ORDER BY k
$$;

-- The n items with the highest predictions for a user who was not in the training, from his ratings of items or choices, without
-- these items.
CREATE FUNCTION tuskml.recommend_by_items(model tuskml_model, items {1:bigint|text|uuid}[], ratings float8[],
                                          n bigint DEFAULT 10, exclude {1}[] DEFAULT '{}')
RETURNS TABLE (item {1:bigint|text|text}, score float8, basis text)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
SELECT found[2 * k]::{1:bigint|text|text}, found[2 * k + 1]::float8, found[1]
FROM (SELECT tuskml._tuskml_recommend_by_items((model).payload, items::text[], n, coalesce(exclude, '{}')::text[],
                                               {1:true|false|false}, ratings, (model).options)
      AS found OFFSET 0) AS f,
     generate_series(1, cardinality(found) / 2) AS t (k)
ORDER BY k
$$;

-- The n items whose factors are most similar to those of an item, by their cosine.
CREATE FUNCTION tuskml.similar_items(model tuskml_model, to_item {1:float8|bigint|text|uuid}, n bigint DEFAULT 10, exclude {1}[] DEFAULT '{}')
RETURNS TABLE (item {1:bigint|bigint|text|text}, score float8)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
SELECT found[2 * k]::{1:bigint|bigint|text|text}, found[2 * k + 1]::float8
FROM (SELECT tuskml._tuskml_similar_items((model).payload, to_item::text, n, coalesce(exclude, '{}')::text[], {1:true|true|false|false})
      AS found OFFSET 0) AS f,
     generate_series(1, cardinality(found) / 2) AS t (k)
ORDER BY k
$$;
