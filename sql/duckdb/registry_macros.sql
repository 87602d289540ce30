-- Models by name, for a database with a registry. A macro cannot write: those that register, deploy and roll back return
-- the rows as they should become, for INSERT OR REPLACE INTO tuskml.models BY NAME FROM deploy('late').

-- The deployed version; NULL if there is none.
CREATE OR REPLACE TEMP MACRO deployed_model(model_name, in_group := '') AS (
    SELECT m.model FROM tuskml.models AS m
    WHERE m.name = model_name AND m.group_key = in_group::VARCHAR AND m.stage = 'deployed');

-- The payload of a model without groups, which must be there. DuckDB takes an aggregate's result, whose type it does not
-- know yet, for a name: its text begins as a model's.
CREATE OR REPLACE TEMP MACRO _tusk_deployed(model_name) AS coalesce(
    (SELECT m.model.payload FROM tuskml.models AS m
     WHERE m.name = model_name AND m.group_key = '' AND m.stage = 'deployed'),
    CASE WHEN model_name LIKE '{''task'': %' THEN _tusk_model(model_name).payload
         WHEN model_name IS NOT NULL
         THEN error('there is no deployed model ''' || model_name || ''' without groups, tuskml.models lists what there is') END);

-- The same for one of its groups, which may have no model yet if others have one.
CREATE OR REPLACE TEMP MACRO _tusk_deployed_to(asked, model_name, in_group) AS coalesce(
    (SELECT m.model.payload FROM tuskml.models AS m
     WHERE m.name = model_name::VARCHAR AND m.group_key = in_group::VARCHAR AND m.stage = 'deployed'),
    CASE WHEN typeof(model_name) LIKE 'STRUCT(%'
         THEN error(asked || ' got a model and two more arguments, expected (model, features): the features are one list of '
                    || 'numbers, ' || asked || '(model, [a, b])')
         WHEN model_name::VARCHAR NOT IN (SELECT m.name FROM tuskml.models AS m WHERE m.stage = 'deployed')
         THEN error('there is no deployed model ''' || model_name || ''' of any group, tuskml.models lists what there is') END);

-- By a model, by the name of a deployed one, and by its name and group: one look-up per query.
CREATE OR REPLACE TEMP MACRO predict
    (model_name VARCHAR, features) AS _tusk_predict(_tusk_deployed(model_name), features),
    (model, features) AS _tusk_predict(struct_extract(model, 'payload'), features),
    (model_name, in_group, features) AS _tusk_predict(_tusk_deployed_to('predict', model_name, in_group), features);

CREATE OR REPLACE TEMP MACRO predict_proba
    (model_name VARCHAR, features) AS _tusk_predict_proba(_tusk_deployed(model_name), features),
    (model, features) AS _tusk_predict_proba(struct_extract(model, 'payload'), features),
    (model_name VARCHAR, in_group, features) AS
        _tusk_predict_proba(_tusk_deployed_to('predict_proba', model_name, in_group), features),
    (model, features, class_name) AS _tusk_class_proba(model, features, class_name);

CREATE OR REPLACE TEMP MACRO decision
    (model_name VARCHAR, features) AS _tusk_decision(_tusk_deployed(model_name), features),
    (model, features) AS _tusk_decision(struct_extract(model, 'payload'), features),
    (model_name, in_group, features) AS _tusk_decision(_tusk_deployed_to('decision', model_name, in_group), features);

-- The next version, as a candidate, for each group of a table or query with a column `model`. in_group, metrics (JSON) and
-- data_fingerprint are SQL expressions over its columns, as text; a model that is NULL is not registered.
CREATE OR REPLACE TEMP MACRO register_model(
    model_name, source, in_group := '''''', metrics := '''{}''', recipe := NULL, data_fingerprint := 'NULL', as_version := NULL
) AS TABLE
SELECT model_name AS name,
       CASE WHEN count(*) OVER (PARTITION BY s.tuskml_group) > 1
            THEN error('register_model: the source has several models of '
                       || CASE WHEN s.tuskml_group = '' THEN 'no group' ELSE 'the group ''' || s.tuskml_group || '''' END
                       || ', expected one: in_group is an expression that tells the groups apart, in_group := ''city''')
            ELSE s.tuskml_group END AS group_key,
       coalesce(as_version, (SELECT max(m.version) + 1 FROM tuskml.models AS m
                             WHERE m.name = model_name AND m.group_key = s.tuskml_group), 1)::INTEGER AS version,
       s.model.task AS task, s.model.status AS status, s.model.plan AS plan,
       s.tuskml_metrics AS metrics, s.model.options::JSON AS options, recipe AS recipe,
       s.tuskml_fingerprint AS data_fingerprint, s.model AS model
FROM query('SELECT (' || in_group || chr(10) || ')::VARCHAR AS tuskml_group, (' || metrics || chr(10)
           || ')::JSON AS tuskml_metrics, (' || data_fingerprint || chr(10) || ')::VARCHAR AS tuskml_fingerprint, model FROM ('
           || CASE WHEN regexp_matches(source, '^[\s(]*(SELECT|WITH|FROM|VALUES)\b', 'i') THEN '' ELSE 'FROM ' END
           || source || chr(10) || ')') AS s
WHERE s.model IS NOT NULL;

-- Deploys a version, or the newest that was not rolled back, for one group or for all.
CREATE OR REPLACE TEMP MACRO deploy(model_name, to_version := NULL, in_group := NULL) AS TABLE
WITH tuskml_chosen AS (
    SELECT m.group_key, max(m.version) AS version FROM tuskml.models AS m
    WHERE m.name = model_name AND (in_group IS NULL OR m.group_key = in_group)
      AND CASE WHEN to_version IS NULL THEN m.stage <> 'withdrawn' ELSE m.version = to_version END
    GROUP BY m.group_key)
SELECT m.* REPLACE (
    CASE WHEN m.version = c.version THEN 'deployed' ELSE 'retired' END AS stage,
    CASE WHEN m.version <> c.version THEN m.deployed_at
         ELSE (SELECT greatest(make_timestamp(epoch_us(now())), max(d.deployed_at) + INTERVAL 1 MICROSECOND)
               FROM tuskml.models AS d WHERE d.name = model_name) END AS deployed_at)
FROM tuskml.models AS m JOIN tuskml_chosen AS c ON m.group_key = c.group_key
WHERE m.name = model_name AND (m.stage = 'deployed') <> (m.version = c.version)
UNION ALL SELECT n.* FROM tuskml.models AS n RIGHT JOIN ( -- no row, but the error, which a join with nothing would leave out
    SELECT CASE WHEN (SELECT count(*) FROM tuskml_chosen) = 0 THEN error(
        'deploy: there is no ' || CASE WHEN to_version IS NULL THEN 'deployable ' ELSE '' END || 'version'
        || coalesce(' ' || to_version::VARCHAR, '') || ' of a model ''' || model_name || ''''
        || coalesce(' in group ''' || in_group::VARCHAR || '''', '')
        || ', tuskml.models lists what there is')::VARCHAR END AS refused) AS r ON false
WHERE r.refused IS NOT NULL;

-- Undoes the last deployment, or that of one group: the previous versions are deployed again, and those that were deployed
-- are withdrawn. A group that has no earlier version stays as it is.
CREATE OR REPLACE TEMP MACRO rollback(model_name, in_group := NULL) AS TABLE
WITH tuskml_earlier AS (
    SELECT m.group_key, m.version, d.deployed_at, max(d.deployed_at) OVER () AS last,
           row_number() OVER (PARTITION BY m.group_key ORDER BY m.deployed_at DESC) AS place
    FROM tuskml.models AS m JOIN tuskml.models AS d ON d.name = m.name AND d.group_key = m.group_key AND d.stage = 'deployed'
    WHERE m.name = model_name AND m.stage = 'retired' AND (in_group IS NULL OR m.group_key = in_group)),
tuskml_chosen AS (
    SELECT e.group_key, e.version FROM tuskml_earlier AS e WHERE e.place = 1 AND e.deployed_at = e.last)
SELECT m.* REPLACE (CASE WHEN m.version = c.version THEN 'deployed' ELSE 'withdrawn' END AS stage)
FROM tuskml.models AS m JOIN tuskml_chosen AS c ON m.group_key = c.group_key
WHERE m.name = model_name AND (m.stage = 'deployed' OR m.version = c.version)
UNION ALL SELECT n.* FROM tuskml.models AS n RIGHT JOIN ( -- no row, but the error, which a join with nothing would leave out
    SELECT CASE WHEN (SELECT count(*) FROM tuskml_chosen) = 0 THEN error(
        'rollback: no version of a model ''' || model_name || '''' || coalesce(' in group ''' || in_group::VARCHAR || '''', '')
        || ' was deployed before the present one, tuskml.models lists what there is')::VARCHAR END AS refused) AS r ON false
WHERE r.refused IS NOT NULL;
