"""Features that hardly differ: every algorithm ends where Newton's does, or does not say `ok`.

A small gradient says nothing along the direction in which the rows hardly vary.
"""

import json
from collections.abc import Iterator
from typing import Any

import duckdb
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import tuskml

TASKS = ("linear", "logistic", "poisson", "gamma", "tweedie", "negative_binomial", "squared_hinge")
FEATURES = {"dense": "[a, b]", "named": "{'a': a, 'b': b}", "sparse": "sparse([3, 9], [a, b])"}


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect() as con:
        con.execute("SET threads = 1")
        yield con


def labels(task: str, margin: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if task in ("logistic", "squared_hinge"):
        return np.asarray(margin + 2 * rng.logistic(size=len(margin)) > 0) * 1.0
    if task == "linear":
        return np.asarray(margin + rng.normal(size=len(margin)))
    mean = np.exp(margin)
    if task == "gamma":
        return np.asarray(rng.gamma(0.5, 2 * mean) + 1e-6)
    counts = rng.poisson(mean * rng.gamma(2, 0.5, len(margin)))
    return np.asarray(counts * (rng.gamma(2, 1, len(margin)) if task == "tweedie" else 1.0))


def fitted(con: duckdb.DuckDBPyConnection, task: str, features: str, algorithm: str) -> Any:
    options = json.dumps({"algorithm": algorithm})
    ((status, loss, coef, kept, errors),) = con.execute(
        "SELECT m.status, m.loss, m.coef, m.options, m.std_err FROM (SELECT "
        f"train_model('{task}', y, {features}, '{options}' ORDER BY i) AS m FROM t)"
    ).fetchall()
    known = np.array([one for one in errors or () if one is not None])
    return status, loss, np.array(coef), json.loads(kept).get("dispersion"), known


@settings(max_examples=20)
@given(
    task=st.sampled_from(TASKS),
    storage=st.sampled_from(list(FEATURES)),
    apart=st.sampled_from([6e-7, 2e-6, 1e-5]),
    n=st.sampled_from([15, 60, 300]),
    seed=st.integers(0, 2**31),
)
def test_all_algorithms_end_at_newton_s(
    duck: duckdb.DuckDBPyConnection, task: str, storage: str, apart: float, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n)
    b, y = a + apart * rng.normal(size=n), labels(task, 0.3 * a, rng)
    rows = [one.tolist() for one in (np.arange(n), a, b, y)]
    duck.execute(
        "CREATE OR REPLACE TABLE t AS SELECT unnest($1::BIGINT[]) AS i, "
        "unnest($2::DOUBLE[]) AS a, unnest($3::DOUBLE[]) AS b, unnest($4::DOUBLE[]) AS y", rows,
    )  # fmt: skip
    status, loss, coef, dispersion, errors = fitted(duck, task, FEATURES[storage], "newton")
    if status != "ok":
        return
    for algorithm in ("lbfgs", "newton_cg", "bgd"):
        found = fitted(duck, task, FEATURES[storage], algorithm)
        if found[0] != "ok":
            continue
        what = f"{task} by {algorithm}, {storage}"
        assert found[1] <= loss + 1e-6 * max(1.0, abs(loss)), what
        near = max(0.02 * np.abs(coef).max(), 0.01 * errors.max(initial=0.0))
        assert np.abs(found[2] - coef).max() <= near, what
        if dispersion is not None:
            assert found[3] == pytest.approx(dispersion, rel=1e-3), what


@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd"])
def test_a_hinge_says_that_it_has_not_converged(
    duck: duckdb.DuckDBPyConnection, algorithm: str
) -> None:
    duck.execute(
        "CREATE OR REPLACE TABLE t AS SELECT i, sin(i) AS a, sin(i) + 6e-7 * cos(7 * i) AS b, "
        "(sin(i) + 0.8 * cos(7 * i) + cos(3.7 * i * i) > 0)::DOUBLE AS y FROM range(60) AS r(i)"
    )
    assert fitted(duck, "svm", "[a, b]", algorithm)[0] == "not converged"
    assert fitted(duck, "svm", "[a]", algorithm)[0] == "ok"
