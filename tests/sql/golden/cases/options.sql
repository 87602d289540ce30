-- data: cars, patients
CREATE TABLE settings (name VARCHAR, options VARCHAR);
INSERT INTO settings VALUES
    ('01 none', '{}'), ('02 l2', '{"l2": 0.1}'), ('03 l1', '{"l1": 0.05, "epsilon": 1e-9}'),
    ('04 both', '{"l1": 0.05, "l2": 0.1, "epsilon": 1e-9}'), ('05 no intercept', '{"fit_intercept": false}'),
    ('06 balanced', '{"class_weight": "balanced"}'), ('07 weights', '{"class_weight": [1, 3]}'),
    ('08 bgd', '{"algorithm": "bgd", "epsilon": 1e-8, "max_iter": 5000}'),
    ('09 lbfgs', '{"algorithm": "lbfgs", "epsilon": 1e-8}'), ('10 newton', '{"algorithm": "newton", "epsilon": 1e-8}'),
    ('11 warm start', '{"warm_start": {"coef": [-1, 0.1], "intercept": -6}, "epsilon": 1e-8}'),
    ('12 one iteration', '{"algorithm": "bgd", "max_iter": 1}'), ('13 one thread', '{"threads": 1, "seed": 7}'),
    ('14 deterministic', '{"deterministic": true}'), ('15 loss', '{"converge": "loss", "epsilon": 1e-12}');
SELECT name, CAST((m).coef[1] AS DECIMAL(12, 5)) AS treatment, CAST((m).coef[2] AS DECIMAL(12, 5)) AS anxiety,
       CAST((m).intercept AS DECIMAL(12, 4)) AS intercept, (m).status AS status
FROM (SELECT name, train_model('logistic', second_attack, ARRAY[treatment, anxiety], options) AS m
      FROM patients CROSS JOIN settings GROUP BY name) AS t
ORDER BY name;

-- Which options were in force can be read from the model.
SELECT (train_model('linear', mpg, ARRAY[wt], '{"l2": 0.5, "threads": 1, "seed": 3}')).options AS options FROM cars;
