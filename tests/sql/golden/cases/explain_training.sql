-- data: cars
SELECT explain_training('linear', mpg, ARRAY[wt, hp], '{"threads": 1}') AS plan FROM cars;

SELECT manual, explain_training('logistic', cyl = 4, ARRAY[wt], '{"threads": 1, "l1": 0.1, "time": "1m"}') AS plan
FROM cars GROUP BY manual ORDER BY manual;

SELECT explain_training('svm', manual, ARRAY[wt], '{"threads": 1, "algorithm": "sgd", "max_iter": 5, "epsilon": 0}') AS plan
FROM cars;
