-- data: cars
SELECT cyl, (m).n_rows AS n_rows, CAST((m).coef[1] AS DECIMAL(12, 6)) AS wt, CAST((m).intercept AS DECIMAL(12, 6)) AS intercept,
       (m).status AS status
FROM (SELECT cyl, train_model('linear', mpg, ARRAY[wt]) AS m FROM cars GROUP BY cyl) AS t
ORDER BY cyl;

-- A NULL key is a group too.
SELECT big, (m).n_rows AS n_rows, CAST((m).coef[1] AS DECIMAL(12, 6)) AS wt
FROM (SELECT CASE WHEN cyl = 8 THEN 1 END AS big, train_model('linear', mpg, ARRAY[wt]) AS m
      FROM cars GROUP BY CASE WHEN cyl = 8 THEN 1 END) AS t
ORDER BY big;

-- Two aggregates in one query, and a group that HAVING drops.
SELECT cyl, n, CAST((linear).coef[1] AS DECIMAL(12, 6)) AS wt, CAST((logistic).coef[1] AS DECIMAL(12, 6)) AS penalised
FROM (SELECT cyl, count(*) AS n, train_model('linear', mpg, ARRAY[wt]) AS linear,
             train_model('logistic', manual, ARRAY[wt], '{"l2": 0.01, "epsilon": 1e-10}') AS logistic
      FROM cars GROUP BY cyl HAVING count(*) > 7) AS t
ORDER BY cyl;
