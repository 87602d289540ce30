-- One model per group: how much does a degree of temperature sell in each shop?
--
--     tuskml sql sql/examples/model_per_group.sql      in DuckDB
--     psql -f sql/examples/model_per_group.sql         in PostgreSQL
--
-- Days of six ice-cream shops, generated here so that the truth is known: each shop sells
-- base + slope * temperature - 20 * rain, and a little noise that is the same in every run. Some
-- shops make trouble, as real ones do.

DROP TABLE IF EXISTS shops;
CREATE TABLE shops (shop VARCHAR, base DOUBLE PRECISION, slope DOUBLE PRECISION, days INTEGER);

INSERT INTO shops VALUES
    ('beach',   20, 9.0, 400),
    ('campus',  60, 2.0, 300),
    ('market',  90, 4.5, 200),
    ('station', 75, 0.5, 150),
    ('museum',  40, 1.5,  30),   -- the thermometer is broken: always 20 degrees
    ('pop-up',  10, 6.0,   2);   -- open for two days only

DROP TABLE IF EXISTS days;
CREATE TABLE days AS
SELECT shop, day, temperature, rain,
       base + slope * temperature - 20 * rain + 6 * sin(day * 12.9898) AS sold
FROM (SELECT shop, day, base, slope,
             CASE shop WHEN 'museum' THEN 20 ELSE 18 + 10 * sin(day * 0.7) END AS temperature,
             CASE WHEN day * 7919 % 11 < 3 THEN 1 ELSE 0 END AS rain
      FROM shops JOIN generate_series(1, 400) AS calendar(day) ON day <= days) AS weather;

-- The scale at the market did not work for ten days: rows with a NULL are skipped, and counted.

UPDATE days SET sold = NULL WHERE shop = 'market' AND day BETWEEN 20 AND 29;

-- GROUP BY trains one model per shop, all of them together. Every tenth day is held out.

DROP TABLE IF EXISTS models;
CREATE TABLE models AS
SELECT shop, train_model('linear', sold, ARRAY[temperature, rain]) AS model
FROM days WHERE day % 10 <> 0
GROUP BY shop;

-- A group that cannot be trained well never fails the query: its status says what happened.

SELECT shop, (model).n_rows AS n_rows, (model).n_skipped AS n_skipped, (model).status AS status,
       (model).coef[1] AS per_degree, (model).std_err[2] AS std_err, (model).coef[2] AS if_it_rains
FROM models ORDER BY (model).n_rows DESC;

-- Prediction is a join. These days were not trained on.

SELECT shop, day, CAST(temperature AS DECIMAL(4, 1)) AS temperature, rain, round(sold) AS sold,
       round(predict(model, ARRAY[temperature, rain])) AS predicted
FROM days JOIN models USING (shop)
WHERE shop = 'beach' AND day IN (10, 20, 30, 40, 50) ORDER BY day;

-- How good is each model on days that it has not seen, and was the slope found?

SELECT shop, count(*) AS days,
       rmse(sold, predict(model, ARRAY[temperature, rain])) AS rmse,
       r2(sold, predict(model, ARRAY[temperature, rain])) AS r2,
       max(slope) AS true_slope,
       max((model).coef[1]) AS found_slope
FROM days JOIN models USING (shop) JOIN shops USING (shop)
WHERE day % 10 = 0
GROUP BY shop ORDER BY shop;
