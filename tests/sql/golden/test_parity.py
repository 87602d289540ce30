"""The same rows give the same model in DuckDB and in PostgreSQL, whatever algorithm and storage."""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import numpy as np
import pytest

ROWS = """
CREATE TABLE rows AS
SELECT i, g, a, b, c, 3 * a - 2 * b + CAST((i * 31) % 11 - 5 AS DOUBLE PRECISION) / 16 AS y,
       3 * a - 2 * b + CAST((i * 31) % 11 - 5 AS DOUBLE PRECISION) / 4 > 0.5 AS positive,
       ARRAY[a, b, c] AS dense8, CAST(ARRAY[a, b, c] AS REAL[]) AS dense4,
       CASE WHEN i % 5 = 0 THEN ARRAY[9, 2, 9] ELSE ARRAY[i % 4, 4, 5] END AS ids
FROM (SELECT i, i % 3 AS g, CAST((i * 7919) % 1021 AS DOUBLE PRECISION) / 1024 AS a,
             CAST((i * 10473) % 997 AS DOUBLE PRECISION) / 1024 AS b, CAST((i * 3571) % 499 AS DOUBLE PRECISION) / 1024 AS c
      FROM generate_series(1, {n}) AS s(i)) AS t
"""
STORAGE = {
    "float8": "dense8",
    "float4": "dense4",
    "sparse float8": "sparse(ids, dense8)",
    "sparse float4": "sparse(ids, dense4)",
}
ALGORITHMS = ("auto", "bgd", "mgd", "sgd", "hogwild", "hogbatch", "lbfgs", "newton", "svrg")
OF_SOME_TASKS = {"linear": ("newton_cg",), "logistic": ("newton_cg",), "svm": ("dcd",)}
TASKS = {"linear": "y", "logistic": "positive", "svm": "positive"}
SETTINGS: dict[str, dict[str, object]] = {
    "plain": {},
    "l2": {"l2": 0.01},
    "l1": {"l1": 0.01},
    "no intercept": {"fit_intercept": False},
    "balanced": {"class_weight": "balanced"},
    "seed": {"seed": 42, "algorithm": "sgd"},
    "validation": {"validation": 0.25, "algorithm": "mgd"},
    "batches": {"batch_size": 32, "algorithm": "mgd", "step": 0.1, "schedule": "1/i"},
    "sequential": {"sampler": "sequential", "algorithm": "sgd"},
    "line search": {"algorithm": "bgd", "schedule": "line_search"},
    "warm start": {"warm_start": {"coef": [1, 0, 0.5], "intercept": -1}},
    "one thread": {"threads": 1},
    "four threads": {"threads": 4},
}


class Databases:
    """The same statement in both databases, which hold the same rows."""

    def __init__(self, here: duckdb.DuckDBPyConnection, there: Any) -> None:
        self.here = here
        self.there = there

    def load(self, n: int) -> None:
        for database in (self.here, self.there):
            database.execute("DROP TABLE IF EXISTS rows")
            database.execute(ROWS.format(n=n))

    def models(self, selection: str) -> tuple[list[dict], list[dict]]:
        """What `SELECT` of a model m, in the order of the rest of the row, gives in each."""
        duck = self.here.execute(f"SELECT m FROM ({selection}) AS t").fetchall()
        post = self.there.execute(f"SELECT to_json(m) FROM ({selection}) AS t").fetchall()
        return [row[0] for row in duck], [row[0] for row in post]

    def text(self, sql: str) -> tuple[str, str]:
        return self.here.execute(sql).fetchall()[0][0], self.there.execute(sql).fetchone()[0]


@pytest.fixture
def both(con: duckdb.DuckDBPyConnection, file_session: Any) -> Databases:
    return Databases(con, file_session)


def call(task: str, features: str, **options: object) -> str:
    text = json.dumps({"deterministic": True} | options)
    return f"train_model('{task}', {TASKS[task]}, {features}, '{text}')"


NUMBERS = {"coef", "intercept", "std_err", "loss", "history"}


