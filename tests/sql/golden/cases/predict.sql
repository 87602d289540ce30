-- data: cars, patients
CREATE TABLE models AS SELECT cyl, train_model('linear', mpg, ARRAY[wt]) AS model FROM cars GROUP BY cyl;
SELECT c.name, c.mpg, CAST(predict(m.model, ARRAY[c.wt]) AS DECIMAL(12, 6)) AS predicted
FROM cars AS c JOIN models AS m ON c.cyl = m.cyl
WHERE c.name LIKE 'Merc%' ORDER BY c.name;

CREATE TABLE attack AS SELECT train_model('logistic', second_attack, ARRAY[treatment, anxiety]) AS model FROM patients;
SELECT id, predict(model, ARRAY[treatment, anxiety]) AS class,
       CAST(predict_proba(model, ARRAY[treatment, anxiety]) AS DECIMAL(12, 6)) AS p,
       CAST(decision(model, ARRAY[treatment, anxiety]) AS DECIMAL(12, 6)) AS margin
FROM patients CROSS JOIN attack ORDER BY id;

-- No answer without a model or without all features.
SELECT id, predict(CASE WHEN id > 1 THEN model END, ARRAY[treatment, CASE WHEN id < 3 THEN anxiety END]) AS class
FROM patients CROSS JOIN attack WHERE id < 4 ORDER BY id;
