-- Models by name, for a database with a registry. A macro cannot write: those that register, deploy and roll back return
-- the rows as they should become, for INSERT OR REPLACE INTO tuskml.models BY NAME FROM deploy('late').

-- The deployed versions, with column names that do not conflict with a caller's, since the
-- caller's arguments are compared with them.
CREATE OR REPLACE TEMP MACRO _tusk_deployed_models() AS TABLE
    SELECT name AS _tusk_name, group_key AS _tusk_group, model AS _tusk_model FROM tuskml.models WHERE stage = 'deployed';

-- The deployed version; NULL if there is none.
CREATE OR REPLACE TEMP MACRO tuskml_deployed_model(model_name, in_group := '') AS (
    SELECT _tusk_m._tusk_model FROM _tusk_deployed_models() AS _tusk_m
    WHERE _tusk_m._tusk_name = model_name AND _tusk_m._tusk_group = in_group::VARCHAR);

-- The payload of a model without groups, which must be there. DuckDB takes an aggregate's result, whose type it does not
-- know yet, for a name: its text begins as a model's.
CREATE OR REPLACE TEMP MACRO _tusk_deployed(model_name) AS coalesce(
    (SELECT _tusk_m._tusk_model.payload FROM _tusk_deployed_models() AS _tusk_m
     WHERE _tusk_m._tusk_name = model_name AND _tusk_m._tusk_group = ''),
    CASE WHEN model_name LIKE '{''task'': %' THEN _tusk_model(model_name).payload
         WHEN model_name IS NOT NULL
         THEN error('there is no deployed model ''' || model_name || ''' without groups, tuskml.models lists what there is') END);

-- The same for one of its groups, which may have no model yet if others have one.
CREATE OR REPLACE TEMP MACRO _tusk_deployed_to(asked, model_name, in_group) AS coalesce(
    (SELECT _tusk_m._tusk_model.payload FROM _tusk_deployed_models() AS _tusk_m
     WHERE _tusk_m._tusk_name = model_name::VARCHAR AND _tusk_m._tusk_group = in_group::VARCHAR),
    CASE WHEN typeof(model_name) LIKE 'STRUCT(%'
         THEN error(asked || ' got a model and two more arguments, expected (model, features): the features are one list of '
                    || 'numbers, ' || asked || '(model, [a, b])')
         WHEN model_name::VARCHAR NOT IN (SELECT _tusk_m._tusk_name FROM _tusk_deployed_models() AS _tusk_m)
         THEN error('there is no deployed model ''' || model_name || ''' of any group, tuskml.models lists what there is') END);

-- By a model, by the name of a deployed one, and by its name and group: one look-up per query.
CREATE OR REPLACE TEMP MACRO tuskml_predict
    (model_name VARCHAR, features) AS _tusk_predict(_tusk_deployed(model_name), features),
    (model, features) AS _tusk_predict(_tusk_payload(model), features),
    (model_name, in_group, features) AS _tusk_predict(_tusk_deployed_to('predict', model_name, in_group), features);

CREATE OR REPLACE TEMP MACRO tuskml_predict_proba
    (model_name VARCHAR, features) AS _tusk_predict_proba(_tusk_deployed(model_name), features),
    (model, features) AS _tusk_predict_proba(_tusk_payload(model), features),
    (model_name VARCHAR, in_group, features) AS
        _tusk_predict_proba(_tusk_deployed_to('predict_proba', model_name, in_group), features),
    (model, features, class_name) AS _tusk_class_proba(model, features, class_name);

CREATE OR REPLACE TEMP MACRO tuskml_decision
    (model_name VARCHAR, features) AS _tusk_decision(_tusk_deployed(model_name), features),
    (model, features) AS _tusk_decision(_tusk_payload(model), features),
    (model_name, in_group, features) AS _tusk_decision(_tusk_deployed_to('decision', model_name, in_group), features);

-- The next version, as a candidate, for each group of a table or query with a column `model`. in_group, metrics (JSON) and
-- data_fingerprint are SQL expressions over its columns, as text; a model that is NULL is not registered.
CREATE OR REPLACE TEMP MACRO tuskml_register_model(
    model_name, source, in_group := '''''', metrics := '''{}''', recipe := NULL, data_fingerprint := 'NULL', as_version := NULL
) AS TABLE
WITH _tusk_asked AS (
    SELECT model_name AS _tusk_name, recipe AS _tusk_recipe, as_version AS _tusk_version, trim(in_group) <> '''''' AS _tusk_grouped)
SELECT _tusk_name AS name,
       CASE WHEN _tusk_s._tusk_group IS NULL
            THEN error('register_model: the group of a model is NULL, expected text (without groups leave in_group out)')
            WHEN _tusk_grouped AND _tusk_s._tusk_group = ''
            THEN error('register_model: the group of a model is '''', which the registry has for models without groups: name it, '
                       || 'or leave in_group out')
            WHEN count(*) OVER (PARTITION BY _tusk_s._tusk_group) > 1
            THEN error('register_model: the source has several models of '
                       || CASE WHEN _tusk_s._tusk_group = '' THEN 'no group' ELSE 'the group ''' || _tusk_s._tusk_group || '''' END
                       || ', expected one: in_group is an expression that tells the groups apart, in_group := ''city''')
            ELSE _tusk_s._tusk_group END AS group_key,
       coalesce(_tusk_version, (SELECT max(_tusk_m.version) + 1 FROM tuskml.models AS _tusk_m
                             WHERE _tusk_m.name = _tusk_name AND _tusk_m.group_key = _tusk_s._tusk_group), 1)::INTEGER AS version,
       _tusk_s.model.task AS task, _tusk_s.model.status AS status, _tusk_s.model.plan AS plan,
       _tusk_s._tusk_metrics AS metrics, _tusk_s.model.options::JSON AS options, _tusk_recipe AS recipe,
       _tusk_s._tusk_fingerprint AS data_fingerprint, _tusk_s.model AS model
FROM query('SELECT (' || in_group || chr(10) || ')::VARCHAR AS _tusk_group, (' || metrics || chr(10)
           || ')::JSON AS _tusk_metrics, (' || data_fingerprint || chr(10) || ')::VARCHAR AS _tusk_fingerprint, model FROM ('
           || CASE WHEN regexp_matches(source, '^[\s(]*(SELECT|WITH|FROM|VALUES)\b', 'i') THEN '' ELSE 'FROM ' END
           || source || chr(10) || ')') AS _tusk_s, _tusk_asked
WHERE _tusk_s.model IS NOT NULL;

-- Deploys a version, or the newest that was not rolled back, for one group or for all.
CREATE OR REPLACE TEMP MACRO tuskml_deploy(model_name, to_version := NULL, in_group := NULL) AS TABLE
WITH _tusk_asked AS (SELECT model_name AS _tusk_name, to_version AS _tusk_version, CAST(in_group AS VARCHAR) AS _tusk_group),
_tusk_chosen AS (
    SELECT _tusk_m.group_key, max(_tusk_m.version) AS version FROM tuskml.models AS _tusk_m, _tusk_asked
    WHERE _tusk_m.name = _tusk_name AND (_tusk_group IS NULL OR _tusk_m.group_key = _tusk_group)
      AND CASE WHEN _tusk_version IS NULL THEN _tusk_m.stage <> 'withdrawn' ELSE _tusk_m.version = _tusk_version END
    GROUP BY _tusk_m.group_key)
SELECT _tusk_m.* REPLACE (
    CASE WHEN _tusk_m.version = _tusk_c.version THEN 'deployed' ELSE 'retired' END AS stage,
    CASE WHEN _tusk_m.version <> _tusk_c.version THEN _tusk_m.deployed_at
         ELSE (SELECT greatest(make_timestamp(epoch_us(now())), max(_tusk_d.deployed_at) + INTERVAL 1 MICROSECOND)
               FROM tuskml.models AS _tusk_d WHERE _tusk_d.name = _tusk_name) END AS deployed_at)
FROM tuskml.models AS _tusk_m JOIN _tusk_chosen AS _tusk_c ON _tusk_m.group_key = _tusk_c.group_key, _tusk_asked
WHERE _tusk_m.name = _tusk_name AND (_tusk_m.stage = 'deployed') <> (_tusk_m.version = _tusk_c.version)
UNION ALL SELECT _tusk_n.* FROM tuskml.models AS _tusk_n RIGHT JOIN ( -- no row, but the error, which a join with nothing would leave out
    SELECT CASE WHEN (SELECT count(*) FROM _tusk_chosen) = 0 THEN error(
        'deploy: there is no ' || CASE WHEN _tusk_version IS NULL THEN 'deployable ' ELSE '' END || 'version'
        || coalesce(' ' || _tusk_version::VARCHAR, '') || ' of a model ''' || _tusk_name || ''''
        || coalesce(' in group ''' || _tusk_group || '''', '')
        || ', tuskml.models lists what there is')::VARCHAR END AS _tusk_refused FROM _tusk_asked) AS _tusk_r ON false
WHERE _tusk_r._tusk_refused IS NOT NULL;

-- Undoes the last deployment, or that of one group: the previous versions are deployed again, and those that were deployed
-- are withdrawn. A group that has no earlier version stays as it is.
CREATE OR REPLACE TEMP MACRO tuskml_rollback(model_name, in_group := NULL) AS TABLE
WITH _tusk_asked AS (SELECT model_name AS _tusk_name, CAST(in_group AS VARCHAR) AS _tusk_group),
_tusk_earlier AS (
    SELECT _tusk_m.group_key, _tusk_m.version, _tusk_d.deployed_at, max(_tusk_d.deployed_at) OVER () AS _tusk_last,
           row_number() OVER (PARTITION BY _tusk_m.group_key ORDER BY _tusk_m.deployed_at DESC) AS _tusk_place
    FROM tuskml.models AS _tusk_m JOIN tuskml.models AS _tusk_d ON _tusk_d.name = _tusk_m.name AND _tusk_d.group_key = _tusk_m.group_key AND _tusk_d.stage = 'deployed', _tusk_asked
    WHERE _tusk_m.name = _tusk_name AND _tusk_m.stage = 'retired' AND (_tusk_group IS NULL OR _tusk_m.group_key = _tusk_group)),
_tusk_chosen AS (
    SELECT _tusk_e.group_key, _tusk_e.version FROM _tusk_earlier AS _tusk_e WHERE _tusk_e._tusk_place = 1 AND _tusk_e.deployed_at = _tusk_e._tusk_last)
SELECT _tusk_m.* REPLACE (CASE WHEN _tusk_m.version = _tusk_c.version THEN 'deployed' ELSE 'withdrawn' END AS stage)
FROM tuskml.models AS _tusk_m JOIN _tusk_chosen AS _tusk_c ON _tusk_m.group_key = _tusk_c.group_key, _tusk_asked
WHERE _tusk_m.name = _tusk_name AND (_tusk_m.stage = 'deployed' OR _tusk_m.version = _tusk_c.version)
UNION ALL SELECT _tusk_n.* FROM tuskml.models AS _tusk_n RIGHT JOIN ( -- no row, but the error, which a join with nothing would leave out
    SELECT CASE WHEN (SELECT count(*) FROM _tusk_chosen) = 0 THEN error(
        'rollback: no version of a model ''' || _tusk_name || '''' || coalesce(' in group ''' || _tusk_group || '''', '')
        || ' was deployed before the present one, tuskml.models lists what there is')::VARCHAR END AS _tusk_refused FROM _tusk_asked) AS _tusk_r ON false
WHERE _tusk_r._tusk_refused IS NOT NULL;
