-- data: cars
SELECT (m).task AS task, CAST((m).coef[1] AS DECIMAL(12, 4)) AS wt, CAST((m).coef[2] AS DECIMAL(12, 4)) AS mpg,
       CAST((m).intercept AS DECIMAL(12, 3)) AS intercept, CAST((m).loss AS DECIMAL(12, 6)) AS loss,
       (m).n_rows AS n_rows, (m).converged AS converged, (m).status AS status, (m).classes AS classes, (m).std_err AS std_err
FROM (SELECT train_model('svm', manual, ARRAY[wt, mpg], '{"l2": 0.1, "epsilon": 1e-8}') AS m FROM cars) AS t;
