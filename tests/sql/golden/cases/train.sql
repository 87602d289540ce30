-- data: cars
SELECT task, CAST(coef[1] AS DECIMAL(12, 6)) AS wt, CAST(coef[2] AS DECIMAL(12, 6)) AS hp, n_rows, n_features, status
FROM train('cars', 'linear', 'mpg', ARRAY['wt', 'hp']);

SELECT status, n_features, CAST(coef[1] AS DECIMAL(12, 4)) AS wt FROM train('cars', 'logistic', 'mpg > 20', ARRAY['wt / 2'], '{"l2": 0.1}');

SELECT name, CAST(predict(model, ARRAY[wt, hp]) AS DECIMAL(12, 4)) AS mpg
FROM cars, train('cars', 'linear', 'mpg', ARRAY['wt', 'hp']) AS model ORDER BY name LIMIT 3;
