-- data: cars
CREATE TABLE models AS SELECT cyl, train_model('linear', mpg, ARRAY[wt]) AS model FROM cars GROUP BY cyl;
SELECT cyl, (model).n_rows AS n_rows, CAST((model).coef[1] AS DECIMAL(12, 6)) AS wt, (model).status AS status FROM models ORDER BY cyl;

INSERT INTO models SELECT 0, train_model('linear', mpg, ARRAY[wt]) FROM cars;
UPDATE models SET model = NULL WHERE cyl = 4;
SELECT cyl, model IS NULL AS missing, CAST((model).coef[1] AS DECIMAL(12, 6)) AS wt FROM models ORDER BY cyl;

SELECT CAST(predict(model, ARRAY[3.0]) AS DECIMAL(12, 6)) AS mpg FROM models ORDER BY cyl;
