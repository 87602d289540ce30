-- data: cars
SELECT (light).n_rows AS light_rows, CAST((light).coef[1] AS DECIMAL(12, 6)) AS light_hp,
       (heavy).n_rows AS heavy_rows, CAST((heavy).coef[1] AS DECIMAL(12, 6)) AS heavy_hp,
       nothing IS NULL AS nothing
FROM (SELECT train_model('linear', mpg, ARRAY[hp]) FILTER (WHERE wt < 3) AS light,
             train_model('linear', mpg, ARRAY[hp]) FILTER (WHERE wt >= 3) AS heavy,
             train_model('linear', mpg, ARRAY[hp]) FILTER (WHERE wt < 0) AS nothing
      FROM cars) AS t;
