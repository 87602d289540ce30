-- The numbers of the trees in a payload; NULL if they are in the field coef.
CREATE FUNCTION tuskml._tuskml_tree_numbers(payload bytea) RETURNS float8[]
AS 'MODULE_PATHNAME', 'tuskml_tree_numbers' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;

-- The numbers of a model of trees (in the order of udas/scalars/models/trees.c), or an error for
-- another model.
CREATE FUNCTION tuskml._tuskml_trees_of(asked text, model tuskml_model) RETURNS float8[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF tuskml._tuskml_is_of_trees((model).task) THEN
        IF (model).n_features NOT BETWEEN 0 AND 16777216 THEN
            RAISE EXCEPTION '%: the model has % features, expected at most 16777216', asked, (model).n_features
                USING ERRCODE = 'invalid_parameter_value';
        END IF;
        RETURN coalesce((model).coef, tuskml._tuskml_tree_numbers((model).payload));
    END IF;
    RAISE EXCEPTION '%: the model is ''%'', expected a model of trees', asked, (model).task
        USING ERRCODE = 'invalid_parameter_value';
END
$$;

-- The levels that a split sends left, by name: the set at distance from_end before the end of a
-- model's numbers. names: those of levels from 0 on.
CREATE FUNCTION tuskml._tuskml_levels_left(numbers float8[], from_end float8, names jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
SELECT array_agg(coalesce(names->>l, CASE WHEN l = jsonb_array_length(names) THEN 'missing' END, l::text) ORDER BY l)
FROM (SELECT 1 + cardinality(numbers) - from_end::integer AS first) AS s,
     generate_series(0, 32 * least(numbers[first], 2048)::integer - 1) AS t (l)
WHERE (numbers[first + 1 + l / 32]::bigint >> (l % 32)) & 1 = 1
$$;

-- One row a node: splits send rows of up to `threshold`, or of the levels in `levels`, to the left, and leaves add `value` to the
-- margin.
CREATE FUNCTION tuskml.tree_dump(model tuskml_model)
RETURNS TABLE (tree bigint, node bigint, feature text, threshold float8, left_child bigint, right_child bigint,
               value float8, gain float8, n_rows bigint, missing_left boolean, class text, levels text[])
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    numbers float8[] := tuskml._tuskml_trees_of('tree_dump', model);
    names text[] := model.features;
    class_names text[] := model.class_names;
    outputs bigint := greatest(numbers[3], 1);
    head bigint := 3 + numbers[3];
    first bigint := head + numbers[2];  -- the place before that of the first node
    levels_of jsonb := (SELECT jsonb_object_agg(c->>'name', c->'levels')
                        FROM jsonb_array_elements(model.preparation::jsonb->'columns') AS t (c)
                        WHERE c->>'kind' = 'levels' AND c->>'name' IS NOT NULL);
BEGIN
    RETURN QUERY
    WITH sizes AS (
        SELECT i AS tree, greatest(item, 0) AS size, sum(greatest(item, 0)) OVER (ORDER BY i) - greatest(item, 0) AS before
        FROM unnest(numbers[head + 1:first]) WITH ORDINALITY AS t (item, i)),
    nodes AS (
        SELECT tree, (place - before)::bigint AS node, numbers[at + 1] AS feature, numbers[at + 2] AS value,
               numbers[at + 3] AS right_child, numbers[at + 4] AS gain, numbers[at + 5] AS n_rows, numbers[at + 6] AS missing
        FROM sizes, generate_series(before::bigint, least(before + size, (cardinality(numbers) - first + 5) / 6)::bigint - 1) AS place,
             LATERAL (SELECT (first + 6 * place)::integer AS at) AS begun)
    SELECT tree, node,
           CASE WHEN feature >= 0 THEN coalesce(names[feature::bigint + 1], 'x' || (feature::bigint + 1)) END,
           CASE WHEN feature >= 0 AND missing < 2 THEN value END,
           CASE WHEN feature >= 0 THEN node + 1 END,
           CASE WHEN feature >= 0 THEN right_child::bigint END,
           CASE WHEN feature < 0 THEN value END,
           CASE WHEN feature >= 0 THEN gain END, n_rows::bigint,
           CASE WHEN feature >= 0 THEN missing = 1 END,
           CASE WHEN outputs > 1 THEN class_names[(tree - 1) % outputs + 1] END,
           CASE WHEN missing = 2 THEN tuskml._tuskml_levels_left(numbers, value, levels_of->names[feature::bigint + 1]) END
    FROM nodes ORDER BY 1, 2;
END
$$;

-- Total gain and number of the splits by each feature; the most important first.
CREATE FUNCTION tuskml.feature_importance(model tuskml_model)
RETURNS TABLE (feature text, gain float8, splits bigint)
LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_column
DECLARE
    names text[] := model.features;
    width bigint := model.n_features;
    of_trees float8 := coalesce((tuskml._tuskml_trees_of('feature_importance', model))[1], least(width, 1000000));
BEGIN
    IF of_trees <> width THEN
        RAISE EXCEPTION 'feature_importance: the model has % features, and its trees have % at most: restore it from a backup', width, of_trees
            USING ERRCODE = 'data_corrupted';
    END IF;
    RETURN QUERY
    WITH known AS (SELECT coalesce(names[place], 'x' || place) AS feature, place FROM generate_series(1, width) AS t (place)),
    used AS (
        SELECT d.feature, sum(d.gain) AS gain, count(*) AS splits
        FROM tuskml.tree_dump(model) AS d WHERE d.feature IS NOT NULL GROUP BY d.feature)
    SELECT known.feature, coalesce(used.gain, 0), coalesce(used.splits, 0)
    FROM known LEFT JOIN used ON used.feature = known.feature ORDER BY 2 DESC, known.place;
END
$$;
