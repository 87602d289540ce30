"""Matrix factorizations in a store, by SQL: the model value, predictions, errors, PostgreSQL."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tuskml
from tuskml.kvstore import StoreRoot

RATINGS = """
CREATE TABLE ratings AS
SELECT i, i % 3 AS g, CAST(u AS DOUBLE PRECISION) AS u, CAST(f AS DOUBLE PRECISION) AS f,
       3 + CAST((u % 5) * (f % 3 - 1) AS DOUBLE PRECISION) / 4 + CAST((i * 31) % 11 - 5 AS DOUBLE PRECISION) / 64 AS rating,
       CAST(ARRAY[u, f] AS DOUBLE PRECISION[]) AS pair
FROM (SELECT i, (i * 7919) % 61 AS u, (i * 10473) % 47 AS f FROM generate_series(1, 3000) AS s(i)) AS t
"""
MOVIELENS = """
CREATE TABLE ratings AS
SELECT CAST(u AS INTEGER) AS u, CAST(f AS INTEGER) AS f, rating, i,
       (i * 2654435761) % 10 = 0 AS held, [u, f]::INTEGER[] AS pair
FROM (SELECT user - 1 AS u, item - 1 AS f, rating, row_number() OVER () AS i FROM read_csv(?))
"""


@pytest.fixture
def root(tmp_path: Path) -> StoreRoot:
    return StoreRoot(tmp_path / "stores")


@pytest.fixture
def db(with_root: Callable[..., Any], root: StoreRoot) -> duckdb.DuckDBPyConnection:
    return with_root(root.path).execute(RATINGS)


def call(features: str = "pair", label: str = "rating", **options: object) -> str:
    given = json.dumps({"store": "films"} | options)
    return f"train_model('matrix_factorization', {label}, {features}, '{given}')"


def in_memory(**options: object) -> str:
    made = json.dumps({"algorithm": "sgd"} | options)
    return f"train_model('matrix_factorization', rating, pair, '{made}')"


def one(db: duckdb.DuckDBPyConnection, selection: str) -> Any:
    ((value,),) = db.execute(f"SELECT {selection}").fetchall()
    return value


def predicted(root: StoreRoot, model: dict[str, Any], u: np.ndarray, f: np.ndarray) -> np.ndarray:
    """By NumPy, from the sealed file: mu + b_u + b_i + p_u.q_i, or p_u.q_i."""
    n_users, n_items, width = map(int, model["classes"])
    with root.open(model["store"]) as sealed:
        coef = sealed.weights(np.arange((n_users + n_items) * width)).astype(float)
    coef = coef.reshape(n_users + n_items, width)
    p, q = coef[u.astype(int)], coef[n_users + f.astype(int)]
    if not json.loads(model["options"])["biases"]:
        return np.einsum("nk,nk->n", p, q)
    return model["intercept"] + p[:, 0] + q[:, 0] + np.einsum("nk,nk->n", p[:, 1:], q[:, 1:])


def test_the_model_value(db: duckdb.DuckDBPyConnection, root: StoreRoot) -> None:
    db.execute(f"CREATE TABLE m AS SELECT {call(rank=3)} AS model FROM ratings")
    told = tuskml.last_training()["counters"]
    model = one(db, "model FROM m")
    digest = root.version("films").digest
    assert (model["coef"], model["std_err"]) == (None, None)
    assert model["store"] == f"films@1:{digest[:16]}"
    assert model["classes"] == [61, 47, 4]
    assert model["intercept"] == one(db, f"{in_memory(rank=3)}.intercept FROM ratings")
    assert (model["n_rows"], model["n_skipped"], model["n_features"]) == (3000, 0, 2)
    assert (model["iterations"], model["status"], len(model["history"])) == (20, "ok", 20)
    options = json.loads(model["options"])
    assert next(iter(options.items())) == ("tuskml", 1)
    assert (options["store"], options["rank"], options["biases"]) == (model["store"], 3, True)
    assert options["counters"] == told
    assert options["counters"]["features"] == (61 + 47) * 4 * 21
    assert re.search("KV-VP: [0-9]+ vectors per key", model["plan"])


@pytest.mark.parametrize("options", [
    {}, {"biases": False}, {"method": "kv"}, {"threads": 4}, {"cache": "16MB", "rank": 70},
])  # fmt: skip
def test_predictions(db: duckdb.DuckDBPyConnection, root: StoreRoot, options: dict) -> None:
    """As NumPy's from the file, as the model's in memory; also of ids that were never seen."""
    given = {"rank": 5, "seed": 3} | options
    of_memory = {k: v for k, v in given.items() if k not in ("cache", "method")}
    db.execute(
        f"CREATE TABLE m AS SELECT {call(**given)} AS s, {in_memory(**of_memory)} AS v FROM ratings WHERE u < 55"
    )
    query = "SELECT u, f, predict(s, pair) AS s, decision(s, [u, f]::INTEGER[]) AS d, predict(v, pair) AS v FROM ratings, m ORDER BY i"
    found = {k: np.asarray(v) for k, v in db.execute(query).fetchnumpy().items()}
    seen = found["u"] < 55
    model = one(db, "s FROM m")
    wanted = predicted(root, model, found["u"][seen], found["f"][seen])
    np.testing.assert_allclose(found["s"][seen], wanted, rtol=1e-12)
    np.testing.assert_allclose(found["s"], found["v"], rtol=1e-4, atol=1e-4)
    assert np.array_equal(found["s"], found["d"])
    assert one(db, "predict(s, [1000, 1000]) FROM m") == pytest.approx(model["intercept"])


def test_movielens_as_in_memory(data: Path, root: StoreRoot) -> None:
    """The same held-out error, to 1 %, and 100 times fewer requests by vectors than by weights."""
    with tuskml.connect(store_root=root.path, threads=2) as db:
        db.execute(MOVIELENS, [str(data / "movielens-100k.psv")])
        assert one(db, "count(*) FROM ratings") == 100_000
        error, requests = {}, {}
        ways = {
            "memory": in_memory(rank=100, max_iter=8),
            "KV-VP": call(rank=100, max_iter=8),
            "KV": call(rank=100, max_iter=8, method="kv"),
        }
        for way, made in ways.items():
            db.execute(
                f"CREATE OR REPLACE TABLE m AS SELECT {made} AS model FROM ratings WHERE NOT held"
            )
            error[way] = one(db, "rmse(rating, predict(model, pair)) FROM ratings, m WHERE held")
            counters = json.loads(one(db, "model.options FROM m")).get("counters", {})
            requests[way] = counters.get("requests")
    assert error["memory"] < 0.96
    assert error["KV-VP"] == pytest.approx(error["memory"], rel=0.01)
    assert error["KV"] == pytest.approx(error["memory"], rel=0.01)
    assert requests["KV"] >= 100 * requests["KV-VP"]


def test_nulls_are_skipped(db: duckdb.DuckDBPyConnection, root: StoreRoot) -> None:
    made = call("CASE WHEN i % 7 > 0 THEN pair END", rank=2)
    model = one(db, f"{made} FROM ratings")
    kept = one(db, f"{call(rank=2, store='kept')} FROM ratings WHERE i % 7 > 0")
    assert (model["n_rows"], model["n_skipped"]) == (kept["n_rows"], 3000 - kept["n_rows"])
    assert (
        root.version("films").digest == root.version("kept").digest
        or model["loss"] == kept["loss"]
    )
    assert one(db, f"{call(label='NULL::DOUBLE')} FROM ratings") is None


def test_groups(db: duckdb.DuckDBPyConnection, root: StoreRoot) -> None:
    """Names may differ by group; groups of one name are its versions."""
    losses = db.execute(f"SELECT ({call()}).loss FROM ratings GROUP BY g").fetchall()
    assert len(set(losses)) == 3
    assert root.versions("films") == [1, 2, 3]
    each = "train_model('matrix_factorization', rating, pair, '{\"rank\": 2, \"store\": \"films_' || g || '\"}')"
    found = db.execute(f"SELECT g, {each} FROM ratings GROUP BY g ORDER BY g").fetchall()
    assert root.names() == ["films", "films_0", "films_1", "films_2"]
    for g, model in found:
        alone = one(db, f"{in_memory(rank=2)} FROM ratings WHERE g = {g}")
        assert model["loss"] == pytest.approx(alone["loss"], rel=1e-5)


@pytest.mark.parametrize(("options", "sentence"), [
    ({"algorithm": "hogwild"}, "algorithm 'hogwild' is not available with task 'matrix_factorization' and option 'store', expected 'auto' or 'sgd'"),
    ({"validation": 0.1}, "option 'validation' is not available with option 'store': leave one of them out"),
    ({"warm_start": {"coef": [1]}}, "option 'warm_start' is not available with task 'matrix_factorization', which has"),
    ({"cache": "1MB"}, "option 'cache' is \"1MB\", expected a size of at least '16MB'"),
    ({"store": "../films"}, "option 'store' is \"../films\", expected a name of at most 63"),
    ({"step": 1e30}, "the training of 'films' diverged with steps down to"),
])  # fmt: skip
def test_errors_leave_nothing(
    db: duckdb.DuckDBPyConnection, root: StoreRoot, options: dict, sentence: str
) -> None:
    with pytest.raises(duckdb.Error) as caught:
        one(db, f"{call(**options)} FROM ratings")
    assert sentence in str(caught.value)
    assert [
        p
        for p in root.path.rglob("*")
        if p.is_file() and p.name != "LOCK" and "lock" not in p.name
    ] == []
    assert one(db, f"{call(rank=2)} FROM ratings")["status"] == "ok"


@pytest.mark.parametrize(("features", "sentence"), [
    ("[u, f, 1]", "features of 'matrix_factorization' are [user, item], got 3 in a row"),
    ("sparse([1], [1.0])", "features of 'matrix_factorization' are [user, item], got sparse(...)"),
    ("[-1, 2]", "user is -1 in row 1 of a group, expected a whole number from 0 to 2147483647"),
    ("[2147483647, 1]", "2,147,483,648 users and 2 items are 2,147,483,650 ids, expected at most 67,108,864: number them without gaps"),
])  # fmt: skip
@pytest.mark.parametrize("function", ["train_model", "explain_training"])
def test_bad_features(
    db: duckdb.DuckDBPyConnection, features: str, sentence: str, function: str
) -> None:
    with pytest.raises(duckdb.Error) as caught:
        one(db, f"{call(features, invalid='error').replace('train_model', function)} FROM ratings")
    assert sentence in str(caught.value)


def test_explanation(db: duckdb.DuckDBPyConnection, root: StoreRoot) -> None:
    explain = call(rank=3).replace("train_model", "explain_training")
    text = one(db, f"{explain} FROM ratings")
    assert "'films', KV-VP: the cheapest number of vectors per key" in text
    assert "61 users and 47 items x 4, 432 numbers" in text
    assert root.names() == []


def test_a_model_that_is_gone(db: duckdb.DuckDBPyConnection, root: StoreRoot) -> None:
    db.execute(f"CREATE TABLE m AS SELECT {call(rank=2)} AS model FROM ratings")
    db.execute(f"SELECT {call(rank=3)} FROM ratings").fetchall()
    before = one(db, "sum(predict(model, pair)) FROM ratings, m")
    assert before == pytest.approx(
        one(
            db, f"sum(predict(v, pair)) FROM ratings, (SELECT {in_memory(rank=2)} v FROM ratings)"
        ),
        rel=1e-6,
    )
    version = root.version("films@1")
    version.path(root.path / "films").unlink()
    with pytest.raises(duckdb.Error, match=r"the stored model films@1:[0-9a-f]{16} is gone"):
        one(db, "sum(predict(model, pair)) FROM ratings, m")


@pytest.mark.parametrize("biases", [True, False])
def test_the_best_items_of_a_stored_model(db: duckdb.DuckDBPyConnection, biases: bool) -> None:
    """They are those with the highest predictions, and a model without biases has a mean user."""
    db.execute(f"CREATE TABLE m AS SELECT {call(rank=3, biases=biases)} AS m FROM ratings")
    every = "(SELECT DISTINCT f FROM ratings) AS films, m"
    best = f"SELECT f, predict(m, [7.0, f]) AS p FROM {every} ORDER BY p DESC, f LIMIT 6"
    found = db.execute(
        "SELECT item, score, basis FROM recommend((SELECT m FROM m), 7, 6)"
    ).fetchall()
    for (item, score, basis), (f, p) in zip(found, db.execute(best).fetchall(), strict=True):
        assert (item, score, basis) == (f, pytest.approx(p, rel=1e-9), "user")
    unknown = db.execute(
        "SELECT DISTINCT basis FROM recommend((SELECT m FROM m), 999, 6)"
    ).fetchall()
    assert unknown == [("biases of items" if biases else "mean of users",)]
    near = db.execute("SELECT item FROM similar_items((SELECT m FROM m), 3, 100)").fetchall()
    assert sorted(item for (item,) in near) == [i for i in range(47) if i != 3]
