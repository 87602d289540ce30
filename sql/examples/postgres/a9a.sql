-- Sparse features from a LIBSVM file: does a person earn more than 50,000 dollars a year?
--
--     a9a and a9a.t: 123 binary features of the UCI Adult data, from the collection of LIBSVM
--     psql -f sql/examples/postgres/a9a.sql           # where a9a.svm and a9a.test.svm lie
--
-- A line is "label id:value id:value ...". Ids count from 0 here; where they count from 1, coef[1]
-- stays 0.

DROP TABLE IF EXISTS lines, adult, adult_test, adult_model;
CREATE TABLE lines (line text, test boolean DEFAULT false);

\copy lines (line) FROM 'a9a.svm' WITH (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')
ALTER TABLE lines ALTER test SET DEFAULT true;
\copy lines (line) FROM 'a9a.test.svm' WITH (FORMAT csv, DELIMITER E'\x01', QUOTE E'\x02')

-- sparse(indices, values) makes one value of both: the table stays as small as the data.

CREATE TABLE adult AS
SELECT test, split_part(line, ' ', 1)::int > 0 AS rich,
       sparse(ARRAY(SELECT split_part(entry, ':', 1)::int FROM unnest(entries) AS entry),
              ARRAY(SELECT split_part(entry, ':', 2)::real FROM unnest(entries) AS entry)) AS features
FROM lines, LATERAL (SELECT (string_to_array(rtrim(line), ' '))[2:] AS entries) AS parts;

SELECT explain_training('logistic', rich, features, '{"l2": 0.0001}') FROM adult WHERE NOT test;

CREATE TABLE adult_model AS
SELECT train_model('logistic', rich, features, '{"l2": 0.0001}') AS model FROM adult WHERE NOT test;

SELECT (model).n_rows, (model).n_features, (model).iterations, (model).loss, (model).status FROM adult_model;

SELECT CASE WHEN test THEN 'held out' ELSE 'trained on' END AS rows, count(*),
       accuracy(rich, predict(model, features)) AS accuracy,
       auc(rich, predict_proba(model, features)) AS auc,
       log_loss(rich, predict_proba(model, features)) AS log_loss
FROM adult, adult_model GROUP BY test ORDER BY test;
