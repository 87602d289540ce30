-- The types of tuskml are in its schema, where the documented functions of both are expected.
DO $$
DECLARE
    schema pg_catalog.regnamespace;
BEGIN
    SELECT e.extnamespace INTO schema FROM pg_catalog.pg_extension AS e WHERE e.extname OPERATOR(pg_catalog.=) 'tuskml';
    IF schema OPERATOR(pg_catalog.<>) '@extschema@'::pg_catalog.regnamespace THEN
        RAISE EXCEPTION 'CREATE EXTENSION tuskml_train: the extension tuskml is in the schema %, expected the same one', schema
            USING ERRCODE = 'invalid_parameter_value', HINT = pg_catalog.format('CREATE EXTENSION tuskml_train SCHEMA %s;', schema);
    END IF;
END
$$;
