-- data: cars, patients
SELECT feature, term, CAST(estimate AS DECIMAL(12, 6)) AS estimate, CAST(std_err AS DECIMAL(12, 6)) AS std_err,
       test, CAST(statistic AS DECIMAL(12, 5)) AS statistic, CAST(p_value AS DECIMAL(14, 10)) AS p_value
FROM model_summary((SELECT train_model('linear', mpg, ARRAY[wt, hp]) FROM cars)) ORDER BY feature;

SELECT feature, term, CAST(estimate AS DECIMAL(12, 6)) AS estimate, CAST(std_err AS DECIMAL(12, 6)) AS std_err,
       test, CAST(statistic AS DECIMAL(12, 5)) AS statistic, CAST(p_value AS DECIMAL(14, 10)) AS p_value
FROM model_summary((SELECT train_model('logistic', second_attack, ARRAY[treatment, anxiety], '{"epsilon": 1e-10}')
                    FROM patients)) ORDER BY feature;

-- No standard errors of penalised coefficients.
SELECT feature, term, CAST(estimate AS DECIMAL(12, 6)) AS estimate, std_err, test, statistic, p_value
FROM model_summary((SELECT train_model('linear', mpg, ARRAY[wt, hp], '{"l2": 0.1}') FROM cars)) ORDER BY feature;
