-- data: cars
-- 2^3 = 8 places for the features.
SELECT (hashed).indices AS indices, (hashed)."values" AS amounts
FROM (SELECT hash_features(ARRAY['wt', 'red', 'wt'], ARRAY[2, 1, 0], 3) AS hashed) AS t;

SELECT (m).n_rows AS n_rows, (m).n_features <= 256 AS fits, (m).status AS status
FROM (SELECT train_model('linear', mpg, hash_features(ARRAY['cyl=' || CAST(cyl AS VARCHAR), 'wt'], ARRAY[1, wt], 8),
                         '{"l2": 0.001}') AS m FROM cars) AS t;
