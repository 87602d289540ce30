"""The plan for several classes: Newton's method, or L-BFGS whose stragglers Newton's takes over."""

# ruff: noqa: E501, SQL is read better on one line

from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest

RANDOM = np.random.default_rng(3)
N, D, K = 1500, 45, 5
OF_GROUP = "SELECT g, m.status, m.loss, m.iterations, m.plan, m.history, m.coef FROM (SELECT g, train_model('logistic', y, x, '{}') AS m FROM t GROUP BY g) ORDER BY g"


class Fitted(NamedTuple):
    """The fields of a group's model that the tests look at."""

    group: int
    status: str
    loss: float
    iterations: int
    plan: str
    history: list[float]
    coef: list[float]


def labels(x: Any, weights: Any) -> Any:
    """Classes drawn from a multinomial logistic model."""
    return (x @ weights + RANDOM.gumbel(size=(len(x), weights.shape[1]))).argmax(axis=1)


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Two groups of five classes and 45 features: small independent ones, and running sums."""
    noise = RANDOM.normal(size=(N, D))
    x = np.vstack([0.1 * noise, np.cumsum(noise, axis=1)])
    y = labels(x, RANDOM.normal(size=(D, K)) / 10)
    con.register("t", pa.table({"g": np.repeat([0, 1], N), "y": y, "x": list(x)}))
    return con


def fitted(rows: duckdb.DuckDBPyConnection, options: str = "{}") -> list[Fitted]:
    return [Fitted(*row) for row in rows.execute(OF_GROUP.replace("{}", options)).fetchall()]


def test_groups_that_lbfgs_leaves_behind_go_on_by_newton(rows: duckdb.DuckDBPyConnection) -> None:
    easy, hard = fitted(rows)
    assert easy.plan.startswith("lbfgs, ")
    assert hard.plan.startswith("newton, after ")
    assert " iterations of lbfgs, " in hard.plan
    for model, by_newton in zip(
        (easy, hard), fitted(rows, '{"algorithm": "newton"}'), strict=True
    ):
        assert model.status == by_newton.status == "ok"
        assert model.loss == pytest.approx(by_newton.loss, rel=1e-9)
        assert model.coef == pytest.approx(by_newton.coef, abs=1e-4)
        assert model.history[-1] == pytest.approx(model.loss, rel=1e-7)
        assert (np.diff(model.history) <= 1e-12).all()
    assert hard.iterations > int(hard.plan.split()[2])


def test_a_limit_of_iterations_stays(rows: duckdb.DuckDBPyConnection) -> None:
    for model in fitted(rows, '{"max_iter": 6}'):
        assert (model.iterations, model.plan[:7]) == (6, "lbfgs, ")


def test_many_classes_of_few_features_take_newton(con: duckdb.DuckDBPyConnection) -> None:
    """Sixteen bands of a sum, which L-BFGS does not reach within 1,000 iterations."""
    x = RANDOM.uniform(size=(4000, 10))
    score = 0.3 * x[:, 0] + 0.3 * x[:, 1] + 0.4 * RANDOM.uniform(size=4000)
    y = np.digitize(score, np.quantile(score, np.arange(1, 16) / 16))
    con.register("t", pa.table({"g": np.zeros(4000), "y": y, "x": list(x)}))
    (model,) = fitted(con)
    assert (model.status, model.plan[:8]) == ("ok", "newton, ")
