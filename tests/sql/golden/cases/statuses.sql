CREATE TABLE trials (status VARCHAR, options VARCHAR, y DOUBLE PRECISION, x DOUBLE PRECISION[]);
INSERT INTO trials VALUES
    ('ok', '{}', 0, ARRAY[1, 5]), ('ok', '{}', 1, ARRAY[2, 4]), ('ok', '{}', 0, ARRAY[3, 1]), ('ok', '{}', 1, ARRAY[4, 3]),
    ('ok', '{}', 0, ARRAY[5, 5]), ('ok', '{}', 1, ARRAY[6, 2]),
    ('constant feature', '{}', 0, ARRAY[1, 5]), ('constant feature', '{}', 1, ARRAY[2, 5]),
    ('constant feature', '{}', 0, ARRAY[3, 5]), ('constant feature', '{}', 1, ARRAY[4, 5]),
    ('collinear features', '{}', 0, ARRAY[1, 2]), ('collinear features', '{}', 1, ARRAY[2, 4]),
    ('collinear features', '{}', 0, ARRAY[3, 6]), ('collinear features', '{}', 1, ARRAY[4, 8]),
    ('not converged', '{"algorithm": "bgd", "max_iter": 1}', 0, ARRAY[1, 5]),
    ('not converged', '{"algorithm": "bgd", "max_iter": 1}', 1, ARRAY[2, 4]),
    ('not converged', '{"algorithm": "bgd", "max_iter": 1}', 0, ARRAY[3, 1]),
    ('not converged', '{"algorithm": "bgd", "max_iter": 1}', 1, ARRAY[4, 3]),
    ('not converged', '{"algorithm": "bgd", "max_iter": 1}', 0, ARRAY[5, 5]),
    ('not converged', '{"algorithm": "bgd", "max_iter": 1}', 1, ARRAY[6, 2]),
    ('time limit', '{"algorithm": "sgd", "epsilon": 1e-300, "max_iter": 2000000000, "time": "0.05s"}', 0, ARRAY[1, 5]),
    ('time limit', '{"algorithm": "sgd", "epsilon": 1e-300, "max_iter": 2000000000, "time": "0.05s"}', 1, ARRAY[2, 4]),
    ('time limit', '{"algorithm": "sgd", "epsilon": 1e-300, "max_iter": 2000000000, "time": "0.05s"}', 0, ARRAY[3, 1]),
    ('time limit', '{"algorithm": "sgd", "epsilon": 1e-300, "max_iter": 2000000000, "time": "0.05s"}', 1, ARRAY[4, 3]),
    ('time limit', '{"algorithm": "sgd", "epsilon": 1e-300, "max_iter": 2000000000, "time": "0.05s"}', 0, ARRAY[5, 5]),
    ('time limit', '{"algorithm": "sgd", "epsilon": 1e-300, "max_iter": 2000000000, "time": "0.05s"}', 1, ARRAY[6, 2]),
    ('too few rows', '{}', 0, ARRAY[1, 5]), ('too few rows', '{}', 1, ARRAY[2, 4]),
    ('separable', '{}', 0, ARRAY[1, 5]), ('separable', '{}', 0, ARRAY[2, 4]), ('separable', '{}', 1, ARRAY[8, 1]),
    ('separable', '{}', 1, ARRAY[9, 3]),
    ('one class', '{}', 1, ARRAY[1, 5]), ('one class', '{}', 1, ARRAY[2, 4]), ('one class', '{}', 1, ARRAY[3, 1]),
    ('one row', '{}', 1, ARRAY[3, 1]),
    ('same rows', '{}', 0, ARRAY[3, 1]), ('same rows', '{}', 1, ARRAY[3, 1]), ('same rows', '{}', 1, ARRAY[3, 1]);
SELECT status AS expected, (logistic).status AS logistic, (logistic).converged AS converged, (linear).status AS linear
FROM (SELECT status, train_model('logistic', y, x, options) AS logistic, train_model('linear', y, x, options) AS linear
      FROM trials GROUP BY status) AS t
ORDER BY status;

-- Penalised, all of them have one optimum.
SELECT status AS rows_like, (m).status AS logistic, (m).converged AS converged, (svm).status AS svm
FROM (SELECT status, train_model('logistic', y, x, '{"l2": 0.1}') AS m, train_model('svm', y, x, '{"l2": 0.1}') AS svm
      FROM trials GROUP BY status) AS t
ORDER BY status;

-- Half of the rows are held out, and training ends when they stop gaining.
CREATE TABLE noisy (y DOUBLE PRECISION, x DOUBLE PRECISION[]);
INSERT INTO noisy VALUES
    (0, ARRAY[1, 5]), (1, ARRAY[2, 4]), (0, ARRAY[3, 1]), (1, ARRAY[4, 3]), (0, ARRAY[5, 5]), (1, ARRAY[6, 2]),
    (1, ARRAY[1, 4]), (0, ARRAY[2, 5]), (1, ARRAY[3, 3]), (0, ARRAY[4, 1]), (1, ARRAY[5, 2]), (0, ARRAY[6, 5]);
SELECT (m).status AS status, (m).n_rows AS n_rows, (m).converged AS converged
FROM (SELECT train_model('logistic', y, x, '{"algorithm": "bgd", "schedule": "constant", "epsilon": 1e-300, "max_iter": 100000, "validation": 0.5}') AS m
      FROM noisy) AS t;
