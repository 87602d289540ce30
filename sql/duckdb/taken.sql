-- The names of ours that macros of others have, and a sentence about them; no row where there are none.
WITH found AS MATERIALIZED (
    SELECT function_name AS name, function_type IN ('macro', 'table_macro') AND NOT internal AND database_name <> 'temp'
           AND NOT regexp_matches(macro_definition, 'tuskml_|_tusk_') AS is_theirs
    FROM duckdb_functions() WHERE NOT internal OR starts_with(function_name, 'tuskml_'))
SELECT list(name ORDER BY name) AS names,
       'the database has macros of its own named ' || string_agg(name, ', ' ORDER BY name) || ', which stay: tuskml''s are '
       || string_agg('tuskml_' || name, ', ' ORDER BY name) AS sentence
FROM (SELECT DISTINCT name FROM found WHERE is_theirs
      AND name IN (SELECT substr(name, 8) FROM found WHERE starts_with(name, 'tuskml_')))
HAVING count(*) > 0
