CREATE TABLE shopping (spent DOUBLE PRECISION, ids INTEGER[], amounts DOUBLE PRECISION[]);
INSERT INTO shopping VALUES
    (5, ARRAY[0, 3], ARRAY[1, 2]), (8, ARRAY[3, 0], ARRAY[3, 1]), (3, ARRAY[1], ARRAY[1]), (6, ARRAY[1, 1], ARRAY[1, 1]),
    (9, ARRAY[0, 1], ARRAY[2, 2]), (4, ARRAY[0], ARRAY[3]), (2, ARRAY[5], ARRAY[1]), (7, ARRAY[5, 3], ARRAY[2, 2]);
CREATE TABLE fitted AS SELECT train_model('linear', spent, sparse(ids, amounts), '{"l2": 0.1, "epsilon": 1e-10}') AS model FROM shopping;
SELECT (model).n_rows AS n_rows, (model).n_features AS n_features, CAST((model).coef[1] AS DECIMAL(12, 6)) AS x0,
       CAST((model).coef[2] AS DECIMAL(12, 6)) AS x1, CAST((model).coef[3] AS DECIMAL(12, 6)) AS x2,
       CAST((model).coef[4] AS DECIMAL(12, 6)) AS x3, CAST((model).coef[5] AS DECIMAL(12, 6)) AS x4,
       CAST((model).coef[6] AS DECIMAL(12, 6)) AS x5, CAST((model).intercept AS DECIMAL(12, 6)) AS intercept
FROM fitted;

-- Feature 9 was never seen: it weighs nothing.
SELECT spent, CAST(predict(model, sparse(ids, amounts)) AS DECIMAL(12, 6)) AS predicted,
       CAST(predict(model, sparse(ids || ARRAY[9], amounts || ARRAY[CAST(1 AS DOUBLE PRECISION)])) AS DECIMAL(12, 6)) AS unseen
FROM shopping CROSS JOIN fitted ORDER BY spent;