def same(duck: dict, post: dict) -> None:
    """Every field but the seconds."""
    assert list(duck) == list(post)
    for name in NUMBERS:
        one, other = (np.array(model[name], float) for model in (duck, post))  # NULL: NaN
        np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-15, err_msg=name)
    here, there = duck["payload"], bytes.fromhex(post["payload"].removeprefix("\\x"))
    assert (len(here), here[:12]) == (len(there), there[:12])
    weights = [
        np.frombuffer(payload[64 : 64 + 8 * len(duck["coef"])]) for payload in (here, there)
    ]
    np.testing.assert_array_equal(weights, [duck["coef"], post["coef"]])
    others = duck.keys() - NUMBERS - {"seconds", "payload"}
    assert {name: post[name] for name in others} == {name: duck[name] for name in others}


def same_models(both: Databases, selection: str, n: int) -> list[dict]:
    duck, post = both.models(selection)
    assert len(duck) == len(post) == n
    for one, other in zip(duck, post, strict=True):
        same(one, other)
    return duck


@pytest.mark.sample(2)
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("task", TASKS)
def test_algorithms(both: Databases, task: str, storage: str) -> None:
    both.load(900)
    for algorithm in (*ALGORITHMS, *OF_SOME_TASKS[task]):
        model = call(task, STORAGE[storage], algorithm=algorithm, l2=0.001, max_iter=20)
        selection = f"SELECT g, {model} AS m FROM rows GROUP BY g ORDER BY g LIMIT 3"
        plans = {found["plan"].split(",")[0] for found in same_models(both, selection, 3)}
        assert len(plans) == 1
        assert plans == {algorithm} or algorithm == "auto"


@pytest.mark.parametrize("name", SETTINGS)
def test_options(both: Databases, name: str) -> None:
    both.load(900)
    for task in TASKS if name != "balanced" else ("logistic", "svm"):
        model = call(task, "dense8", **{"max_iter": 20} | SETTINGS[name])
        same_models(both, f"SELECT {model} AS m FROM rows", 1)


@pytest.mark.sample(1)
@pytest.mark.parametrize("storage", STORAGE)
def test_many_rows(both: Databases, storage: str) -> None:
    """As many as are trained on a sample first, and on several threads."""
    both.load(40_000)
    for algorithm in ("auto", "sgd", "svrg"):
        model = call("logistic", STORAGE[storage], algorithm=algorithm, max_iter=5)
        same_models(both, f"SELECT {model} AS m FROM rows", 1)


def test_many_groups(both: Databases) -> None:
    both.load(8000)
    model = call("linear", "dense8", l2=0.1)
    selection = f"SELECT h, {model} AS m FROM (SELECT *, i % 600 AS h FROM rows) AS t GROUP BY h ORDER BY h LIMIT 600"
    same_models(both, selection, 600)


def test_nulls(both: Databases) -> None:
    both.load(900)
    features = (
        "CASE WHEN i % 7 = 0 THEN NULL WHEN i % 7 = 1 THEN ARRAY[a, NULL, c] ELSE dense8 END"
    )
    model = call("linear", features).replace(" y,", " CASE WHEN i % 5 > 0 THEN y END,")
    found = same_models(both, f"SELECT {model} AS m FROM rows", 1)
    assert found[0]["n_skipped"] == sum(i % 7 < 2 or i % 5 == 0 for i in range(1, 901))


@pytest.mark.parametrize("task", TASKS)
def test_explanations(both: Databases, task: str) -> None:
    both.load(2000)
    for features in STORAGE.values():
        sql = f"SELECT {call(task, features, threads=1).replace('train_model', 'explain_training')} FROM rows"
        duck, post = both.text(sql)
        assert post == duck


@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize("task", TASKS)
def test_predictions(both: Databases, task: str, storage: str) -> None:
    """Of each database's own model; in full, as nothing is rounded on the way."""
    both.load(900)
    features = STORAGE[storage]
    scores = ["predict", "decision"] + ["predict_proba"] * (task == "logistic")
    wanted = ", ".join(f"{score}(m, {features})" for score in scores)
    sql = f"SELECT {wanted} FROM rows CROSS JOIN (SELECT {call(task, features)} AS m FROM rows) AS t ORDER BY i"
    duck, post = (
        np.array(database.execute(sql).fetchall()) for database in (both.here, both.there)
    )
    np.testing.assert_allclose(post, duck, rtol=1e-9, atol=1e-12)
