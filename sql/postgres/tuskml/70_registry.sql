-- Creates the registry: versions of models by name and group, one of them deployed per group. tuskml.models is an ordinary
-- table: the role that creates it owns it, pg_dump keeps it, and GRANT gives rights to it. Everything runs with its
-- caller's rights: predicting needs SELECT on the table, registering INSERT, deploying UPDATE, dropping DELETE.
CREATE FUNCTION tuskml.create_registry() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner name;
BEGIN
    IF to_regclass('tuskml.models') IS NOT NULL THEN
        PERFORM tuskml._tuskml_guard_registry();
        RETURN;
    END IF;
    -- Who owns the schema could put another table in this one's place.
    SELECT r.rolname INTO owner FROM pg_namespace AS n JOIN pg_roles AS r ON r.oid = n.nspowner
    WHERE n.nspname = 'tuskml' AND NOT r.rolsuper AND r.rolname <> current_user
      AND r.oid <> (SELECT d.datdba FROM pg_database AS d WHERE d.datname = current_database());
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'create_registry: the schema tuskml belongs to %, expected one of your own, of the database''s owner or of a superuser', owner
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT has_schema_privilege('tuskml', 'CREATE') THEN
        RAISE EXCEPTION 'create_registry: the role % may not create tables in the schema tuskml', current_user
            USING ERRCODE = 'insufficient_privilege',
                  HINT = format('A superuser says GRANT CREATE ON SCHEMA tuskml TO %I, which may be revoked when the registry is there.', current_user);
    END IF;
    CREATE TABLE tuskml.models (
        name text NOT NULL CHECK (name <> ''),
        group_key text NOT NULL DEFAULT '',
        version integer NOT NULL CHECK (version BETWEEN 1 AND 1000000000),
        created timestamptz NOT NULL DEFAULT clock_timestamp(),
        stage text NOT NULL DEFAULT 'candidate' CHECK (stage IN ('candidate', 'deployed', 'retired', 'withdrawn')),
        deployed_at timestamptz CHECK ((deployed_at IS NULL) = (stage = 'candidate')),
        task text, status text, plan text, metrics jsonb NOT NULL DEFAULT '{}', options jsonb, recipe text,
        data_fingerprint text,
        model @extschema@.tuskml_model NOT NULL,
        PRIMARY KEY (name, group_key, version));
    CREATE UNIQUE INDEX models_deployed ON tuskml.models (name, group_key) WHERE stage = 'deployed';
    COMMENT ON TABLE tuskml.models IS 'Versions of models by name and group; stage says which is deployed';
    CREATE VIEW tuskml.deployed WITH (security_barrier) AS
        SELECT name, group_key, version, created, deployed_at, task, status, plan, metrics, options, recipe,
               data_fingerprint, model
        FROM tuskml.models WHERE stage = 'deployed';
    COMMENT ON VIEW tuskml.deployed IS 'The deployed version of each model and group';
    PERFORM tuskml._tuskml_guard_registry();
END
$$;
COMMENT ON FUNCTION tuskml.create_registry() IS 'Makes the table tuskml.models, or brings it up to date';

-- A name belongs to the roles that registered its versions. Others cannot insert versions of it, so theirs are never
-- deployed for it. Members of such a role may, and roles that the table's owner allows to deploy. The role that inserts a
-- version is recorded as the one that registered it, whatever the statement says.
CREATE FUNCTION tuskml._tuskml_check_registration() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF has_column_privilege(current_user, TG_RELID, 'stage', 'UPDATE') THEN
        RETURN NEW;
    END IF;
    NEW.registered_by := current_user;
    PERFORM pg_advisory_xact_lock(hashtextextended('tuskml.models', hashtext(NEW.name)));
    IF EXISTS (SELECT FROM tuskml.models AS m WHERE m.name = NEW.name) AND NOT EXISTS (
        SELECT FROM tuskml.models AS m JOIN pg_roles AS r ON r.rolname = m.registered_by
        WHERE m.name = NEW.name AND pg_has_role(current_user, r.oid, 'USAGE')) THEN
        RAISE EXCEPTION 'register_model: the name ''%'' belongs to another role, expected a name of your own, or SET ROLE to one that registered it', NEW.name
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END
$$;

