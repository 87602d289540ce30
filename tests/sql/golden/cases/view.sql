-- data: cars
CREATE VIEW economy AS SELECT cyl, train_model('linear', mpg, ARRAY[wt]) AS model FROM cars GROUP BY cyl;
SELECT cyl, CAST((model).coef[1] AS DECIMAL(12, 6)) AS wt FROM economy ORDER BY cyl;

-- A view trains when it is read.
DELETE FROM cars WHERE name = 'Fiat 128';
SELECT cyl, CAST((model).coef[1] AS DECIMAL(12, 6)) AS wt FROM economy WHERE cyl = 4;
