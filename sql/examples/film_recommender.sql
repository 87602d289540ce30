-- A film recommender: which films would somebody like that they have not seen?
--
--     tuskml sql sql/examples/film_recommender.sql      in DuckDB
--     psql -f sql/examples/film_recommender.sql         in PostgreSQL
--
-- Matrix factorisation gives each user and each film a few numbers, learnt from ratings alone, so
-- that the product of two vectors says how well film and user suit each other. The ratings here are
-- made up, the same in every run, and so the truth is known: films are of three kinds, of which
-- every user loves one and likes another, a film is better or worse, and a user kind or strict.
-- The model knows none of that: it sees (user, film, rating).

DROP TABLE IF EXISTS films;
CREATE TABLE films (film INTEGER, title VARCHAR, kind VARCHAR);
INSERT INTO films VALUES
    ( 0, 'The Long Orbit', 'space'),     ( 1, 'Heist at Noon', 'crime'),      ( 2, 'Letters to Lisbon', 'romance'),
    ( 3, 'Red Dust', 'space'),           ( 4, 'The Quiet Informer', 'crime'), ( 5, 'A Summer Twice', 'romance'),
    ( 6, 'Silence Beyond Io', 'space'),  ( 7, 'Nine Alibis', 'crime'),        ( 8, 'The Tea House', 'romance'),
    ( 9, 'Cargo of Stars', 'space'),     (10, 'Blind Witness', 'crime'),      (11, 'Almost Venice', 'romance'),
    (12, 'Gravity Well', 'space'),       (13, 'The Last Ledger', 'crime'),    (14, 'Dance Card', 'romance'),
    (15, 'First Colony', 'space'),       (16, 'Cold Harbour', 'crime'),       (17, 'The Other Platform', 'romance'),
    (18, 'Signal Lost', 'space'),        (19, 'Paper Trail', 'crime'),        (20, 'Between Two Rains', 'romance'),
    (21, 'The Ninth Moon', 'space'),     (22, 'Safe House', 'crime'),         (23, 'Your Handwriting', 'romance');

-- 400 users. User u loves kind u % 3 and likes kind (u + 1) % 3; about half of all pairs are rated,
-- films of the loved kind more often. x * x modulo a prime looks random.

DROP TABLE IF EXISTS ratings;
CREATE TABLE ratings AS
SELECT userid, film, id % 5 = 0 AS held_out,
       CAST(greatest(1, least(5, round(
           3 + CASE (film - userid + 1200) % 3 WHEN 0 THEN 1.3 WHEN 1 THEN 0.2 ELSE -1.2 END
             + 0.6 * sin(film * 2.4) + 0.5 * sin(userid * 1.7) + 1.6 * (noise - 0.5)))) AS INTEGER) AS stars
FROM (SELECT userid, film, id, CAST(x * x % 2147483647 AS DOUBLE PRECISION) / 2147483647 AS noise,
             CAST(y * y % 2147483647 AS DOUBLE PRECISION) / 2147483647 AS seen
      FROM (SELECT userid, film, userid * 24 + film AS id,
                   (48271 * (CAST(userid AS BIGINT) * 24 + film + 977)) % 2147483647 AS x,
                   (69621 * (CAST(userid AS BIGINT) * 24 + film + 33331)) % 2147483647 AS y
            FROM films CROSS JOIN generate_series(0, 399) AS people(userid)) AS pairs) AS drawn
WHERE seen < CASE (film - userid + 1200) % 3 WHEN 0 THEN 0.6 ELSE 0.4 END;

SELECT stars, count(*) AS ratings FROM ratings GROUP BY stars ORDER BY stars;

-- Users and films are numbers from 0 on. rank is how many numbers each gets besides its bias; one
-- rating in five is held out. deterministic: the same model whatever the order of the rows.

DROP TABLE IF EXISTS taste;
CREATE TABLE taste AS
SELECT train_model('matrix_factorization', stars, ARRAY[userid, film],
                   '{"rank": 3, "max_iter": 60, "deterministic": true}') AS model
FROM ratings WHERE NOT held_out;

SELECT (model).status AS status, (model).n_rows AS ratings, (model).classes[1] AS users,
       (model).classes[2] AS films, (model).iterations AS iterations, (model).loss AS loss
FROM taste;

-- How many stars off is it on ratings that it has not seen? Compare: always the mean rating, and
-- each film's own mean.

SELECT count(*) AS ratings, rmse(stars, mean) AS always_the_mean, rmse(stars, film_mean) AS the_film_s_mean,
       rmse(stars, predict(model, ARRAY[userid, film])) AS by_taste
FROM ratings
JOIN (SELECT film, avg(CAST(stars AS DOUBLE PRECISION)) AS film_mean FROM ratings WHERE NOT held_out GROUP BY film)
     AS by_film USING (film)
CROSS JOIN (SELECT avg(CAST(stars AS DOUBLE PRECISION)) AS mean FROM ratings WHERE NOT held_out) AS overall
CROSS JOIN taste
WHERE held_out;

-- Three films for each of three users, of those that they have not rated. The column loves is the
-- truth, which the model never saw.

SELECT userid, loves, place, title, kind, stars_expected
FROM (SELECT people.userid, people.loves, films.title, films.kind, stars_expected,
             row_number() OVER (PARTITION BY people.userid ORDER BY stars_expected DESC, films.film) AS place
      FROM (SELECT p.userid, f.film, predict(model, ARRAY[p.userid, f.film]) AS stars_expected
            FROM (VALUES (0), (1), (2)) AS p(userid) CROSS JOIN films AS f CROSS JOIN taste
            WHERE NOT EXISTS (SELECT 1 FROM ratings AS r WHERE r.userid = p.userid AND r.film = f.film)) AS unseen
      JOIN films ON films.film = unseen.film
      JOIN (VALUES (0, 'space'), (1, 'crime'), (2, 'romance')) AS people(userid, loves)
           ON people.userid = unseen.userid) AS ranked
WHERE place <= 3 ORDER BY userid, place;
