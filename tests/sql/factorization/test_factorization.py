"""The task `matrix_factorization` in SQL: the model value, groups, options, NULLs, errors."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import numpy as np
import pytest

RATINGS = """
CREATE TABLE ratings AS
SELECT i, i % 3 AS g, CAST(u AS DOUBLE PRECISION) AS u, CAST(f AS DOUBLE PRECISION) AS f,
       3 + CAST((u % 5) * (f % 3 - 1) AS DOUBLE PRECISION) / 4 + CAST((i * 31) % 11 - 5 AS DOUBLE PRECISION) / 64 AS rating,
       CAST(ARRAY[u, f] AS DOUBLE PRECISION[]) AS pair
FROM (SELECT i, (i * 7919) % 61 AS u, (i * 10473) % 47 AS f FROM generate_series(1, 3000) AS s(i)) AS t
"""


@pytest.fixture
def db(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    con.execute(RATINGS)
    return con


def call(features: str = "pair", label: str = "rating", **options: object) -> str:
    return f"train_model('matrix_factorization', {label}, {features}, '{json.dumps(options)}')"


def models(db: duckdb.DuckDBPyConnection, selection: str) -> list[dict[str, Any]]:
    return [row[0] for row in db.execute(f"SELECT {selection}").fetchall()]


def plain(model: dict[str, Any]) -> dict[str, Any]:
    """What must be the same from run to run."""
    return {name: value for name, value in model.items() if name != "seconds"}


def predicted(model: dict[str, Any], u: np.ndarray, f: np.ndarray) -> np.ndarray:
    """mu + b_u + b_i + p_u.q_i, or p_u.q_i."""
    n_users, n_items, width = map(int, model["classes"])
    coef = np.array(model["coef"]).reshape(n_users + n_items, width)
    p, q = coef[u.astype(int)], coef[n_users + f.astype(int)]
    if not json.loads(model["options"])["biases"]:
        return np.einsum("nk,nk->n", p, q)
    return model["intercept"] + p[:, 0] + q[:, 0] + np.einsum("nk,nk->n", p[:, 1:], q[:, 1:])


def columns(db: duckdb.DuckDBPyConnection, where: str = "true") -> list[np.ndarray]:
    found = db.execute(f"SELECT u, f, rating FROM ratings WHERE {where}").fetchnumpy()
    return [np.asarray(found[name]) for name in ("u", "f", "rating")]


def test_the_model_value(db: duckdb.DuckDBPyConnection) -> None:
    (model,) = models(db, f"{call(rank=3)} FROM ratings")
    u, f, rating = columns(db)
    assert model["task"] == "matrix_factorization"
    assert model["classes"] == [61, 47, 4]
    assert len(model["coef"]) == (61 + 47) * 4
    assert model["intercept"] == pytest.approx(rating.mean(), abs=1e-6)
    assert model["std_err"] is None
    assert (model["n_rows"], model["n_skipped"], model["n_features"]) == (3000, 0, 2)
    assert (model["iterations"], model["status"], len(model["history"])) == (20, "ok", 20)
    options = json.loads(model["options"])
    wanted = {
        "algorithm": "als",
        "rank": 3,
        "biases": True,
        "l2": "auto",
        "schedule": "linear",
        "epsilon": 0.0,
    }
    assert wanted.items() <= options.items()
    error = predicted(model, u, f) - rating
    unit = [1, *[rating.std()] * 3]  # of the penalty of biases, and of factors
    squares = (np.array(model["coef"]).reshape(-1, 4) ** 2 * unit).sum(axis=1)
    penalty = 0.07 / 2 * (squares[u.astype(int)] + squares[61 + f.astype(int)])
    assert model["loss"] == pytest.approx(np.mean(error**2 / 2 + penalty), rel=1e-5)
    assert np.sqrt(np.mean(error**2)) < rating.std() / 2


@pytest.mark.parametrize("times", [1e-12, 1e-3, 7.3, 1e15])
@pytest.mark.parametrize("options", [{}, {"biases": False}, {"algorithm": "sgd"}], ids=str)
def test_a_model_follows_the_unit_of_its_ratings(
    db: duckdb.DuckDBPyConnection, options: dict[str, Any], times: float
) -> None:
    """Also without biases, when it would be 0 for ratings in thousands with a penalty of 0.07."""
    given = {"rank": 3, **options}
    one, other = (
        models(db, f"{call(label=f'rating * {unit!r}::DOUBLE', **given)} FROM ratings")[0]
        for unit in (1.0, times)
    )
    u, f, _ = columns(db)
    assert other["status"] == "ok"
    expected = predicted(one, u, f)
    found = predicted(other, u, f) / times
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.01 * expected.std()


def test_equal_ratings_have_a_unit(db: duckdb.DuckDBPyConnection) -> None:
    """Their deviation is 0: the penalty is then in units of the ratings."""
    (model,) = models(db, f"{call(label='5e-9::DOUBLE', biases=False, rank=1)} FROM ratings")
    u, f, _ = columns(db)
    assert predicted(model, u, f) == pytest.approx(np.full(len(u), 5e-9), rel=0.2)


def test_resolved_options_give_the_same_model(db: duckdb.DuckDBPyConnection) -> None:
    (one,) = models(db, f"{call(rank=3, epsilon=1e-3, biases=False)} FROM ratings")
    given = json.loads(one["options"])
    for fact in ("tuskml", "l2_biases", "l2_factors"):
        del given[fact]
    (other,) = models(db, f"{call(**given)} FROM ratings")
    assert plain(other) == plain(one)


def test_without_biases(db: duckdb.DuckDBPyConnection) -> None:
    (model,) = models(db, f"{call(rank=3, biases=False, max_iter=60)} FROM ratings")
    u, f, rating = columns(db)
    assert model["classes"] == [61, 47, 3]
    assert model["intercept"] == 0
    assert np.sqrt(np.mean((predicted(model, u, f) - rating) ** 2)) < rating.std()


def test_each_group_has_its_own_model(db: duckdb.DuckDBPyConnection) -> None:
    found = db.execute(f"SELECT g, {call(rank=2)} FROM ratings GROUP BY g ORDER BY g").fetchall()
    for g, model in found:
        (alone,) = models(db, f"{call(rank=2)} FROM ratings WHERE g = {g}")
        assert plain(model) == plain(alone)


@pytest.mark.nightly
def test_many_small_groups(db: duckdb.DuckDBPyConnection) -> None:
    found = models(
        db, f"{call(rank=2, max_iter=3)} FROM ratings GROUP BY i % 700 ORDER BY i % 700"
    )
    assert len(found) == 700
    for place in (0, 321, 699):
        (alone,) = models(db, f"{call(rank=2, max_iter=3)} FROM ratings WHERE i % 700 = {place}")
        assert plain(found[place]) == plain(alone)


@pytest.mark.parametrize("storage", ["FLOAT[]", "FLOAT[2]", "DOUBLE[]", "INTEGER[]", "BIGINT[]"])
def test_types_of_features(db: duckdb.DuckDBPyConnection, storage: str) -> None:
    (one,) = models(db, f"{call(rank=2)} FROM ratings")
    (other,) = models(db, f"{call(f'pair::{storage}', rank=2)} FROM ratings")
    assert plain(other) == plain(one)


def test_order_and_threads_change_no_bit(db: duckdb.DuckDBPyConnection) -> None:
    (one,) = models(db, f"{call(rank=2, threads=1)} FROM ratings")
    (other,) = models(db, f"{call(rank=2, threads=4)} FROM (FROM ratings ORDER BY hash(i))")
    assert other["coef"] == one["coef"]
    assert (other["loss"], other["history"]) == (one["loss"], one["history"])
    (seeded,) = models(db, f"{call(rank=2, threads=1, seed=7)} FROM ratings")
    assert seeded["coef"] != one["coef"]
    alone = [call(rank=2, threads=1, algorithm=name) for name in ("hogwild", "sgd")]
    lock_free, ordered = (models(db, f"{each} FROM ratings")[0]["coef"] for each in alone)
    assert lock_free == ordered


def test_nulls_are_skipped(db: duckdb.DuckDBPyConnection) -> None:
    gone = "CASE WHEN i % 5 > 0 THEN rating END"
    features = "CASE WHEN i % 7 = 0 THEN NULL WHEN i % 7 = 1 THEN [u, NULL] ELSE [u, f] END"
    (found,) = models(db, f"{call(features, gone, rank=2)} FROM ratings")
    (kept,) = models(db, f"{call(rank=2)} FROM ratings WHERE i % 5 > 0 AND i % 7 > 1")
    assert found["n_skipped"] == 3000 - kept["n_rows"]
    told = {name: found[name] for name in ("n_skipped", "note")}
    assert plain(found) == plain(kept) | told
    assert "of 3,000 rows were skipped" in found["note"]
    assert models(db, f"{call('pair', 'NULL::DOUBLE')} FROM ratings") == [None]


def test_one_rating(con: duckdb.DuckDBPyConnection) -> None:
    (model,) = models(con, call("[3, 1]", "4.5"))
    assert model["classes"] == [4, 2, 11]
    assert model["intercept"] == 4.5
    assert predicted(model, np.array([3]), np.array([1])) == pytest.approx([4.5], abs=0.01)


def test_stops_when_the_objective_rests(db: duckdb.DuckDBPyConnection) -> None:
    given = {"rank": 2, "max_iter": 1000, "schedule": "1/i", "converge": "loss"}
    (model,) = models(db, f"{call(epsilon=1e-4, **given)} FROM ratings")
    assert model["converged"]
    assert model["iterations"] < 1000
    before, last = model["history"][-2:]
    assert abs(before - last) <= 1e-4 * before
    (model,) = models(db, f"{call(epsilon=1e-9, **given | {'max_iter': 3})} FROM ratings")
    assert (model["converged"], model["status"]) == (False, "not converged")


def test_als_goes_over_to_solving_where_steps_rest(db: duckdb.DuckDBPyConnection) -> None:
    """The objective is then the least one, to epsilon, long before the last epochs: half of them are
    steps at most."""
    given = {"rank": 2, "max_iter": 400, "schedule": "1/i", "l2": 0.07}
    (model,) = models(db, f"{call(epsilon=1e-6, algorithm='als', **given)} FROM ratings")
    (steps,) = models(db, f"{call(epsilon=1e-6, algorithm='sgd', **given)} FROM ratings")
    assert model["converged"]
    assert model["iterations"] <= 200 + 20
    assert model["loss"] < steps["loss"]


@pytest.mark.parametrize("max_iter", [1, 2, 3, 5])
def test_the_last_epoch_is_solved(db: duckdb.DuckDBPyConnection, max_iter: int) -> None:
    """Its objective is that of the model, where that of an epoch of steps is of the way."""
    for name, same in (("als", True), ("sgd", False)):
        (model,) = models(db, f"{call(rank=2, max_iter=max_iter, algorithm=name)} FROM ratings")
        assert model["iterations"] == max_iter
        assert (model["history"][-1] == pytest.approx(model["loss"], rel=1e-5)) == same


def test_held_out_ratings_stop_the_training(con: duckdb.DuckDBPyConnection) -> None:
    """Noise cannot be learnt: vectors that say a user's part and little else do best on other rows."""
    con.execute(
        "CREATE TABLE noise AS SELECT [i % 40, i // 40 % 30] AS x, hash(i) % 1000 / 1000 + i % 2 AS y FROM range(1200) t(i)"
    )
    given = {"l2": 0, "step": 0.2, "max_iter": 500}
    (model,) = models(con, f"{call('x', 'y', validation=0.3, **given)} FROM noise")
    assert model["status"] == "early stop"
    assert model["iterations"] < 500
    assert model["n_rows"] == 1200
    (full,) = models(con, f"{call('x', 'y', **given)} FROM noise")
    assert np.abs(model["coef"]).max() < np.abs(full["coef"]).max()


