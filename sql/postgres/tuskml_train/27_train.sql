-- A training that reads some blocks of a table, where its options allow that: the handle with which _tusk_take_model returns
-- its model, which is trained, or trains on all rows and explains why; NULL where all rows are to be read.
-- Queries run with the rights of the caller and in its transaction.
-- path: the search_path for the expressions. The query loads the library, which the first lines of Python look for.
CREATE FUNCTION tuskml._tuskml_sampled(source regclass, task text, label text, features text, options text, path text,
    OUT handle text, OUT trained boolean)
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp AS $python$
    if "trainer" not in SD:
        plpy.execute("SELECT tuskml.hash_features(ARRAY['x'], 1)")
@load.py@
        SD["module"] = load("tuskml.groups.contract.sampled")
        SD["trainer"] = SD["module"].trainer(load("tuskml.version").VERSION)
    plpy.execute("SELECT set_config('search_path', {}, true)".format(plpy.quote_literal(path)))
    asked = SD["module"].Asked(source, task, label, features, options)
    return SD["trainer"](plpy, "tuskml", asked)
$python$;

-- The options that are for rows with names, as an object; an empty one where there are none or the text is no JSON.
CREATE FUNCTION tuskml._tuskml_by_name(options text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF options !~ '"(categories|interactions|text|cluster|absorb|fold_by|time_by|missing)"' THEN
        RETURN '{}';
    END IF;
    RETURN (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM jsonb_each(options::jsonb) WHERE key IN ('categories', 'interactions', 'text', 'cluster', 'absorb', 'fold_by', 'time_by')
            OR key = 'missing' AND value IN ('"impute"', '"level"', '"error"'));
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN '{}';  -- the training says what is wrong
END
$$;

-- Options that name the features of an array of columns, unless options name them.
CREATE FUNCTION tuskml._tuskml_with_names(options text, terms text[], names text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE WHEN count(DISTINCT t.name) < cardinality(names) OR bool_or(t.term <> quote_ident(t.name))
                 OR options !~ '^\s*(\{.*)?$' OR strpos(options, '"feature_names"') > 0 THEN options
            ELSE format('{"feature_names": %s%s', to_json(names), CASE WHEN options ~ '^\s*(\{\s*\}\s*)?$' THEN '}'
                        ELSE ', ' || regexp_replace(options, '^\s*\{', '') END) END
FROM unnest(terms, names) AS t (term, name)
$$;

-- A column by its name alone, without a cast, the table's name, quotes and parentheses; another expression without spaces.
CREATE FUNCTION tuskml._tuskml_plain(term text) RETURNS text
LANGUAGE sql IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(substring(lower(term) FROM
    '^[\s(]*(?:cast\s*\(\s*)?(?:[\w$]+\s*\.\s*|"[^"]+"\s*\.\s*)*"?([\w$]+)"?(?:[\s)]*|\s+as\s+[\w\s]+(?:\([\d,\s]+\))?\s*\)[\s)]*)(?:::\s*[\w\s]+(?:\([\d,\s]+\))?[\s)]*)*$'),
    regexp_replace(lower(term), '\s', '', 'g'))
$$;

-- The SQL of the texts of train(...), and its options: the label, the features, and arguments of
-- train_model after the options.
CREATE FUNCTION tuskml._tuskml_train_sql(source regclass, task text, label text, features text[], given text, weight text, "offset" text,
    OUT y text, OUT x text, OUT options text, OUT extras text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms text[];
    plain text[];
    columns text[];
    by_name jsonb := tuskml._tuskml_by_name(given);
    mark text;
BEGIN
    IF source IS NULL OR task IS NULL OR label IS NULL OR coalesce(cardinality(features), 0) = 0
       OR array_position(features, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'train: source, task, label or features is missing, expected a table, a task and SQL expressions'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT array_agg(CASE WHEN a.attname IS NULL THEN format(E'(%s\n)', t.term) ELSE quote_ident(t.term) END ORDER BY t.place),
           array_agg(coalesce(a.attname::text, tuskml._tuskml_plain(t.term)) ORDER BY t.place)
    INTO terms, plain
    FROM unnest(label || features || coalesce(weight, '1') || coalesce("offset", '0')) WITH ORDINALITY AS t (term, place)
    LEFT JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = source AND a.attname::text = t.term AND a.attnum > 0 AND NOT a.attisdropped;
    IF plain[1] = ANY (plain[2:cardinality(terms) - 2]) THEN
        RAISE EXCEPTION 'train: features has the label ''%'' itself, expected columns to predict it from', label
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    columns := terms[2:cardinality(terms) - 2];
    x := tuskml._tuskml_features_sql(tuskml._tuskml_types(source, columns), columns, features, by_name);
    -- Columns of options that are not features are also part of the row.
    FOR mark IN SELECT DISTINCT by_name->>o.name FROM unnest(ARRAY['cluster', 'fold_by', 'time_by']) AS o (name)
                WHERE jsonb_typeof(by_name->o.name) = 'string' ORDER BY 1 LOOP
        IF strpos(x, '(SELECT tusk_row ') > 0 AND EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = source AND a.attname = mark AND a.attnum > 0 AND NOT a.attisdropped)
           AND NOT lower(mark) = ANY (SELECT lower(btrim(t.name, '"')) FROM unnest(features) AS t (name)) THEN
            columns := columns || quote_ident(mark);
            features := features || mark;
            x := tuskml._tuskml_features_sql(tuskml._tuskml_types(source, columns), columns, features, by_name);
        END IF;
    END LOOP;
    options := coalesce(given, '');
    IF x LIKE 'ARRAY[%' THEN
        options := tuskml._tuskml_with_names(options, columns, features);
    END IF;
    extras := '';
    IF weight IS NOT NULL OR "offset" IS NOT NULL THEN
        extras := format(', %s::float8', terms[cardinality(terms) - 1]);
    END IF;
    IF "offset" IS NOT NULL THEN
        extras := extras || format(', %s::float8', terms[cardinality(terms)]);
    END IF;
    y := terms[1];
END
$$;

-- A training on a table whose label and features are text: columns, or SQL expressions over the table's columns, in
-- which names that are not PostgreSQL's own carry their schema. features: numbers, text, dates and the like, or one array,
-- row or sparse(...) alone.
-- Queries run with their caller's rights, and in FOR loops, whose cursors take one SELECT and no second statement.
CREATE FUNCTION tuskml.train(source regclass, task text, label text, features text[], options text DEFAULT '',
    weight text DEFAULT NULL, "offset" text DEFAULT NULL) RETURNS tuskml_model
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked record;
    given record;
    sampled record;
    aggregate text := 'train_model';
    model @extschema@.tuskml_model;
BEGIN
    SELECT * INTO asked FROM tuskml._tuskml_pooled(options);
    IF asked.pooled THEN
        RAISE EXCEPTION 'train: option ''pooled'' is given without group_by, expected both' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT * INTO given FROM tuskml._tuskml_train_sql(source, task, label, features, asked.options, weight, "offset");
    IF given.extras = '' THEN
        SELECT * INTO sampled FROM tuskml._tuskml_sampled(source, task, given.y, given.x, given.options, current_setting('search_path'));
        IF sampled.trained THEN
            SELECT (t.m).* INTO model FROM (SELECT tuskml._tusk_take_model(sampled.handle, 0.0::float8, ARRAY[0.0::float8], '') AS m OFFSET 0) AS t;
            RETURN model;
        ELSIF sampled.handle IS NOT NULL THEN
            aggregate := '_tusk_take_model';
            task := sampled.handle;
        END IF;
    END IF;
    FOR model IN EXECUTE format(
        'SELECT (t.m).* FROM (SELECT tuskml.%I($1, %s, %s, $2%s) AS m FROM %s OFFSET 0) AS t',
        aggregate, given.y, given.x, given.extras, source) USING task, given.options LOOP
    END LOOP;
    RETURN CASE WHEN model IS NULL THEN NULL ELSE model END;
END
$$;
COMMENT ON FUNCTION tuskml.train(regclass, text, text, text[], text, text, text) IS
    'Trains on a table: label and features are columns or SQL expressions';

-- The options without `pooled`, and whether groups learn from each other.
CREATE FUNCTION tuskml._tuskml_pooled(INOUT options text, OUT pooled boolean)
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb;
BEGIN
    pooled := false;
    IF options IS NULL OR options !~ '"pooled"' THEN
        RETURN;
    END IF;
    BEGIN
        given := options::jsonb;
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        RETURN;  -- the training says what is wrong
    END;
    IF jsonb_typeof(given->'pooled') <> 'boolean' THEN
        RAISE EXCEPTION 'train: option ''pooled'' is %, expected true or false', given->'pooled'
            USING ERRCODE = 'invalid_parameter_value';
    ELSIF given ? 'pooled' THEN
        pooled := (given->'pooled')::boolean;
        options := given - 'pooled';
    END IF;
END
$$;

-- The statement that trains groups that learn from each other, by $1, the task, and $2, the options; front/api/pooling.py
-- has that of Python. keys: n of them, each before a comma.
CREATE FUNCTION tuskml._tuskml_pooled_sql(y text, x text, extras text, keys text, n integer, source regclass) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wrong text := CASE
        WHEN n IS NULL THEN 'group_by is empty, expected the keys of the groups that learn from each other'
        WHEN extras <> '' THEN 'option ''pooled'' is not available with weight or offset: train without them, or without ''pooled'''
        WHEN (SELECT typcategory FROM pg_type WHERE oid = (tuskml._tuskml_types(source, ARRAY[x]))[1]) <> 'A' THEN 'the features are sparse, or a row with names, as of text or dates, and ''pooled'' '
            'takes lists of numbers: expected columns or expressions of numbers or booleans' END;
BEGIN
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION 'train: %', wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN format(
        'WITH tusk_given (%1$s, tusk_y, tusk_x) AS (SELECT %2$s%3$s, %4$s FROM %5$s), '
        'tusk_rows AS MATERIALIZED (SELECT *, dense_rank() OVER (ORDER BY %1$s) AS tusk_group FROM tusk_given), '
        'tusk_pooled AS MATERIALIZED (SELECT coalesce(tuskml._tusk_pool($1, tusk_y, tusk_x, $2, 1, tusk_group), '''') '
        'AS tusk_handle FROM tusk_rows) '
        'SELECT %1$s, tuskml._tusk_take_model(tusk_handle, CASE WHEN tusk_y IS NOT NULL THEN tusk_group END, tusk_x, '''') AS model '
        'FROM tusk_rows, tusk_pooled GROUP BY %1$s',
        (SELECT string_agg('tusk_key' || place, ', ' ORDER BY place) FROM generate_series(1, n) AS t (place)), keys, y, x, source);
END
$$;

-- The statement that trains by group, and its options.
CREATE FUNCTION tuskml._tuskml_train_groups_sql(source regclass, task text, label text, features text[], group_by text[], given text,
    weight text, "offset" text, OUT statement text, OUT options text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked record;
    parts record;
    keys text;
    places text;
BEGIN
    IF array_position(group_by, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'train: a key of group_by is NULL, expected columns or SQL expressions'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT * INTO asked FROM tuskml._tuskml_pooled(given);
    SELECT * INTO parts FROM tuskml._tuskml_train_sql(source, task, label, features, asked.options, weight, "offset");
    SELECT string_agg(CASE WHEN a.attname IS NULL THEN t.term || E'\n' ELSE quote_ident(t.term) END || ', ', '' ORDER BY t.place),
           ' GROUP BY ' || string_agg(t.place::text, ', ')
    INTO keys, places
    FROM unnest(group_by) WITH ORDINALITY AS t (term, place)
    LEFT JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = source AND a.attname::text = t.term AND a.attnum > 0 AND NOT a.attisdropped;
    statement := CASE
        WHEN asked.pooled THEN tuskml._tuskml_pooled_sql(parts.y, parts.x, parts.extras, keys, nullif(cardinality(group_by), 0), source)
        ELSE format('SELECT %stuskml.train_model($1, %s, %s, $2%s) AS model FROM %s%s',
                    keys, parts.y, parts.x, parts.extras, source, places) END;
    options := parts.options;
END
$$;

-- The same by group: a row per group, its keys in their order and its model. A key is a column or an expression, which may
-- have a name, as in 'z > 2 AS large'. The caller's column definition list names the columns.
CREATE FUNCTION tuskml.train(source regclass, task text, label text, features text[], group_by text[], options text DEFAULT '',
    weight text DEFAULT NULL, "offset" text DEFAULT NULL) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given record;
    found record;
BEGIN
    SELECT * INTO given FROM tuskml._tuskml_train_groups_sql(source, task, label, features, group_by, options, weight, "offset");
    FOR found IN EXECUTE given.statement USING task, given.options LOOP
        RETURN NEXT found;
    END LOOP;
END
$$;
COMMENT ON FUNCTION tuskml.train(regclass, text, text, text[], text[], text, text, text) IS
    'Trains on a table by group: label, features and keys are columns or SQL expressions';

-- The same with options of another type, such as jsonb.
CREATE FUNCTION tuskml.train(source regclass, task text, label text, features text[], options anynonarray,
    weight text DEFAULT NULL, "offset" text DEFAULT NULL) RETURNS tuskml_model
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN tuskml.train(source, task, label, features, options::text, weight, "offset");
END
$$;
COMMENT ON FUNCTION tuskml.train(regclass, text, text, text[], anynonarray, text, text) IS
    'Trains on a table with options that are jsonb';
CREATE FUNCTION tuskml.train(source regclass, task text, label text, features text[], group_by text[], options anynonarray,
    weight text DEFAULT NULL, "offset" text DEFAULT NULL) RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given record;
    found record;
BEGIN
    SELECT * INTO given
    FROM tuskml._tuskml_train_groups_sql(source, task, label, features, group_by, options::text, weight, "offset");
    FOR found IN EXECUTE given.statement USING task, given.options LOOP
        RETURN NEXT found;
    END LOOP;
END
$$;
COMMENT ON FUNCTION tuskml.train(regclass, text, text, text[], text[], anynonarray, text, text) IS
    'Trains on a table by group with options that are jsonb';
