SELECT tuskml._tuskml_offer('tuskml_train', '@extschema@');

-- Training takes a server's memory and cores: GRANT tuskml_user TO those who may. Predictions and metrics are for all.
-- A role belongs to the cluster: another database may have made it, and DROP EXTENSION leaves it.
-- The parts of the aggregates run with the rights of the aggregates' owner; nobody else needs them.
CREATE FUNCTION tuskml._tuskml_grant_training() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    routine record;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'tuskml_user') THEN
        CREATE ROLE tuskml_user NOLOGIN;
    END IF;
    FOR routine IN
        SELECT p.oid::regprocedure AS signature,
               p.proname <> ALL (ARRAY['grant_store', 'revoke_store', 'tuskml_activity']) AS training,
               p.proname !~ '^_' OR p.proname = ANY (ARRAY['_tuskml_train_sql', '_tuskml_train_groups_sql', '_tuskml_pooled', '_tuskml_pooled_sql', '_tuskml_sampled', '_tusk_send_rows', '_tusk_take_model', '_tusk_pool', '_tusk_read_model', '_tusk_write_sql', '_tuskml_by_name', '_tuskml_with_names', '_tuskml_plain']) AS called
        FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
        JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND e.oid = d.refobjid
        WHERE e.extname = 'tuskml_train'
    LOOP
        CONTINUE WHEN NOT routine.training;
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', routine.signature);
        IF routine.called THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO tuskml_user', routine.signature);
        END IF;
    END LOOP;
END
$$;
SELECT tuskml._tuskml_grant_training();