def test_a_step_too_large_is_taken_back(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE t AS SELECT [i % 20, i // 20] AS x, i * 37 % 101 AS y FROM range(400) t(i)"
    )
    (model,) = models(con, f"{call('x', 'y', step=50)} FROM t")
    assert model["status"] == "ok"
    assert np.isfinite(model["coef"]).all()
    assert model["history"][-1] < model["history"][0]


def test_ratings_that_are_beyond_doubles_from_their_middle(con: duckdb.DuckDBPyConnection) -> None:
    sql = "SELECT train_model('matrix_factorization', {}, [i % 3, i % 2]) FROM range(9) t(i)"
    model = con.execute(sql.format("1.7e308 * (1 - 2 * (i % 2))")).fetchall()[0][0]
    assert (model["status"], model["converged"], model["loss"]) == ("out of range", False, None)
    assert set(model["coef"]) == {0.0}
    assert model["intercept"] == 0
    model = con.execute(sql.format("1.7e308")).fetchall()[0][0]
    assert (model["status"], model["intercept"]) == ("ok", 1.7e308)
    assert model["loss"] == pytest.approx(0, abs=1e-6)


def test_time_limit(db: duckdb.DuckDBPyConnection) -> None:
    (model,) = models(db, f"{call(max_iter=2**31 - 1, time='0.05s')} FROM ratings")
    assert model["status"] == "time limit"
    assert 0 < model["iterations"] < 2**31 - 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"algorithm": "newton"}, "option 'algorithm' is \"newton\", expected 'auto', 'als', 'sgd' or 'hogwild'"),
        ({"l1": 0.1}, "option 'l1' is not available with task 'matrix_factorization', which has algorithm, max_iter,"),
        ({"warm_start": {"coef": [1]}}, "option 'warm_start' is not available with task 'matrix_factorization'"),
        ({"converge": "weights"}, "option 'converge' is \"weights\", expected 'loss'"),
        ({"schedule": "line_search", "algorithm": "sgd"}, "option 'schedule' is \"line_search\", expected 'constant', '1/sqrt(i)', '1/i', '1/i^2' or 'linear'"),
        ({"rank": 4097}, "option 'rank' is 4097, expected a whole number from 1 to 4096"),
    ],
)  # fmt: skip
def test_options_of_other_tasks(
    db: duckdb.DuckDBPyConnection, options: dict, sentence: str
) -> None:
    with pytest.raises(duckdb.Error) as caught:
        models(db, f"{call(**options)} FROM ratings")
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rank": 3}, "option 'rank' is not available with task 'linear', which has algorithm, max_iter,"),
        ({"biases": True}, "option 'biases' is not available with task 'linear', which has algorithm, max_iter,"),
        ({"algorithm": "als"}, "option 'algorithm' is \"als\", expected 'auto', 'newton',"),
        ({"schedule": "linear", "algorithm": "sgd"}, "option 'schedule' is \"linear\", expected 'constant'"),
    ],
)  # fmt: skip
def test_options_of_this_task(db: duckdb.DuckDBPyConnection, options: dict, sentence: str) -> None:
    with pytest.raises(duckdb.Error) as caught:
        models(db, f"{call(**options)} FROM ratings".replace("matrix_factorization", "linear"))
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("features", "sentence"),
    [
        ("[u, f, 1]", "features of 'matrix_factorization' are [user, item], got 3 in a row"),
        ("[u]", "features of 'matrix_factorization' are [user, item], got 1 in a row"),
        ("sparse([1], [1.0])", "features of 'matrix_factorization' are [user, item], got sparse(...)"),
        ("[-1, 2]", "user is -1 in row 1 of a group, expected a whole number from 0 to 2147483647"),
        ("[1, 2.5]", "item is 2.5 in row 1 of a group, expected a whole number from 0 to 2147483647"),
        ("[16777216, 1]::FLOAT[]", "user is 16777216 in row 1 of a group, expected a whole number from 0 to 16777215, beyond which REAL rounds"),
        ("[2147483647, 1]", "2,147,483,648 users and 2 items with 11 numbers each are 23,622,320,150, at most 67,108,864 fit into a value"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("function", ["train_model", "explain_training"])
def test_bad_features(
    db: duckdb.DuckDBPyConnection, features: str, sentence: str, function: str
) -> None:
    with pytest.raises(duckdb.Error) as caught:
        models(
            db, f"{call(features, invalid='error').replace('train_model', function)} FROM ratings"
        )
    assert sentence in str(caught.value)


def test_explanation(db: duckdb.DuckDBPyConnection) -> None:
    explain = call(rank=3, time="5s").replace("train_model", "explain_training")
    (text,) = models(db, f"{explain} FROM ratings")
    assert "3,000 ratings" in text
    assert "61 users and 47 items x 4, 432 numbers" in text
    assert "after 20 epochs, or after 5 s" in text


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "options", [{}, {"biases": False, "l2": 0.2}, {"validation": 0.2, "seed": 3}]
)
def test_postgres_gives_the_same(
    db: duckdb.DuckDBPyConnection, cluster: Any, options: dict
) -> None:
    cluster.create_database("factorization")
    selection = (
        f"SELECT {call(rank=3, threads=2, **options)} AS m FROM ratings GROUP BY g ORDER BY g"
    )
    try:
        with cluster.connect("factorization") as there:
            there.execute(RATINGS)
            rows = there.execute(f"SELECT to_json(m) FROM ({selection}) AS t").fetchall()
    finally:
        cluster.drop_database("factorization")
    for (found,), model in zip(rows, models(db, selection.removeprefix("SELECT ")), strict=True):
        assert plain(found) | {"payload": bytes.fromhex(found["payload"][2:])} == plain(model)


@pytest.mark.parametrize("threads", [2, 5])
def test_blocks_that_rotate_have_the_bits_of_one_thread(
    db: duckdb.DuckDBPyConnection, threads: int
) -> None:
    """Which is plain stochastic gradient descent in the order of the blocks."""
    (found,) = models(db, f"{call(algorithm='sgd', threads=threads)} FROM ratings")
    (one,) = models(db, f"{call(algorithm='sgd', threads=1)} FROM ratings")
    assert (found["coef"], found["history"]) == (one["coef"], one["history"])


def test_the_former_option_of_rotation_names_the_algorithm(db: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match=r"option 'scheduler'.*algorithm = 'sgd' trains"):
        models(db, f"{call(scheduler='rotation')} FROM ratings")
