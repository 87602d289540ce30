-- What SQL itself can say of models; the rest is in the extension.

-- Sparse features: ids >= 0 and their values, in any order; repeated ids add up.
CREATE OR REPLACE TEMP MACRO sparse(indices, vals) AS {'indices': _tusk_ids(indices), 'values': vals};

-- What predict needs of a model, without its history: join this when many rows are scored by many models.
CREATE OR REPLACE TEMP MACRO predictor(model) AS CAST(
    model AS STRUCT(task VARCHAR, coef DOUBLE[], intercept DOUBLE, classes DOUBLE[], options VARCHAR));

-- What models by name say in a database without a registry (registry_macros.sql replaces these where there is one).
-- DuckDB takes an aggregate's result, whose type it does not know yet, for a name: typeof looks again.
CREATE OR REPLACE TEMP MACRO _tusk_no_registry(asked) AS
    error(asked || ': the database has no registry of models, tuskml.models: tuskml models create DATABASE makes one, '
          || 'in Python tuskml.registry.create(connection)');

-- The class in the caller's own values, or the number.
CREATE OR REPLACE TEMP MACRO predict
    (model, features) AS _tusk_predict(
        CASE WHEN typeof(model) = 'VARCHAR' AND model IS NOT NULL THEN _tusk_no_registry('predict') ELSE predictor(model) END, features),
    (model_name, in_group, features) AS (CASE WHEN model_name IS NOT NULL THEN _tusk_no_registry('predict') END)::DOUBLE;

-- The probability of the higher class; logistic models only.
CREATE OR REPLACE TEMP MACRO predict_proba
    (model, features) AS _tusk_predict_proba(
        CASE WHEN typeof(model) = 'VARCHAR' AND model IS NOT NULL THEN _tusk_no_registry('predict_proba') ELSE predictor(model) END, features),
    (model_name, in_group, features) AS (CASE WHEN model_name IS NOT NULL THEN _tusk_no_registry('predict_proba') END)::DOUBLE;

-- The raw margin, coef . features + intercept.
CREATE OR REPLACE TEMP MACRO decision
    (model, features) AS _tusk_decision(
        CASE WHEN typeof(model) = 'VARCHAR' AND model IS NOT NULL THEN _tusk_no_registry('decision') ELSE predictor(model) END, features),
    (model_name, in_group, features) AS (CASE WHEN model_name IS NOT NULL THEN _tusk_no_registry('decision') END)::DOUBLE;

CREATE OR REPLACE TEMP MACRO deployed_model(model_name, in_group := '') AS _tusk_no_registry('deployed_model');
CREATE OR REPLACE TEMP MACRO register_model(
    model_name, source, in_group := '', metrics := '', recipe := NULL, data_fingerprint := '', as_version := NULL
) AS TABLE SELECT _tusk_no_registry('register_model');
CREATE OR REPLACE TEMP MACRO deploy(model_name, to_version := NULL, in_group := NULL) AS TABLE SELECT _tusk_no_registry('deploy');
CREATE OR REPLACE TEMP MACRO rollback(model_name, in_group := NULL) AS TABLE SELECT _tusk_no_registry('rollback');

-- Coefficients that lie in a store may be more than a result has room for: `tuskml store export` writes them.
-- One row a coefficient, the intercept first (feature 0): estimate, standard error, z or t, and its p-value.
CREATE OR REPLACE TEMP MACRO model_summary(model) AS TABLE
WITH tuskml_model AS MATERIALIZED (SELECT model AS fitted),
tuskml_terms AS (
    SELECT unnest(CASE WHEN fitted.coef IS NULL AND fitted.store IS NOT NULL
                       THEN error('model_summary: the coefficients lie in the store, tuskml store export '
                                  || fitted.store || ' FILE writes them to a file')
                       ELSE range(0, len(fitted.coef) + 1) END) AS feature, fitted FROM tuskml_model),
tuskml_estimates AS (
    SELECT feature::INTEGER AS feature,
           CASE WHEN feature = 0 THEN 'intercept' ELSE 'x' || feature END AS term,
           CASE WHEN feature = 0 THEN fitted.intercept ELSE fitted.coef[feature] END AS estimate,
           fitted.std_err[feature + 1] AS std_err,
           CASE WHEN fitted.task = 'linear' THEN 't'
                WHEN fitted.task = 'logistic' OR fitted.std_err IS NOT NULL THEN 'z' END AS test,
           coalesce((fitted.options::JSON->>'freedom')::BIGINT,
                    fitted.n_rows - len(list_filter(fitted.std_err, lambda e: e IS NOT NULL))) AS freedom
    FROM tuskml_terms)
SELECT feature, term, estimate, std_err, test, estimate / std_err AS statistic,
       _tusk_p_value(estimate / std_err, CASE test WHEN 't' THEN freedom::DOUBLE ELSE 'inf'::DOUBLE END) AS p_value
FROM tuskml_estimates ORDER BY feature;

-- A training on a table, a query or files ('''trips.parquet'''), whose label and features are SQL as text: features are a
-- list of numbers, or one expression that is an array or sparse(...). One row, the model's fields; the query can be no more
-- than one SELECT.
CREATE OR REPLACE TEMP MACRO train(source, task, label, features, options := '') AS TABLE
SELECT unnest(tuskml_trained) FROM query(
    'SELECT train_model(''' || replace(task, '''', '''''') || ''', (' || label || chr(10) || '), '
    || CASE WHEN json_type(to_json(features)) = 'ARRAY' THEN '[' || array_to_string(to_json(features)->>'$[*]', ', ') || ']'
            ELSE to_json(features)->>'$' END
    || chr(10) || ', ''' || replace(options, '''', '''''') || ''') AS tuskml_trained FROM ('
    || CASE WHEN regexp_matches(source, '^[\s(]*(SELECT|WITH|FROM|VALUES)\b', 'i') THEN '' ELSE 'FROM ' END || source
    || chr(10) || ')');