-- Adds the column, the bound and the trigger above to a registry without them, also to an older one when its owner calls
-- create_registry() again. Versions registered before count as the owner's, who may UPDATE registered_by.
CREATE FUNCTION tuskml._tuskml_guard_registry() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner name;
BEGIN
    SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class AS c WHERE c.oid = 'tuskml.models'::regclass;
    -- Nobody else, not even a superuser, whose rights the triggers of another's table would get.
    IF owner <> current_user THEN
        RETURN;
    END IF;
    -- Who trains registers candidates; what is deployed the table's owner decides, and whom the owner lets UPDATE it.
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'tuskml_user') THEN
        GRANT SELECT ON tuskml.models TO tuskml_user;
        IF to_regclass('tuskml.deployed') IS NOT NULL THEN
            GRANT SELECT ON tuskml.deployed TO tuskml_user;
        END IF;
        GRANT INSERT (name, group_key, version, task, status, plan, metrics, options, recipe, data_fingerprint, model)
            ON tuskml.models TO tuskml_user;
    END IF;
    IF EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgrelid = 'tuskml.models'::regclass AND t.tgname = 'models_registration') THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_attribute AS a WHERE a.attrelid = 'tuskml.models'::regclass AND a.attname = 'registered_by') THEN
        ALTER TABLE tuskml.models ADD COLUMN registered_by text;
        UPDATE tuskml.models SET registered_by = owner;
    END IF;
    ALTER TABLE tuskml.models ALTER COLUMN registered_by SET DEFAULT current_user, ALTER COLUMN registered_by SET NOT NULL;
    -- Not valid: a version beyond the bound that is there already stays, and can be dropped.
    ALTER TABLE tuskml.models DROP CONSTRAINT IF EXISTS models_version_check,
        ADD CONSTRAINT models_version_check CHECK (version BETWEEN 1 AND 1000000000) NOT VALID;
    CREATE TRIGGER models_registration BEFORE INSERT ON tuskml.models
        FOR EACH ROW EXECUTE FUNCTION tuskml._tuskml_check_registration();
END
$$;

