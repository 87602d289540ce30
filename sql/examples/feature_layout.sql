-- A model larger than memory: which of its weights should be stored together on disk?
--
--     tuskml sql sql/examples/feature_layout.sql      in DuckDB
--     psql -f sql/examples/feature_layout.sql         in PostgreSQL
--
-- A row of clicks is a visit: the ids of the pages that were seen. Pages come in guides of four, of
-- which visitors read all; page 0 is the home page, and others are seen now and then.

DROP TABLE IF EXISTS visits;
CREATE TABLE visits AS
SELECT i % 2 = 0 AS mobile, ARRAY[0, g, g + 1, g + 2, g + 3, 1000 + (i * 7919) % 5003] AS pages
FROM (SELECT i, 10 * (1 + i % 8) AS g FROM generate_series(1, 4000) AS s(i)) AS t;

-- The ten most frequent pages. Counts are exact up to 12,288 different ones; beyond that
-- f.lower <= the true count <= f.upper holds.

SELECT (f).feature AS page, (f).estimate AS visits
FROM (SELECT unnest(feature_frequencies(pages, '{"top": 10}')) AS f FROM visits) AS t
ORDER BY visits DESC, page;

-- Pages that are read together share a key of the store, so that a row asks for fewer keys: one
-- layout per group, as with any aggregate. t_seek and t_unit are what a key and a weight cost, in seconds.

DROP TABLE IF EXISTS layouts;
CREATE TABLE layouts AS
SELECT mobile, partition_model(pages, '{"top": 33, "t_seek": 1e-6, "t_unit": 1e-7}') AS layout
FROM visits GROUP BY mobile;

SELECT mobile, (layout).features AS features, (layout).partitions AS partitions,
       (layout).requests_before AS requests_before, (layout).requests_after AS requests_after,
       (layout).saved AS saved
FROM layouts ORDER BY mobile;

SELECT (layout).explanation AS explanation FROM layouts WHERE mobile;
