\set SHOW_CONTEXT never
CREATE TABLE points AS
SELECT x % 3 AS g, x::float8 AS x, 2 * x + x % 3 AS y FROM generate_series(0, 29) AS x;

-- One model a group.
CREATE TABLE models AS
SELECT g, train_model('linear', y, ARRAY[x]) AS model FROM points GROUP BY g;
SELECT g, round((model).coef[1]::numeric, 6) AS slope,
       round((model).intercept::numeric, 6) AS intercept, (model).n_rows, (model).status
FROM models ORDER BY g;

-- Predictions by join.
SELECT g, round(max(abs(predict(model, ARRAY[x]) - y))::numeric, 6) AS largest_error
FROM points JOIN models USING (g) GROUP BY g ORDER BY g;

-- NULL is skipped and counted; a group without rows has no model.
SELECT (train_model('linear', y, ARRAY[nullif(x, 3)])).n_skipped FROM points;
SELECT train_model('linear', y, ARRAY[x]) IS NULL AS no_model FROM points WHERE false;

-- A group that cannot be trained well says so, and fails nothing.
SELECT (train_model('logistic', true, ARRAY[x])).status FROM points;
SELECT (train_model('logistic', x > 14, ARRAY[x])).status FROM points;

-- FILTER, options, and the fields of one training.
SELECT round((m).coef[1]::numeric, 4) AS slope, (m).n_rows
FROM (SELECT train_model('linear', y, ARRAY[x], '{"l2": 0.1}') FILTER (WHERE g = 1) AS m
      FROM points) AS trained;

-- Errors are one sentence.
SELECT train_model('linaer', y, ARRAY[x]) FROM points;
SELECT train_model('linear', y, ARRAY[x], '{"l2": -1}') FROM points;
SELECT train_model('linear', y, ARRAY[x, 'NaN'], '{"invalid": "error"}') FROM points WHERE x < 1;
SELECT train_model('linear', y, CASE WHEN x = 2 THEN ARRAY[x, x] ELSE ARRAY[x] END,
                   '{"invalid": "error"}' ORDER BY x)
FROM points;
SELECT tuskml._tuskml_answer();

-- Without that option such a row costs its group the model, and no other group.
SELECT g, (m).status, (m).coef IS NULL AS no_coef, CASE WHEN g = 2 THEN (m).plan END AS why
FROM (SELECT g, train_model('linear', y, CASE WHEN x = 2 THEN ARRAY[x, x] ELSE ARRAY[x] END ORDER BY x) AS m
      FROM points GROUP BY g) AS trained
ORDER BY g;
