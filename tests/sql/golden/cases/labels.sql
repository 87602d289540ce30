-- data: patients
CREATE TABLE labelled AS
SELECT id, ARRAY[treatment, anxiety] AS x, second_attack = 1 AS attacked, second_attack AS bit,
       2 * second_attack - 1 AS sign, 3.5 - second_attack AS odd, CAST(second_attack AS SMALLINT) AS small
FROM patients;
CREATE TABLE models AS
SELECT 'boolean' AS kind, train_model('logistic', attacked, x) AS model FROM labelled
UNION ALL SELECT 'bit', train_model('logistic', bit, x) FROM labelled
UNION ALL SELECT 'sign', train_model('logistic', sign, x) FROM labelled
UNION ALL SELECT 'odd', train_model('logistic', odd, x) FROM labelled
UNION ALL SELECT 'small', train_model('logistic', small, x) FROM labelled;
SELECT kind, (model).classes AS classes, CAST((model).coef[1] AS DECIMAL(12, 6)) AS treatment,
       CAST((model).coef[2] AS DECIMAL(12, 6)) AS anxiety
FROM models ORDER BY kind;

-- predict answers in the caller's values; the probability is that of the higher one.
SELECT kind, predict(model, x) AS class, CAST(predict_proba(model, x) AS DECIMAL(12, 6)) AS p
FROM models CROSS JOIN labelled WHERE id = 1 ORDER BY kind;
