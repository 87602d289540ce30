CREATE TABLE clicks (site INTEGER, ids INTEGER[]);
INSERT INTO clicks VALUES
    (1, ARRAY[3, 7, 7]), (1, ARRAY[7, 3]), (1, ARRAY[2147483646]), (1, NULL), (1, ARRAY[5, NULL]),
    (2, ARRAY[0]), (2, ARRAY[9, 0]), (3, NULL), (4, CAST(ARRAY[] AS INTEGER[]));
SELECT site, (f).feature AS feature, (f).estimate AS estimate, (f).lower AS least, (f).upper AS most
FROM (SELECT site, unnest(feature_frequencies(ids)) AS f FROM clicks GROUP BY site) AS t ORDER BY site, estimate DESC, feature;
SELECT (f).feature AS feature, (f).estimate AS estimate
FROM (SELECT unnest(feature_frequencies(ids, '{"top": 2}')) AS f FROM clicks) AS t ORDER BY estimate DESC, feature;

-- A group without usable rows is NULL; rows without ids are rows.
SELECT site, feature_frequencies(ids) IS NULL AS missing FROM clicks GROUP BY site ORDER BY site;
SELECT (second[1]).feature AS first_of_second, (second[2]).feature AS second_of_second, none IS NULL AS none
FROM (SELECT feature_frequencies(ids) FILTER (WHERE site = 2) AS second, feature_frequencies(ids) FILTER (WHERE site > 9) AS none FROM clicks) AS t;
SELECT (f).feature AS feature, (f).estimate AS estimate
FROM (SELECT unnest(feature_frequencies(CAST(ids AS BIGINT[]))) AS f FROM clicks WHERE site = 2) AS t ORDER BY estimate DESC;
