"""Descents that follow each other share the iterations of the training, group by group."""

from typing import Any

import duckdb
import numpy as np
import pytest
from fitting import fit, put

from tuskml.learners.linear.tasks import LINEAR

RANDOM = np.random.default_rng(11)
N = 300
X = RANDOM.standard_normal((N, 3))
LABELS = {
    "numbers": X @ [1.0, 2.0, -1.0] + RANDOM.standard_t(2, N),
    "classes": (X[:, 0] + RANDOM.standard_normal(N) > 0) * 1.0,
    "counts": RANDOM.poisson(np.exp(0.3 * X[:, 0]) * RANDOM.gamma(2.0, 0.5, N)) * 1.0,
    "positive": RANDOM.gamma(2.0, np.exp(0.3 * X[:, 0])) + 0.01,
}
KINDS = {"poisson": "counts", "negative_binomial": "counts", "tweedie": "counts"}
KINDS |= {"gamma": "positive", "inverse_gaussian": "positive"}
ALGORITHMS = ("newton", "newton_cg", "lbfgs", "bgd", "mgd")


def kind_of(task: str) -> str:
    return KINDS.get(task, "classes" if LINEAR[task].classifies else "numbers")


@pytest.mark.parametrize("algorithm", [None, *ALGORITHMS])
@pytest.mark.parametrize("task", sorted(LINEAR))
def test_no_training_makes_more_iterations_than_it_may(
    con: Any, task: str, algorithm: str | None
) -> None:
    put(con, X, LABELS[kind_of(task)])
    given = {} if algorithm is None else {"algorithm": algorithm}
    for most in (1, 2, 5, 30):
        try:
            model = fit(con, task, max_iter=most, **given)
        except duckdb.Error as error:
            if "is not available with task" not in str(error):
                raise
            return
        assert model.iterations <= most, (most, model.status)
        assert model.options["max_iter"] == most


@pytest.mark.sample(1)
@pytest.mark.parametrize("options", [{}, {"delta": 0.001}])
def test_a_huber_of_epochs_ends_within_its_iterations(con: Any, options: dict[str, Any]) -> None:
    put(con, X, LABELS["numbers"])
    model = fit(con, "huber", algorithm="mgd", **options)
    assert model.iterations <= model.options["max_iter"]
    best = fit(con, "huber", **options)
    assert model.coef == pytest.approx(best.coef, abs=0.1)


def test_the_threshold_of_the_option_is_reached_whatever_the_iterations(con: Any) -> None:
    """The loss is that by the option's threshold, not by one on the way to it."""
    put(con, X, LABELS["numbers"])
    for most in (1, 2, 3, 6, 12):
        model = fit(con, "huber", max_iter=most, delta=0.001)
        left = np.abs(LABELS["numbers"] - X @ model.coef - model.intercept)
        loss = np.where(left <= 0.001, left**2 / 2, 0.001 * (left - 0.0005)).mean()
        assert model.loss == pytest.approx(loss, rel=1e-9), most


CASES = [
    ("huber", {}),
    ("huber", {"algorithm": "lbfgs"}),
    ("huber", {"algorithm": "mgd", "max_iter": 9}),
    ("huber", {"max_iter": 4}),
    ("huber", {"delta": 0.01, "max_iter": 12}),
    ("huber", {"delta": 0.01, "algorithm": "bgd"}),
    ("negative_binomial", {}),
    ("negative_binomial", {"max_iter": 3}),
    ("negative_binomial", {"algorithm": "lbfgs", "max_iter": 9}),
    ("quantile", {"algorithm": "bgd", "max_iter": 60}),
    ("quantile", {"algorithm": "lbfgs"}),
    ("svm", {"l1": 0.01, "max_iter": 60}),
]


@pytest.mark.sample(1)
@pytest.mark.parametrize(("task", "options"), CASES)
def test_a_group_s_iterations_are_its_own(con: Any, task: str, options: dict[str, Any]) -> None:
    """Neighbours that take longer, or less, change no bit of a group's model."""
    kind, parts = kind_of(task), []
    for number, (size, far) in enumerate([(60, 1.0), (300, 30.0), (200, 1e-3), (120, 1e4)]):
        y = LABELS[kind][:size]
        if kind == "numbers":
            y = y + far * (np.arange(size) % 17 == 0)
        elif kind == "counts":
            y = y * (1 + 20 * (np.arange(size) % (5 + number) == 0))
        parts.append((number, X[:size] * [1.0, far, 1.0] + [0.0, 0.0, number], y))
    exact = parts[0][1] @ [1.0, 2.0, 3.0]  # without any residual
    if task == "huber":
        parts.append((4, parts[0][1], exact))
    x = np.concatenate([x for _, x, _ in parts])
    y = np.concatenate([y for _, _, y in parts])
    groups = np.concatenate([np.full(len(y), g) for g, _, y in parts])
    put(con, x, y, g=groups)
    given = str(options | {"deterministic": True}).replace("'", '"').replace("True", "true")
    asked = "m.coef, m.intercept, m.loss, m.iterations, m.status"
    query = f"SELECT g, train_model('{task}', y, x, '{given}') AS m FROM t"
    together = con.execute(f"SELECT g, {asked} FROM ({query} GROUP BY g) ORDER BY g").fetchall()
    for g, *found in together:
        alone = con.execute(f"SELECT {asked} FROM ({query} WHERE g = {g} GROUP BY g)").fetchone()
        assert tuple(found) == alone, g
