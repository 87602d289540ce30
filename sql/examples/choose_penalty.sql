-- Choosing the penalty: how much of what a few rows say should a model believe?
--
--     tuskml sql sql/examples/choose_penalty.sql      in DuckDB
--     psql -f sql/examples/choose_penalty.sql         in PostgreSQL
--
-- Customers of five countries, some of whom cancelled. Of each we know twelve habits. Only three of
-- them matter, and nobody tells the model which. From a few dozen customers and no penalty it
-- learns their chances by heart; a penalty (the option l2) keeps its coefficients small. How large a
-- penalty is best depends on the country, and is found on customers that were not trained on.

DROP TABLE IF EXISTS countries;
CREATE TABLE countries (country VARCHAR, place INTEGER, customers INTEGER);
INSERT INTO countries VALUES
    ('Andorra', 1, 60), ('Iceland', 2, 120), ('Estonia', 3, 300), ('Ireland', 4, 1200), ('Spain', 5, 6000);

-- Made up here, the same in every run and in both databases: x * x modulo a prime looks random.
-- One customer in five is set aside to choose the penalty, one in five to see how good the choice was.

DROP TABLE IF EXISTS customers;
CREATE TABLE customers AS
SELECT country, id, habits,
       random < 1 / (1 + exp(1 - 2 * habits[1] + 1.5 * habits[2] - habits[3])) AS cancelled,
       CASE id % 5 WHEN 0 THEN 'choose' WHEN 1 THEN 'judge' ELSE 'train' END AS part
FROM (SELECT country, id, max(CASE k WHEN 0 THEN u END) AS random,
             array_agg(4 * u - 2 ORDER BY k) FILTER (WHERE k > 0) AS habits
      FROM (SELECT country, id, k, CAST(x * x % 2147483647 AS DOUBLE PRECISION) / 2147483647 AS u
            FROM (SELECT country, id, k, (48271 * (id + 10007 * place) + 69621 * 1009 * k) % 2147483647 AS x
                  FROM countries JOIN (SELECT CAST(i AS BIGINT) AS id FROM generate_series(1, 6000) AS s(i)) AS ids
                       ON id <= customers
                  CROSS JOIN generate_series(0, 12) AS f(k)) AS mixed) AS drawn
      GROUP BY country, id) AS customer;

SELECT country, count(*) AS customers, sum(CASE WHEN cancelled THEN 1 ELSE 0 END) AS cancelled
FROM customers GROUP BY country ORDER BY customers;

-- The penalties to try. Options are text, and text is data: one query trains a model for each
-- country and each penalty.

DROP TABLE IF EXISTS penalties;
CREATE TABLE penalties (l2 DOUBLE PRECISION, options VARCHAR);
INSERT INTO penalties VALUES
    (0, '{"l2": 0}'), (0.001, '{"l2": 0.001}'), (0.01, '{"l2": 0.01}'), (0.03, '{"l2": 0.03}'),
    (0.1, '{"l2": 0.1}'), (0.3, '{"l2": 0.3}'), (1, '{"l2": 1}');

DROP TABLE IF EXISTS tries;
CREATE TABLE tries AS
SELECT country, l2, train_model('logistic', cancelled, habits, options) AS model
FROM customers CROSS JOIN penalties WHERE part = 'train'
GROUP BY country, l2, options;

-- The loss on customers that were set aside. It falls while the penalty takes noise away, and rises
-- again where it takes the signal too.

DROP TABLE IF EXISTS losses;
CREATE TABLE losses AS
SELECT country, l2, part, log_loss(cancelled, predict_proba(model, habits)) AS loss
FROM customers JOIN tries USING (country) WHERE part <> 'train'
GROUP BY country, l2, part;

SELECT l2, max(CASE country WHEN 'Andorra' THEN loss END) AS andorra,
       max(CASE country WHEN 'Iceland' THEN loss END) AS iceland,
       max(CASE country WHEN 'Estonia' THEN loss END) AS estonia,
       max(CASE country WHEN 'Ireland' THEN loss END) AS ireland,
       max(CASE country WHEN 'Spain' THEN loss END) AS spain
FROM losses WHERE part = 'choose' GROUP BY l2 ORDER BY l2;

-- Each country's best.

DROP TABLE IF EXISTS chosen;
CREATE TABLE chosen AS
SELECT country, l2
FROM (SELECT country, l2, row_number() OVER (PARTITION BY country ORDER BY loss, l2 DESC) AS place
      FROM losses WHERE part = 'choose') AS ranked
WHERE place = 1;

-- The model to use, trained with the chosen penalty on all but the customers that judge it.

DROP TABLE IF EXISTS cancel_models;
CREATE TABLE cancel_models AS
SELECT country, l2, train_model('logistic', cancelled, habits, options) AS model
FROM customers JOIN chosen USING (country) JOIN penalties USING (l2) WHERE part <> 'judge'
GROUP BY country, l2, options;

-- What was it worth? On customers that neither trained nor chose: the loss without a penalty, and
-- with the chosen one; of the three coefficients that matter (2, -1.5 and 1) what is left, and the
-- largest of the nine that should be 0.

SELECT country, max(trained_on) AS trained_on, l2, max(unpenalised.loss) AS loss_without,
       log_loss(cancelled, predict_proba(model, habits)) AS loss_with,
       max(signal_1) AS signal_1, max(signal_2) AS signal_2, max(signal_3) AS signal_3, max(noise) AS noise
FROM customers
JOIN (SELECT country, l2, model, (model).n_rows AS trained_on, (model).coef[1] AS signal_1,
             (model).coef[2] AS signal_2, (model).coef[3] AS signal_3,
             greatest(abs((model).coef[4]), abs((model).coef[5]), abs((model).coef[6]),
                      abs((model).coef[7]), abs((model).coef[8]), abs((model).coef[9]),
                      abs((model).coef[10]), abs((model).coef[11]), abs((model).coef[12])) AS noise
      FROM cancel_models) AS used USING (country)
JOIN (SELECT country, loss FROM losses WHERE l2 = 0 AND part = 'judge') AS unpenalised USING (country)
WHERE part = 'judge'
GROUP BY country, l2 ORDER BY trained_on;
