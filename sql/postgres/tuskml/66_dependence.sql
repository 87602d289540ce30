-- Terms of a table as SQL: columns by their names, all else as expressions in brackets.
CREATE FUNCTION tuskml._tuskml_terms(source regclass, terms text[]) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT array_agg(CASE WHEN a.attname IS NULL THEN format(E'(%s\n)', t.term) ELSE quote_ident(t.term) END ORDER BY t.place)
FROM unnest(terms) WITH ORDINALITY AS t (term, place)
LEFT JOIN pg_attribute AS a ON a.attrelid = source AND a.attname::text = t.term AND a.attnum > 0 AND NOT a.attisdropped
$$;

-- A call whose % is the features c1, c2, ...: of a model m of lists, or of rows with names.
CREATE FUNCTION tuskml._tuskml_answer_sql(call text, kinds regtype[], names text[]) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms text[] := ARRAY(SELECT 'c' || i FROM generate_subscripts(names, 1) AS t (i) ORDER BY i);
    listed text := tuskml._tuskml_features_sql(kinds, terms, names, '{}');
    named text;
BEGIN
    IF listed = 'c1' THEN
        RETURN replace(call, '%', listed);
    END IF;
    named := tuskml._tuskml_features_sql(kinds, terms, names, '{"named": true}');
    RETURN format('CASE WHEN (m).preparation IS NULL THEN %s ELSE %s END', replace(call, '%', listed), replace(call, '%', named));
END
$$;

