-- The types of expressions over a table, which are not computed; of domains the type below.
CREATE FUNCTION tuskml._tuskml_types(source regclass, terms text[]) RETURNS regtype[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kinds regtype[];
BEGIN
    FOR kinds IN EXECUTE format('SELECT ARRAY[%s]', (SELECT string_agg(format('pg_typeof((SELECT %s FROM %s LIMIT 0))', t.term, source),
            ', ' ORDER BY t.place) FROM unnest(terms) WITH ORDINALITY AS t (term, place))) LOOP
    END LOOP;
    WHILE EXISTS (SELECT FROM pg_type AS y WHERE y.oid = ANY (kinds) AND y.typtype = 'd') LOOP
        kinds := (SELECT array_agg(CASE WHEN y.typtype = 'd' THEN y.typbasetype ELSE y.oid END::regtype ORDER BY k.place)
                  FROM unnest(kinds) WITH ORDINALITY AS k (kind, place) JOIN pg_type AS y ON y.oid = k.kind);
    END LOOP;
    RETURN kinds;
END
$$;

-- Features as SQL: numbers and booleans as an array; one array, row or sparse(...) as it is; else a row with the names,
-- as with by_name, which are options for such rows.
CREATE FUNCTION tuskml._tuskml_features_sql(kinds regtype[], terms text[], names text[], by_name jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE WHEN count(*) = 1 AND bool_or(y.typcategory IN ('A', 'C') OR y.oid = 'record'::regtype) THEN terms[1]
            WHEN by_name = '{}' AND bool_and(y.typcategory IN ('N', 'B', 'X')) THEN
                format('ARRAY[%s]', string_agg(t.term || CASE WHEN y.typcategory = 'B' THEN '::integer' ELSE '' END || '::float8',
                                               ', ' ORDER BY t.place))
            ELSE format('tuskml._tuskml_row((SELECT tusk_row FROM (SELECT %s) AS tusk_row))',
                        string_agg(format('%s AS %I', t.term, CASE WHEN t.name ~ '^"([^"]|"")+"$'
                            THEN replace(substr(t.name, 2, length(t.name) - 2), '""', '"') ELSE t.name END), ', ' ORDER BY t.place)) END
FROM unnest(terms, kinds, names) WITH ORDINALITY AS t (term, kind, name, place) JOIN pg_type AS y ON y.oid = t.kind
$$;
