-- Feature i always comes with feature 10 + i, and feature 30 in every row.
CREATE TABLE clicks AS SELECT i % 2 AS site, ARRAY[i % 10, 10 + i % 10, 30] AS ids FROM generate_series(1, 400) AS s(i);
INSERT INTO clicks VALUES (0, NULL), (2, NULL);
CREATE TABLE layouts AS
SELECT site, partition_model(ids, '{"t_seek": 1e-6, "t_unit": 4e-7}') AS layout FROM clicks GROUP BY site;
SELECT site, layout IS NULL AS missing, (layout).features AS features, (layout).partitions AS partitions,
       (layout).block_sizes AS block_sizes, (layout).rows_seen AS rows_seen, (layout).rows_skipped AS rows_skipped,
       (layout).rows_sampled AS rows_sampled
FROM layouts ORDER BY site;
SELECT site, (layout).requests_before AS requests_before, (layout).requests_after AS requests_after,
       CAST((layout).saved AS DECIMAL(6, 4)) AS saved
FROM layouts ORDER BY site;
SELECT (layout).explanation AS explanation FROM layouts WHERE site = 1;
SELECT (layout).index_map AS index_map FROM layouts WHERE site = 1;

-- No frequent features: a key a feature, or what is asked for.
SELECT (p).features AS features, (p).partitions AS partitions, (p).block_sizes AS block_sizes, (p).requests_after AS requests_after
FROM (SELECT partition_model(ids, '{"top": 0, "block": 8}') AS p FROM clicks) AS t;
