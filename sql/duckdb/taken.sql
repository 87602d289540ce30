-- The names of ours that macros of others have, and a sentence about them; no row where there are none.
SELECT list(name ORDER BY name) AS names,
       'the database has macros of its own named ' || string_agg(name, ', ' ORDER BY name) || ', which stay: tuskml''s are '
       || string_agg('tuskml_' || name, ', ' ORDER BY name) AS sentence
FROM (
    SELECT DISTINCT function_name AS name FROM duckdb_functions()
    WHERE function_type IN ('macro', 'table_macro') AND NOT internal AND database_name <> 'temp'
    AND NOT regexp_matches(macro_definition, 'tuskml_|_tusk_') AND function_name IN (
        SELECT substr(function_name, 8) FROM duckdb_functions() WHERE starts_with(function_name, 'tuskml_')))
HAVING count(*) > 0
