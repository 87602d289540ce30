-- data: patients
SELECT (m).task AS task, CAST((m).coef[1] AS DECIMAL(12, 6)) AS treatment, CAST((m).coef[2] AS DECIMAL(12, 6)) AS anxiety,
       CAST((m).intercept AS DECIMAL(12, 6)) AS intercept, CAST(20 * (m).loss AS DECIMAL(12, 6)) AS minus_log_likelihood,
       (m).n_rows AS n_rows, (m).n_skipped AS n_skipped, (m).n_features AS n_features, (m).converged AS converged, (m).status AS status, (m).classes AS classes
FROM (SELECT train_model('logistic', second_attack, ARRAY[treatment, anxiety]) AS m FROM patients) AS t;