-- Checks that there is a registry: a sentence instead of PostgreSQL's error about a missing table.
CREATE FUNCTION tuskml._tuskml_need_registry(asker text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF to_regclass('tuskml.models') IS NULL THEN
        RAISE EXCEPTION '%: the database has no registry of models, tuskml.models', asker
            USING ERRCODE = 'undefined_table', HINT = 'SELECT create_registry(); makes it.';
    END IF;
END
$$;

-- Registers the next version of a model as a candidate. The version is one more than the group's last unless it is given.
-- A model that is NULL, because its group had no usable rows, is not registered.
-- Models of several groups under one name and no group would become versions of each other: without in_group a statement
-- registers one model per name. The default says when its statement began.
CREATE FUNCTION tuskml._tuskml_no_group() RETURNS text
AS 'MODULE_PATHNAME', 'tuskml_no_group' LANGUAGE C VOLATILE PARALLEL SAFE;
CREATE FUNCTION tuskml.register_model(
    model_name text, model tuskml_model, in_group text DEFAULT tuskml._tuskml_no_group(), metrics jsonb DEFAULT '{}',
    recipe text DEFAULT NULL, data_fingerprint text DEFAULT NULL, as_version integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    number integer;
    began timestamptz;
BEGIN
    IF in_group LIKE E'\001%' THEN
        began := substr(in_group, 2)::timestamptz;
        in_group := '';
    ELSIF in_group = '' THEN
        RAISE EXCEPTION 'register_model: the group of a model is '''', which the registry has for models without groups: name it, or leave in_group out'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF model_name IS NULL OR in_group IS NULL THEN
        RAISE EXCEPTION 'register_model: the name or the group is NULL, expected text (without groups leave in_group out)'
            USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM tuskml._tuskml_need_registry('register_model');
    IF (register_model.model).task IS NULL THEN
        RETURN NULL;
    END IF;
    IF as_version NOT BETWEEN 1 AND 1000000000 THEN
        RAISE EXCEPTION 'register_model: version % is not allowed, expected 1 to 1000000000', as_version
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('tuskml.models', hashtext(model_name)));
    -- Another session's row is no longer in progress, now that the lock is ours.
    IF EXISTS (SELECT FROM tuskml.models AS m WHERE m.name = model_name AND m.group_key = '' AND CASE WHEN m.created >= began
        THEN pg_xact_status((pg_current_xact_id()::text::bigint >> 32 << 32 | m.xmin::text::bigint)::text::xid8) = 'in progress' END) THEN
        RAISE EXCEPTION 'register_model: the statement registers several models as ''%'' without groups, expected one', model_name
            USING ERRCODE = 'cardinality_violation',
                  HINT = 'The third argument names a model''s group: register_model(name, model, group::text).';
    END IF;
    SELECT coalesce(as_version, max(m.version)::bigint + 1, 1) INTO number FROM tuskml.models AS m
    WHERE m.name = model_name AND m.group_key = in_group;
    INSERT INTO tuskml.models (name, group_key, version, task, status, plan, metrics, options, recipe, data_fingerprint, model)
    VALUES (model_name, in_group, number, (register_model.model).task, (register_model.model).status,
            (register_model.model).plan, coalesce(register_model.metrics, '{}'), (register_model.model).options::jsonb,
            register_model.recipe, register_model.data_fingerprint, register_model.model)
    ON CONFLICT DO NOTHING; -- a snapshot that does not see the row refuses that as not serializable, to be tried again
    IF NOT FOUND THEN
        RAISE EXCEPTION 'register_model: version % of the model ''%'' is there already', number, model_name
            USING ERRCODE = 'unique_violation';
    END IF;
    RETURN number;
END
$$;
COMMENT ON FUNCTION tuskml.register_model(text, tuskml_model, text, jsonb, text, text, integer) IS
    'Keeps a model as the next version of a name, a candidate until it is deployed';

-- Deploys a version, or the newest that was not rolled back, for one group or for all; returns how many groups changed.
CREATE FUNCTION tuskml.deploy(model_name text, to_version integer DEFAULT NULL, in_group text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    groups text[];
    versions integer[];
    changed integer;
BEGIN
    PERFORM tuskml._tuskml_need_registry('deploy');
    PERFORM pg_advisory_xact_lock(hashtextextended('tuskml.models', hashtext(model_name)));
    SELECT array_agg(c.group_key), array_agg(c.version) INTO groups, versions
    FROM (SELECT m.group_key, max(m.version) AS version FROM tuskml.models AS m
          WHERE m.name = model_name AND (in_group IS NULL OR m.group_key = in_group)
            AND CASE WHEN to_version IS NULL THEN m.stage <> 'withdrawn' ELSE m.version = to_version END
          GROUP BY m.group_key) AS c;
    IF groups IS NULL THEN
        RAISE EXCEPTION 'deploy: there is no %version% of a model ''%''%, tuskml.models lists what there is',
            CASE WHEN to_version IS NULL THEN 'deployable ' ELSE '' END, coalesce(' ' || to_version, ''), model_name,
            coalesce(' in group ''' || in_group || '''', '') USING ERRCODE = 'undefined_object';
    END IF;
    UPDATE tuskml.models AS m SET stage = 'retired' FROM unnest(groups, versions) AS c (group_key, version)
    WHERE m.name = model_name AND m.group_key = c.group_key AND m.stage = 'deployed' AND m.version <> c.version;
    UPDATE tuskml.models AS m SET stage = 'deployed', deployed_at = moment.now
    FROM unnest(groups, versions) AS c (group_key, version),
         (SELECT greatest(clock_timestamp(), max(deployed_at) + interval '1 microsecond') AS now
          FROM tuskml.models WHERE name = model_name) AS moment
    WHERE m.name = model_name AND m.group_key = c.group_key AND m.version = c.version AND m.stage <> 'deployed';
    GET DIAGNOSTICS changed = ROW_COUNT;
    RETURN changed;
END
$$;
COMMENT ON FUNCTION tuskml.deploy(text, integer, text) IS 'Deploys a version of a model, else the newest';

-- Undoes the last deployment, or that of one group: the previous versions are deployed again, and those that were deployed
-- are withdrawn. A group that has no earlier version stays as it is. Returns how many groups changed.
CREATE FUNCTION tuskml.rollback(model_name text, in_group text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    groups text[];
    versions integer[];
BEGIN
    PERFORM tuskml._tuskml_need_registry('rollback');
    PERFORM pg_advisory_xact_lock(hashtextextended('tuskml.models', hashtext(model_name)));
    WITH earlier AS (
        SELECT m.group_key, m.version, d.deployed_at, max(d.deployed_at) OVER () AS last,
               row_number() OVER (PARTITION BY m.group_key ORDER BY m.deployed_at DESC) AS place
        FROM tuskml.models AS m JOIN tuskml.models AS d ON d.name = m.name AND d.group_key = m.group_key AND d.stage = 'deployed'
        WHERE m.name = model_name AND m.stage = 'retired' AND (in_group IS NULL OR m.group_key = in_group))
    SELECT array_agg(e.group_key), array_agg(e.version) INTO groups, versions
    FROM earlier AS e WHERE e.place = 1 AND e.deployed_at = e.last;
    IF groups IS NULL THEN
        RAISE EXCEPTION 'rollback: no version of a model ''%''% was deployed before the present one, tuskml.models lists what there is',
            model_name, coalesce(' in group ''' || in_group || '''', '') USING ERRCODE = 'undefined_object';
    END IF;
    UPDATE tuskml.models AS m SET stage = 'withdrawn'
    WHERE m.name = model_name AND m.group_key = ANY (groups) AND m.stage = 'deployed';
    UPDATE tuskml.models AS m SET stage = 'deployed' FROM unnest(groups, versions) AS c (group_key, version)
    WHERE m.name = model_name AND m.group_key = c.group_key AND m.version = c.version;
    RETURN cardinality(groups);
END
$$;
COMMENT ON FUNCTION tuskml.rollback(text, text) IS 'Undoes the last deployment of a model';

-- Removes a model, a version of it, or a group; a deployed version can be removed only together with all others.
CREATE FUNCTION tuskml.drop_model(model_name text, the_version integer DEFAULT NULL, in_group text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    dropped integer;
BEGIN
    PERFORM tuskml._tuskml_need_registry('drop_model');
    PERFORM pg_advisory_xact_lock(hashtextextended('tuskml.models', hashtext(model_name)));
    IF the_version IS NOT NULL AND EXISTS (
        SELECT FROM tuskml.models AS m WHERE m.name = model_name AND m.version = the_version AND m.stage = 'deployed'
           AND (in_group IS NULL OR m.group_key = in_group)) THEN
        RAISE EXCEPTION 'drop_model: version % of ''%'' is deployed, deploy another one first', the_version, model_name
            USING ERRCODE = 'object_in_use';
    END IF;
    DELETE FROM tuskml.models AS m WHERE m.name = model_name AND (the_version IS NULL OR m.version = the_version)
        AND (in_group IS NULL OR m.group_key = in_group);
    GET DIAGNOSTICS dropped = ROW_COUNT;
    RETURN dropped;
END
$$;
COMMENT ON FUNCTION tuskml.drop_model(text, integer, text) IS 'Forgets a model, or a version of it that is not deployed';

-- The deployed version; NULL if there is none.
CREATE FUNCTION tuskml.deployed_model(model_name text, in_group text DEFAULT '') RETURNS tuskml_model
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM tuskml._tuskml_need_registry('deployed_model');
    RETURN (SELECT m.model FROM tuskml.models AS m WHERE m.name = model_name AND m.group_key = in_group AND m.stage = 'deployed');
END
$$;
COMMENT ON FUNCTION tuskml.deployed_model(text, text) IS 'The deployed version of a model, by name';

-- Predictions by the name of a deployed model, and its group if it has groups: looked up once per query, with the caller's
-- rights to tuskml.models. A group without a model predicts NULL; a name without one is an error.
CREATE FUNCTION tuskml.{2:predict|predict_proba|decision}(model_name text,{| in_group text,} features {1:anyarray|tuskml_sparse_real
    |tuskml_sparse_double|record}) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_{2}_named_{1:dense|sparse|sparse|row}' LANGUAGE C STABLE PARALLEL SAFE;

-- Calls that none of the functions above accept: a sentence instead of "function does not exist".
CREATE FUNCTION tuskml.{predict|predict_proba|decision}({model tuskml_model|model_name text},
    {features double precision|features text|features boolean|"any", VARIADIC "any"}) RETURNS float8
AS 'MODULE_PATHNAME', 'tuskml_refuse_prediction' LANGUAGE C STABLE PARALLEL SAFE;
