-- data: cars
PREPARE fit AS
SELECT (m).n_rows AS n_rows, CAST((m).coef[1] AS DECIMAL(12, 6)) AS wt
FROM (SELECT train_model('linear', mpg, ARRAY[wt], $1) AS m FROM cars) AS t;
EXECUTE fit('{}');
EXECUTE fit('{"l2": 1}');
EXECUTE fit('');

PREPARE heavier AS
SELECT (m).n_rows AS n_rows, CAST((m).coef[1] AS DECIMAL(12, 6)) AS wt
FROM (SELECT train_model('linear', mpg, ARRAY[wt]) AS m FROM cars WHERE wt > $1) AS t;
EXECUTE heavier(3);
EXECUTE heavier(0);
