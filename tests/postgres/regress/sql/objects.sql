-- What the extension makes, by name; helpers start with an underscore.
SELECT DISTINCT p.proname AS function,
       CASE p.prokind WHEN 'a' THEN 'aggregate' ELSE 'function' END AS kind
FROM pg_depend AS d
JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname IN ('tuskml', 'tuskml_train')
JOIN pg_proc AS p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
WHERE p.proname NOT LIKE '\_%'
ORDER BY function;

-- A helper is no business of PUBLIC, unless it is what a function for all is made of.
SELECT DISTINCT p.proname AS closed
FROM pg_depend AS d
JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname IN ('tuskml', 'tuskml_train')
JOIN pg_proc AS p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
WHERE NOT has_function_privilege('public', p.oid, 'EXECUTE')
ORDER BY closed;

-- Nothing runs with another's rights, and what is not C has a search_path of its own.
SELECT p.proname AS unsafe
FROM pg_depend AS d
JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname IN ('tuskml', 'tuskml_train')
JOIN pg_proc AS p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
JOIN pg_language AS l ON l.oid = p.prolang
WHERE p.prosecdef
   OR l.lanname NOT IN ('c', 'internal', 'sql')
      AND NOT coalesce(p.proconfig, '{}') @> ARRAY['search_path=pg_catalog, pg_temp'];

SELECT attname AS field, format_type(atttypid, NULL) AS type
FROM pg_attribute WHERE attrelid = 'tuskml_model'::regclass AND attnum > 0 ORDER BY attnum;
