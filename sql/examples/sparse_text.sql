-- Sparse features: is a message a complaint?
--
--     tuskml sql sql/examples/sparse_text.sql      in DuckDB
--     psql -f sql/examples/sparse_text.sql         in PostgreSQL
--
-- Words are features by the hashing trick: hash_features turns a list of names into ids and
-- values, of which a row has few and the model may have millions. No dictionary is kept.

DROP TABLE IF EXISTS messages;
CREATE TABLE messages (id INTEGER, complaint BOOLEAN, body VARCHAR);

INSERT INTO messages VALUES
    ( 1, true,  'the parcel arrived late and the box was broken'),
    ( 2, true,  'still waiting for my refund please answer'),
    ( 3, true,  'wrong size again and nobody answers the phone'),
    ( 4, true,  'the screen is broken I want my money back'),
    ( 5, true,  'terrible service the parcel never arrived'),
    ( 6, true,  'charged twice please send the refund'),
    ( 7, true,  'the zip was broken after one day terrible quality'),
    ( 8, true,  'delivery was late again and the driver was rude'),
    ( 9, false, 'thank you the parcel arrived early'),
    (10, false, 'great quality and a lovely colour'),
    (11, false, 'do you ship the blue one to Norway'),
    (12, false, 'the size fits well thank you'),
    (13, false, 'lovely service and a friendly driver'),
    (14, false, 'which size do you recommend'),
    (15, false, 'works great on the first day'),
    (16, false, 'can I pay by invoice next time');

-- Words, in lower case, hashed into 2^16 ids. Each word counts 1; features with values of their
-- own, such as an age, have them in a second list: hash_features(ARRAY['age'], ARRAY[37], 16).

DROP TABLE IF EXISTS features;
CREATE TABLE features AS
SELECT *, hash_features(string_to_array(lower(body), ' '), 16) AS words FROM messages;

SELECT id, body, words FROM features WHERE id IN (6, 14) ORDER BY id;

-- With more words than messages the coefficients need a penalty: l2 keeps them small, l1 would
-- set most of them to 0. What would run, and why?

SELECT explain_training('logistic', complaint, words, '{"l2": 0.02}') AS plan FROM features;

DROP TABLE IF EXISTS trained;
CREATE TABLE trained AS
SELECT train_model('logistic', complaint, words, '{"l2": 0.02}') AS model FROM features;

-- coef[i + 1] is the weight of id i: which words make a complaint?

WITH vocabulary AS (
    SELECT DISTINCT unnest(string_to_array(lower(body), ' ')) AS word FROM messages
), weights AS (
    SELECT word, decision(model, hash_features(ARRAY[word], 16)) - (model).intercept AS weight
    FROM vocabulary, trained
)
SELECT * FROM (
    (SELECT * FROM weights ORDER BY weight DESC, word LIMIT 4)
    UNION ALL (SELECT * FROM weights ORDER BY weight, word LIMIT 4)
) AS extremes ORDER BY weight DESC, word;

-- New messages: words that the model has never seen have weight 0.

SELECT body,
       CAST(round(100 * predict_proba(model, hash_features(string_to_array(lower(body), ' '), 16)))
            AS INTEGER) AS complaint_in_percent
FROM trained, (VALUES
    ('my parcel is late and the lid is broken'),
    ('thank you for the lovely scarf'),
    ('please send me my refund'),
    ('do you have this one in red')) AS incoming(body)
ORDER BY complaint_in_percent DESC;
