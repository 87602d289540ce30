-- data: cars
SELECT (m).task AS task, CAST((m).coef[1] AS DECIMAL(12, 6)) AS wt, CAST((m).coef[2] AS DECIMAL(12, 6)) AS hp,
       CAST((m).intercept AS DECIMAL(12, 6)) AS intercept, CAST((m).loss AS DECIMAL(12, 6)) AS loss,
       (m).n_rows AS n_rows, (m).n_skipped AS n_skipped, (m).n_features AS n_features, (m).converged AS converged, (m).status AS status, (m).classes AS classes, (m).store AS store
FROM (SELECT train_model('linear', mpg, ARRAY[wt, hp]) AS m FROM cars) AS t;
