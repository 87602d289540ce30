-- The statement that makes a function or an aggregate of the schema tuskml in another schema.
CREATE FUNCTION tuskml._tuskml_definition(routine oid, schema regnamespace) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
SELECT CASE WHEN a.aggfnoid IS NULL
    THEN format('CREATE OR REPLACE FUNCTION %s.%I', schema, p.proname)
         || substr(pg_get_functiondef(p.oid), 1 + length(format('CREATE OR REPLACE FUNCTION tuskml.%I', p.proname)))
    ELSE format('CREATE OR REPLACE AGGREGATE %s.%I(%s) (SFUNC = %s, STYPE = %s, SSPACE = %s%s, FINALFUNC_MODIFY = %s, PARALLEL = %s)',
        schema, p.proname, pg_get_function_arguments(p.oid), a.aggtransfn, format_type(a.aggtranstype, NULL), a.aggtransspace,
        (SELECT string_agg(format(', %s = %s', o.name, o.value), '' ORDER BY o.name) FROM (VALUES
            ('FINALFUNC', nullif(a.aggfinalfn::text, '-')), ('COMBINEFUNC', nullif(a.aggcombinefn::text, '-')),
            ('SERIALFUNC', nullif(a.aggserialfn::text, '-')), ('DESERIALFUNC', nullif(a.aggdeserialfn::text, '-')),
            ('MSFUNC', nullif(a.aggmtransfn::text, '-')), ('MINVFUNC', nullif(a.aggminvtransfn::text, '-')),
            ('MFINALFUNC', nullif(a.aggmfinalfn::text, '-')), ('MSSPACE', nullif(a.aggmtransspace, 0)::text),
            ('MSTYPE', CASE WHEN a.aggmtranstype <> 0 THEN format_type(a.aggmtranstype, NULL) END),
            ('INITCOND', quote_literal(a.agginitval))) AS o (name, value) WHERE o.value IS NOT NULL),
        CASE a.aggfinalmodify WHEN 'r' THEN 'READ_ONLY' WHEN 's' THEN 'SHAREABLE' ELSE 'READ_WRITE' END,
        CASE p.proparallel WHEN 's' THEN 'SAFE' WHEN 'r' THEN 'RESTRICTED' ELSE 'UNSAFE' END) END
FROM pg_proc AS p LEFT JOIN pg_aggregate AS a ON a.aggfnoid = p.oid WHERE p.oid = routine
$$;
REVOKE ALL ON FUNCTION tuskml._tuskml_definition(oid, regnamespace) FROM PUBLIC;

-- Gives the documented functions of an extension their names in another schema too, where they may be called without one, and
-- takes back those that are no more. Functions that are there already stay.
CREATE FUNCTION tuskml._tuskml_offer(extension name, schema regnamespace) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    members oid[] := ARRAY(SELECT d.objid FROM pg_depend AS d JOIN pg_extension AS e ON e.oid = d.refobjid
        WHERE d.classid = 'pg_proc'::regclass AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e' AND e.extname = extension);
    routine record;
    taken text[] := '{}';
BEGIN
    IF schema = 'tuskml'::regnamespace THEN
        RETURN;
    END IF;
    FOR routine IN
        SELECT p.oid, p.oid::regprocedure AS signature, p.proname AS name, obj_description(p.oid, 'pg_proc') AS about,
               EXISTS (SELECT FROM pg_proc AS t WHERE t.pronamespace = schema AND t.proname = p.proname AND t.oid <> ALL (members)
                                                  AND t.proargtypes = p.proargtypes) AS there,
               EXISTS (SELECT FROM pg_proc AS t WHERE t.pronamespace = schema AND t.proname = p.proname AND t.oid <> ALL (members)) AS clashes
        FROM pg_proc AS p WHERE p.oid = ANY (members) AND p.pronamespace = 'tuskml'::regnamespace AND p.proname !~ '^_' ORDER BY p.oid
    LOOP
        IF routine.clashes AND NOT routine.name = ANY (taken) THEN
            taken := taken || routine.name::text;
        END IF;
        IF NOT routine.there THEN
            EXECUTE tuskml._tuskml_definition(routine.oid, schema);
            IF routine.about IS NOT NULL THEN
                EXECUTE format('COMMENT ON ROUTINE %s.%s IS %L', schema, substr(routine.signature::text, 1 + length('tuskml.')), routine.about);
            END IF;
        END IF;
    END LOOP;
    FOR routine IN
        SELECT t.oid::regprocedure AS signature FROM pg_proc AS t WHERE t.oid = ANY (members) AND t.pronamespace = schema AND NOT EXISTS (
            SELECT FROM pg_proc AS p WHERE p.pronamespace = 'tuskml'::regnamespace AND p.proname = t.proname AND p.proargtypes = t.proargtypes)
    LOOP
        EXECUTE format('DROP ROUTINE %s', routine.signature);
    END LOOP;
    IF taken <> '{}' THEN
        RAISE WARNING 'tuskml: the schema % has functions of others with these names: %', schema, array_to_string(taken, ', ')
            USING HINT = 'Calls of these names may mean the others; tuskml.NAME(...) always means those of the extension.';
    END IF;
END
$$;
REVOKE ALL ON FUNCTION tuskml._tuskml_offer(name, regnamespace) FROM PUBLIC;
