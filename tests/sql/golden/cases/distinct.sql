-- data: cars
-- The heaviest car of each number of cylinders and gearbox.
SELECT (m).n_rows AS n_rows, CAST((m).coef[1] AS DECIMAL(12, 6)) AS wt, CAST((m).intercept AS DECIMAL(12, 6)) AS intercept
FROM (SELECT train_model('linear', mpg, ARRAY[wt]) AS m
      FROM (SELECT DISTINCT ON (cyl, manual) mpg, wt FROM cars ORDER BY cyl, manual, wt DESC) AS heaviest) AS t;

-- Rows that are there twice count once.
SELECT (once).n_rows AS once_rows, (twice).n_rows AS twice_rows,
       CAST((once).coef[1] AS DECIMAL(12, 6)) AS once, CAST((twice).coef[1] AS DECIMAL(12, 6)) AS twice
FROM (SELECT train_model(DISTINCT 'linear', mpg, ARRAY[wt, hp]) AS once,
             train_model('linear', mpg, ARRAY[wt, hp]) AS twice
      FROM (SELECT mpg, wt, hp FROM cars UNION ALL SELECT mpg, wt, hp FROM cars) AS both_halves) AS t;
