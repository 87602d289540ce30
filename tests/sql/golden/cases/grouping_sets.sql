-- data: cars
SELECT cyl, manual, (m).n_rows AS n_rows, CAST((m).coef[1] AS DECIMAL(12, 6)) AS wt, (m).status AS status
FROM (SELECT cyl, manual, train_model('linear', mpg, ARRAY[wt]) AS m
      FROM cars GROUP BY GROUPING SETS ((cyl), (manual), ())) AS t
ORDER BY cyl, manual;

SELECT cyl, manual, (m).n_rows AS n_rows, CAST((m).coef[1] AS DECIMAL(12, 6)) AS wt
FROM (SELECT cyl, manual, train_model('linear', mpg, ARRAY[wt], '{"l2": 0.1}') AS m
      FROM cars GROUP BY ROLLUP (cyl, manual)) AS t
ORDER BY cyl, manual, (m).n_rows;
