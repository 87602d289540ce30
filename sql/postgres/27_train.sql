-- A training that reads some blocks of a table, where its options allow that: the text under which train_model returns its
-- model once, or NULL where all rows are to be read. Queries run with the rights of the caller and in its transaction.
-- path: the search_path for the expressions. The query loads the library, which the first lines of Python look for.
CREATE FUNCTION _tuskml_sampled(source regclass, task text, label text, features text, options text, path text) RETURNS text
LANGUAGE plpython3u VOLATILE SET search_path = pg_catalog, pg_temp AS $python$
    if "trainer" not in SD:
        plpy.execute("SELECT @extschema@.hash_features(ARRAY['x'], 1)")
@load.py@
        SD["module"] = load("tuskml.groups.contract.sampled")
        SD["trainer"] = SD["module"].trainer(load("tuskml.version").VERSION)
    plpy.execute("SELECT set_config('search_path', {}, true)".format(plpy.quote_literal(path)))
    asked = SD["module"].Asked(source, task, label, features, options)
    return SD["trainer"](plpy, "@extschema@", asked)
$python$;

-- A training on a table whose label and features are text: columns, or SQL expressions over the table's columns, in
-- which names that are not PostgreSQL's own carry their schema. features: numbers, or one array or sparse(...) alone.
-- Queries run with their caller's rights, and in FOR loops, whose cursors take one SELECT and no second statement.
CREATE FUNCTION @extschema@.train(source regclass, task text, label text, features text[], options text DEFAULT '') RETURNS tuskml_model
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms text[];
    x text;
    kind text;
    label_sql text;
    sampled text;
    model @extschema@.tuskml_model;
BEGIN
    IF source IS NULL OR task IS NULL OR label IS NULL OR coalesce(cardinality(features), 0) = 0 THEN
        RAISE EXCEPTION 'train: source, task, label or features is missing, expected a table, a task and SQL expressions'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    SELECT array_agg(CASE WHEN a.attname IS NULL THEN format(E'(%s\n)', t.term) ELSE quote_ident(t.term) END ORDER BY t.place)
    INTO terms
    FROM unnest(label || features) WITH ORDINALITY AS t (term, place)
    LEFT JOIN pg_catalog.pg_attribute AS a
        ON a.attrelid = source AND a.attname::text = t.term AND a.attnum > 0 AND NOT a.attisdropped;
    x := format('ARRAY[%s]', (SELECT string_agg(t.term || '::float8', ', ' ORDER BY t.place)
                              FROM unnest(terms[2:]) WITH ORDINALITY AS t (term, place)));
    IF cardinality(features) = 1 THEN
        FOR kind IN EXECUTE format('SELECT pg_typeof((SELECT %s FROM %s LIMIT 0))', terms[2], source) LOOP
            IF kind LIKE '%[]' OR kind LIKE '%tuskml\_sparse\_%' THEN
                x := terms[2];
            END IF;
        END LOOP;
    END IF;
    label_sql := terms[1];
    sampled := @extschema@._tuskml_sampled(source, task, label_sql, x, coalesce(options, ''), current_setting('search_path'));
    IF sampled IS NOT NULL THEN
        SELECT (t.m).* INTO model FROM (SELECT @extschema@.train_model(sampled, 0.0::float8, ARRAY[0.0::float8]) AS m OFFSET 0) AS t;
        RETURN model;
    END IF;
    FOR model IN EXECUTE format(
        'SELECT (t.m).* FROM (SELECT @extschema@.train_model($1, %s, %s, $2) AS m FROM %s OFFSET 0) AS t',
        label_sql, x, source) USING task, coalesce(options, '') LOOP
    END LOOP;
    RETURN CASE WHEN model IS NULL THEN NULL ELSE model END;
END
$$;
COMMENT ON FUNCTION train(regclass, text, text, text[], text) IS
    'Trains on a table: label and features are columns or SQL expressions';
