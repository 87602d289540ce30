-- Every function lies in the schema tuskml, types in the schema of CREATE EXTENSION, which also gets the documented functions
-- by their names alone. Who owns the schema tuskml could put functions of other types of arguments among these.
DO $$
DECLARE
    owner pg_catalog.name;
BEGIN
    SELECT r.rolname INTO owner FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) n.nspowner
    WHERE n.nspname OPERATOR(pg_catalog.=) 'tuskml';
    IF owner IS NULL THEN
        CREATE SCHEMA tuskml AUTHORIZATION @extowner@;
        GRANT USAGE ON SCHEMA tuskml TO PUBLIC;
    ELSIF owner OPERATOR(pg_catalog.<>) CURRENT_USER AND owner OPERATOR(pg_catalog.<>) SESSION_USER AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname OPERATOR(pg_catalog.=) owner AND (r.rolsuper OR r.oid OPERATOR(pg_catalog.=) (
            SELECT d.datdba FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())))
    THEN
        RAISE EXCEPTION 'CREATE EXTENSION tuskml: the schema tuskml belongs to %, expected a superuser or the owner of the database', owner
            USING ERRCODE = 'insufficient_privilege', HINT = 'ALTER SCHEMA tuskml OWNER TO another role.';
    END IF;
END
$$;