-- The rows of a table, `given`, and the first model of each group, `models`, as the beginning of a query. Groups have texts as
-- keys, '' where there are none.
CREATE FUNCTION tuskml._tuskml_given_sql(asked text, source regclass, model text, label text, features text[], group_by text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms text[];
    kinds regtype[];
BEGIN
    IF source IS NULL OR model IS NULL OR label IS NULL OR coalesce(cardinality(features), 0) = 0 OR array_position(features, NULL) IS NOT NULL THEN
        RAISE EXCEPTION '%: source, model, label or features is missing, expected a table and SQL expressions', asked
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    terms := tuskml._tuskml_terms(source, ARRAY[model, label, coalesce(group_by, 'NULL')] || features);
    kinds := tuskml._tuskml_types(source, terms[2:2] || terms[4:]);
    IF cardinality(features) = 1 AND EXISTS (SELECT FROM pg_type AS y WHERE y.oid = kinds[2] AND (y.typcategory = 'C' OR y.oid = 'record'::regtype)) THEN
        RAISE EXCEPTION '%: features is of type %, expected columns one by one, or an array', asked, kinds[2] USING ERRCODE = 'datatype_mismatch';
    END IF;
    RETURN format('WITH given AS (SELECT coalesce(''='' || %s::text, '''') AS g, %s AS model_given, %s AS y, %s FROM %s), '
        'models AS MATERIALIZED (SELECT g, m, (m).class_names IS NOT NULL AND (m).task <> ''svm'' '
        'AND coalesce((m).options::jsonb->>''response'', ''logistic'') = ''logistic'' AS probable '
        'FROM (SELECT DISTINCT ON (g) g, model_given AS m FROM given WHERE (model_given).task IS NOT NULL) AS t)',
        terms[3], terms[1], terms[2] || CASE WHEN kinds[1] = 'boolean'::regtype THEN '::integer' ELSE '' END,
        (SELECT string_agg(format('%s AS c%s', term, place), ', ' ORDER BY place) FROM unnest(terms[4:]) WITH ORDINALITY AS t (term, place)), source);
END
$$;

-- Concatenates a text for each of the columns c1, c2, ..., with % replaced by its number.
CREATE FUNCTION tuskml._tuskml_each(features text[], each text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT string_agg(replace(each, '%', i::text), ', ' ORDER BY i) FROM generate_subscripts(features, 1) AS t (i)
$$;

-- How much the mean loss of rows rises if the values of one feature are shuffled among them (L. Breiman, Random forests, Machine
-- Learning 45, 2001), per group. Terms are SQL, as those of train. Rows are numbered in the order of their values, so
-- that the order in which they are read changes nothing. path: the search_path for the model and the groups, which is the
-- caller's. Queries run with their caller's rights, and in FOR loops, whose
-- cursors take one SELECT and no second statement.
CREATE FUNCTION tuskml.permutation_importance(source regclass, model text, label text, features text[], group_by text DEFAULT NULL,
                                       repeats integer DEFAULT 5, seed bigint DEFAULT 0, path text DEFAULT pg_catalog.current_setting('search_path'))
RETURNS TABLE (in_group text, feature text, importance float8, std_dev float8, loss float8)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given text := tuskml._tuskml_given_sql('permutation_importance', source, model, label, features, group_by);
    kinds regtype[] := tuskml._tuskml_types(source, tuskml._tuskml_terms(source, features));
    class text := 'regexp_replace(y::text, ''\.0+$'', '''')';
    lists boolean := cardinality(features) = 1 AND kinds[1]::text LIKE '%[]';
    answer text;
    -- by the probability of the class, by whether the class is right, or by the squared error
    loss_of_row text := 'CASE WHEN probable THEN -ln(CASE WHEN answer < 1e-15 THEN 1e-15 ELSE answer END) '
        'WHEN (m).class_names IS NOT NULL THEN 1 - answer ELSE (answer - y::text::float8) ^ 2 END';
BEGIN
    -- a class that the model never saw has the probability 0, unless features are NULL
    answer := format('CASE WHEN probable THEN %s WHEN (m).class_names IS NOT NULL THEN (%s = %s)::integer ELSE %s END',
        tuskml._tuskml_answer_sql('coalesce(tuskml.predict_proba(m, %, y::text), 0 * tuskml.predict_proba(m, %, (m).class_names[1]))', kinds, features),
        tuskml._tuskml_answer_sql('tuskml.predict_class(m, %)', kinds, features), class,
        tuskml._tuskml_answer_sql('tuskml.predict(m, %)', kinds, features));
    PERFORM set_config('search_path', path, true);
    FOR in_group, feature, importance, std_dev, loss IN EXECUTE given || format(
        ', numbered AS MATERIALIZED (SELECT row_number() OVER (PARTITION BY g ORDER BY y, %1$s) AS i, * FROM '
        '(SELECT g, y, %1$s, %8$s AS loss FROM (SELECT given.g, y, %1$s, models.m, probable, %2$s AS answer '
        'FROM (SELECT g, y, %1$s FROM given) AS given JOIN models USING (g) WHERE y IS NOT NULL OFFSET 0) AS t) AS t WHERE loss IS NOT NULL), '
        'donors AS (SELECT g, i, k, row_number() OVER (PARTITION BY g, k ORDER BY md5(concat_ws('':'', %3$s, k, i)) COLLATE "C", i) AS place '
        'FROM numbered, generate_series(0, %4$s) AS t (k)), '
        'places AS (SELECT g, generate_series(1, %5$s) AS j FROM numbered GROUP BY g), '
        'changed AS (SELECT r.g, r.y, j, k, %6$s FROM numbered AS r JOIN donors AS o ON o.g = r.g AND o.i = r.i '
        'JOIN numbered AS d ON d.g = o.g AND d.i = o.place JOIN places ON places.g = r.g), '
        'losses AS (SELECT g, j, k, avg(%8$s) AS loss FROM (SELECT changed.*, m, probable, %2$s AS answer FROM changed JOIN models USING (g) OFFSET 0) AS t '
        'GROUP BY g, j, k), '
        'plain AS (SELECT g, avg(loss) AS loss FROM numbered GROUP BY g) '
        'SELECT nullif(substr(g, 2), ''''), %7$s, avg(losses.loss) - plain.loss, stddev_pop(losses.loss), plain.loss '
        'FROM losses JOIN plain USING (g) JOIN models USING (g) GROUP BY g, j, plain.loss, (m).features ORDER BY g COLLATE "C", 3 DESC, j',
        tuskml._tuskml_each(features, 'c%'), answer, coalesce(seed, 0), coalesce(repeats, 5) - 1,
        CASE WHEN lists THEN 'max(cardinality(c1))' ELSE cardinality(features)::text END,
        CASE WHEN lists THEN 'r.c1[:j - 1] || d.c1[j] || r.c1[j + 1:] AS c1'
             ELSE tuskml._tuskml_each(features, 'CASE WHEN j = % THEN d.c% ELSE r.c% END AS c%') END,
        CASE WHEN lists THEN 'coalesce((m).features[j], ''x'' || j)' ELSE format('(%L::text[])[j]', features) END, loss_of_row) LOOP
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION tuskml.permutation_importance(regclass, text, text, text[], text, integer, bigint, text) IS
    'How much the mean loss of rows rises if the values of a feature are shuffled among them';

-- Mean prediction over rows with one feature set to the same value in all of them (J. Friedman,
-- Greedy function approximation, Annals of Statistics 29, 2001, section 8.2): for all values that
-- occur, or for many numbers those at equal shares of the rows from 5 % to 95 %, and for many
-- texts the most frequent ones.
CREATE FUNCTION tuskml.partial_dependence(source regclass, model text, features text[], feature text, group_by text DEFAULT NULL, points integer DEFAULT 50,
                                   path text DEFAULT pg_catalog.current_setting('search_path'))
RETURNS TABLE (in_group text, value text, number float8, class text, prediction float8, n_rows bigint)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given text := tuskml._tuskml_given_sql('partial_dependence', source, model, 'NULL', features, group_by);
    kinds regtype[] := tuskml._tuskml_types(source, tuskml._tuskml_terms(source, features));
    lists boolean := cardinality(features) = 1 AND kinds[1]::text LIKE '%[]';
    place integer := array_position(features, feature);
    kind text;
    known boolean := true;
    -- how many of the wanted shares of the rows, 5 % to 95 %, are reached by a share
    reached text := 'CASE WHEN 20 * %1$s < total THEN 0 ELSE least(div(greatest(%2$s - 1, 1) * (20 * %1$s - total), 18 * total) + 1, %2$s) END';
BEGIN
    PERFORM set_config('search_path', path, true);
    IF lists THEN
        FOR known IN EXECUTE given || ' SELECT bool_and(array_position((m).features, $1) IS NOT NULL) FROM models' USING feature LOOP
        END LOOP;
        known := coalesce(known, true) OR feature ~ '^x[1-9][0-9]{0,8}$';
    END IF;
    IF feature IS NULL OR NOT known OR (NOT lists AND place IS NULL) THEN
        RAISE EXCEPTION 'partial_dependence: feature is %, expected %', coalesce(quote_literal(feature), 'NULL'),
            CASE WHEN lists THEN 'a name of the model''s features, or x1, x2, ...' ELSE 'one of ' || array_to_string(features, ', ') END
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT y.typcategory INTO kind FROM pg_type AS y WHERE y.oid = kinds[coalesce(place, 1)];
    FOR in_group, value, number, class, prediction, n_rows IN EXECUTE given || format(
        ', numbered AS MATERIALIZED (SELECT g, %12$s, %1$s AS place FROM given JOIN models USING (g)), '
        'counted AS (SELECT g, v, count(*) AS n FROM (SELECT g, %2$s AS v FROM numbered) AS t WHERE v IS NOT NULL AND lower(v::text) <> ''nan'' GROUP BY g, v), '
        'ranked AS (SELECT *, sum(n) OVER (PARTITION BY g ORDER BY v) AS up, sum(n) OVER (PARTITION BY g) AS total, '
        'count(*) OVER (PARTITION BY g) AS levels, row_number() OVER (PARTITION BY g ORDER BY n DESC, v) AS rank FROM counted), '
        'grid AS (SELECT g, v FROM ranked WHERE levels <= %3$s OR CASE WHEN %4$s THEN rank <= %3$s '
        'ELSE %10$s > %11$s END), '
        'classes AS (SELECT g, unnest(CASE WHEN probable THEN (m).class_names[greatest(1, 4 - cardinality((m).class_names)):] '
        'ELSE ARRAY[NULL] END) AS class FROM models), '
        'changed AS (SELECT numbered.g, v, %5$s FROM numbered JOIN grid USING (g)), '
        'answers AS (SELECT g, v, class, CASE WHEN class IS NOT NULL THEN %6$s WHEN (m).class_names IS NOT NULL THEN %7$s ELSE %8$s END AS answer '
        'FROM (SELECT changed.*, m, class FROM changed JOIN models USING (g) JOIN classes USING (g) OFFSET 0) AS t) '
        'SELECT nullif(substr(g, 2), ''''), v::text, %9$s, class, avg(answer), count(answer) FROM answers '
        'GROUP BY g, v, class ORDER BY g COLLATE "C", class COLLATE "C", answers.v',
        CASE WHEN lists THEN format('coalesce(array_position((m).features, %1$L), %2$s::integer)', feature, coalesce(quote_literal(substring(feature FROM '^x([1-9][0-9]{0,8})$')), 'NULL')) ELSE 'NULL' END,
        CASE WHEN lists THEN 'c1[place]' ELSE 'c' || place END, coalesce(points, 50), (kind IN ('S', 'E', 'B'))::text,
        CASE WHEN lists THEN 'c1[:place - 1] || v || c1[place + 1:] AS c1'
             ELSE (SELECT string_agg(CASE i WHEN place THEN 'v' ELSE 'c' || i END || ' AS c' || i, ', ' ORDER BY i)
                   FROM generate_subscripts(features, 1) AS t (i)) END,
        tuskml._tuskml_answer_sql('tuskml.predict_proba(m, %, class)', kinds, features),
        tuskml._tuskml_answer_sql('tuskml.decision(m, %)', kinds, features),
        tuskml._tuskml_answer_sql('tuskml.predict(m, %)', kinds, features),
        CASE WHEN lists OR kind = 'N' THEN 'v::float8' WHEN kind = 'B' THEN 'v::integer::float8' ELSE 'NULL::float8' END,
        format(reached, 'up', coalesce(points, 50)), format(reached, '(up - n)', coalesce(points, 50)),
        tuskml._tuskml_each(features, 'c%')) LOOP
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION tuskml.partial_dependence(regclass, text, text[], text, text, integer, text) IS
    'What a model says on average of rows where one feature has the same value in all of them';
