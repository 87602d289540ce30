-- What SQL itself can say of models; the rest is in the extension.

-- Sparse features: ids >= 0 and their values, in any order; repeated ids add up.
CREATE OR REPLACE TEMP MACRO sparse(indices, vals) AS {'indices': indices::INTEGER[], 'values': vals};

-- What predict needs of a model, without its history: join this when many rows are scored by many models.
CREATE OR REPLACE TEMP MACRO predictor(model) AS CAST(
    model AS STRUCT(task VARCHAR, coef DOUBLE[], intercept DOUBLE, classes DOUBLE[], options VARCHAR));

-- The class in the caller's own values, or the number.
CREATE OR REPLACE TEMP MACRO predict(model, features) AS _tusk_predict(predictor(model), features);

-- The probability of the higher class; logistic models only.
CREATE OR REPLACE TEMP MACRO predict_proba(model, features) AS _tusk_predict_proba(predictor(model), features);

-- The raw margin, coef . features + intercept.
CREATE OR REPLACE TEMP MACRO decision(model, features) AS _tusk_decision(predictor(model), features);

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
           fitted.n_rows - len(list_filter(fitted.std_err, lambda e: e IS NOT NULL)) AS freedom
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
