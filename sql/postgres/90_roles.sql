-- Training takes a server's memory and cores: GRANT tuskml_user TO those who may. Predictions and metrics are for all.
-- A role belongs to the cluster: another database may have made it, and DROP EXTENSION leaves it.
DO $$
DECLARE
    routine pg_catalog.regprocedure;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) 'tuskml_user') THEN
        CREATE ROLE tuskml_user NOLOGIN;
    END IF;
    FOR routine IN
        SELECT p.oid FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace OPERATOR(pg_catalog.=) '@extschema@'::pg_catalog.regnamespace
          AND p.proname OPERATOR(pg_catalog.=) ANY (ARRAY['train', '_tuskml_train_sql', '_tuskml_train_groups_sql', '_tuskml_sampled', '_tuskml_by_name', '_tuskml_with_names', '_tuskml_plain', 'train_model', 'explain_training', '_tusk_send_rows', '_tusk_take_model', 'feature_frequencies', 'partition_model', 'partitionings']::pg_catalog.name[])
          AND p.prokind OPERATOR(pg_catalog.=) ANY (ARRAY['a', 'f']::pg_catalog."char"[])
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine);
        EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO tuskml_user', routine);
    END LOOP;
END
$$;

-- The parts of the aggregates run with the rights of the aggregates' owner; nobody else needs them.
DO $$
DECLARE
    routine pg_catalog.regprocedure;
BEGIN
    FOR routine IN
        SELECT p.oid FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace OPERATOR(pg_catalog.=) '@extschema@'::pg_catalog.regnamespace
          AND p.proname OPERATOR(pg_catalog.~) '^_tuskml_(collect|collect_ids|combine|serialize|deserialize|train|explain|send_rows|take_model|frequencies|partition|answer|support|support_serialize|row_columns|row_expression)$'
    LOOP
        EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine);
    END LOOP;
END
$$;
