CREATE TABLE readings (place VARCHAR, y DOUBLE PRECISION, x DOUBLE PRECISION[]);
INSERT INTO readings VALUES
    ('a', 1, ARRAY[1, 0]), ('a', NULL, ARRAY[7, 7]), ('a', 3, ARRAY[2, 1]), ('a', 4, NULL), ('a', 4, ARRAY[2, NULL]),
    ('a', 6, ARRAY[3, 3]), ('a', 2, ARRAY[0, 1]), ('a', 5, ARRAY[3, 1]),
    ('b', NULL, ARRAY[1, 1]), ('b', NULL, NULL), ('b', 1, ARRAY[CAST(NULL AS DOUBLE PRECISION), 1]),
    ('c', 1, ARRAY[1, 1]), ('c', NULL, ARRAY[1, 1]);
SELECT place, m IS NULL AS missing, (m).n_rows AS n_rows, (m).n_skipped AS n_skipped, (m).status AS status,
       CAST((m).coef[1] AS DECIMAL(12, 6)) AS x1, CAST((m).coef[2] AS DECIMAL(12, 6)) AS x2,
       CAST((m).intercept AS DECIMAL(12, 6)) AS intercept
FROM (SELECT place, train_model('linear', y, x) AS m FROM readings GROUP BY place) AS t
ORDER BY place;

SELECT train_model('linear', y, x) IS NULL AS nothing FROM readings WHERE place = 'nowhere';

SELECT place, train_model('linear', y, x) IS NULL AS nothing FROM readings WHERE place = 'nowhere' GROUP BY place;
