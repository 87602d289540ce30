-- A first model: who has a second heart attack?
--
--     tuskml sql sql/examples/first_model.sql      in DuckDB
--     psql -f sql/examples/first_model.sql         in PostgreSQL
--
-- Twenty patients had a heart attack. We know whether each took part in a treatment of anger
-- control, and their score on a scale of anxiety. (The logistic example of Apache MADlib's
-- manual.)

DROP TABLE IF EXISTS patients;
CREATE TABLE patients (id INTEGER, second_attack BOOLEAN, treatment INTEGER, anxiety DOUBLE PRECISION);

INSERT INTO patients VALUES
    ( 1, true,  1, 70), ( 2, true,  1, 80), ( 3, true,  1, 50), ( 4, true,  0, 60),
    ( 5, true,  0, 40), ( 6, true,  0, 65), ( 7, true,  0, 75), ( 8, true,  0, 80),
    ( 9, true,  0, 70), (10, true,  0, 60), (11, false, 1, 65), (12, false, 1, 50),
    (13, false, 1, 45), (14, false, 1, 35), (15, false, 1, 40), (16, false, 1, 50),
    (17, false, 0, 55), (18, false, 0, 45), (19, false, 0, 50), (20, false, 0, 60);

-- train_model is an aggregate, like avg: the rows go in, a model comes out. Keep models in a
-- table: each use of the expression trains again, each use of the table does not.

DROP TABLE IF EXISTS trained;
CREATE TABLE trained AS
SELECT train_model('logistic', second_attack, ARRAY[treatment, anxiety]) AS model
FROM patients;

-- A model is a value that a person can read.

SELECT model FROM trained;

-- Its coefficients with their standard errors: x1 is the treatment, x2 the anxiety. The
-- log-odds of a second attack rise by 0.119 per point of anxiety (p = 0.03).

SELECT * FROM model_summary((SELECT model FROM trained));

-- predict gives the class in the label's own values (here 0 and 1), predict_proba the
-- probability of the higher one. How well do they fit the patients that the model was trained on?

SELECT accuracy(second_attack, predict(model, ARRAY[treatment, anxiety])) AS accuracy,
       auc(second_attack, predict_proba(model, ARRAY[treatment, anxiety])) AS auc,
       log_loss(second_attack, predict_proba(model, ARRAY[treatment, anxiety])) AS log_loss
FROM patients, trained;

-- And what does it say of patients that it has not seen?

SELECT treatment, anxiety,
       CAST(round(100 * predict_proba(model, ARRAY[treatment, anxiety])) AS INTEGER) AS risk_in_percent
FROM trained,
     (VALUES (0), (1)) AS treated(treatment),
     (VALUES (40.0), (60.0), (80.0)) AS anxious(anxiety)
ORDER BY anxiety, treatment;
