"""Convergence does not depend on the units of labels, features or class weights.

The truth is a change of units: labels times c and features times s give coefficients times c / s,
with the same status. Each group of a query has units of its own.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

SCALES = (0, -12, -8, -5, 3, 6, 12)
"""Exponents of ten; those of features are shifted by one, so that they never fit the labels'."""
DECLARED = "CREATE TABLE units (g INTEGER, k INTEGER, i INTEGER, y DOUBLE PRECISION, b INTEGER, x DOUBLE PRECISION[])"
N = 240
TRUTH = np.array([2.0, -0.5, 0.1])
EXACT = ("auto", "newton", "newton_cg", "lbfgs", "bgd", "svrg")
STOCHASTIC = ("sgd", "mgd", "hogwild", "hogbatch")


def rows(event_rate: float = 0.4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three features, one far from zero, numbers with as much noise as signal, and classes."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((N, 3)) + np.array([0.0, 3.0, 0.0])
    margin = x @ TRUTH
    y = margin + 1.5 * rng.standard_normal(N)
    latent = margin + 2 * rng.logistic(size=N)
    return x, y, (latent > np.quantile(latent, 1 - event_rate)).astype(int)


def scaled(label: int, feature: int) -> tuple[list[Any], list[Any], list[Any]]:
    """Labels times 10^label; features times 10^feature, 10^-feature and 1."""
    x, y, b = rows()
    by = 10.0 ** np.array([feature, -feature, 0])
    return (y * 10.0**label).tolist(), b.tolist(), (x * by).tolist()


def fill(execute: Any, units: list[tuple[int, int]]) -> None:
    """A table of groups, each in units of its own; arrays come as text."""
    execute("DROP TABLE IF EXISTS units")
    execute(DECLARED)
    for g, (label, feature) in enumerate(units):
        y, b, x = scaled(label, feature)
        values = ", ".join(
            f"({g}, {label}, {i}, {y[i]!r}, {b[i]}, ARRAY{x[i]!r})" for i in range(N)
        )
        execute(f"INSERT INTO units VALUES {values}")


UNITS = [(k, j) for k, j in zip(SCALES, (0, 13, -11, 7, -9, 2, -12), strict=True)]


@pytest.fixture(scope="module")
def duck() -> Any:
    import tuskml

    with tuskml.connect(threads=2) as con:
        fill(con.execute, UNITS)
        yield con


@pytest.fixture(scope="module")
def post(file_session: Any) -> Any:
    fill(file_session.execute, UNITS)
    return file_session


def call(task: str, features: str = "x", **options: object) -> str:
    label = "y" if task == "linear" else "b"
    return f"train_model('{task}', {label}, {features}, '{json.dumps(options)}')"


def grouped(con: Any, made: str) -> list[dict]:
    if isinstance(con, duckdb.DuckDBPyConnection):
        return [
            m
            for _, m in con.execute(
                f"SELECT g, {made} FROM units GROUP BY g ORDER BY g"
            ).fetchall()
        ]
    query = f"SELECT g, to_json({made}) FROM units GROUP BY g ORDER BY g"
    return [m for _, m in con.execute(query).fetchall()]


def in_first_units(model: dict, task: str, label: int, feature: int) -> np.ndarray:
    """Coefficients and the intercept as if nothing had been scaled."""
    c = 10.0**-label if task == "linear" else 1.0
    by = 10.0 ** np.array([feature, -feature, 0])
    return np.append(np.array(model["coef"]) * by, model["intercept"]) * c


def std_errors() -> dict[str, np.ndarray]:
    """Of the first group, coefficients first, by NumPy: those of least squares and of the logit."""
    x, y, b = rows()
    z = np.column_stack([x, np.ones(N)])
    inverse = np.linalg.inv(z.T @ z)
    residual = y - z @ (inverse @ z.T @ y)
    least = np.sqrt(np.diag(inverse) * (residual @ residual) / (N - 4))
    w = np.zeros(4)
    for _ in range(30):
        p = 1 / (1 + np.exp(-z @ w))
        curved = np.linalg.inv((z.T * (p * (1 - p))) @ z)
        w += curved @ z.T @ (b - p)
    return {"linear": least, "logistic": np.sqrt(np.diag(curved))}


STD_ERR = std_errors()


def assert_same(
    models: list[dict], task: str, within: float, units: list[tuple[int, int]], more: float = 0.5
) -> None:
    """All are the first, in other units: to `within` standard errors; more: iterations, of the first's."""
    first = in_first_units(models[0], task, *units[0])
    off = within * STD_ERR["logistic" if task == "svm" else task]
    for model, unit in zip(models, units, strict=True):
        assert model["status"] == models[0]["status"], unit
        assert model["converged"] == models[0]["converged"], unit
        found = in_first_units(model, task, *unit)
        assert (np.abs(found - first) <= off).all(), (unit, found, first)
        few = abs(model["iterations"] - models[0]["iterations"])
        assert few <= 2 + more * models[0]["iterations"], (unit, model["iterations"])


CRITERIA = [(algorithm, "gradient") for algorithm in (*EXACT, *STOCHASTIC)] + [
    (algorithm, converge)
    for algorithm in ("newton", "lbfgs", "bgd", "svrg", "sgd")
    for converge in ("loss", "weights")
]
"""All algorithms by their gradient, and a few by what the same code computes for all."""


@pytest.mark.parametrize(("algorithm", "converge"), CRITERIA)
@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_groups_of_other_units(duck: Any, task: str, algorithm: str, converge: str) -> None:
    options = {"epsilon": 1e-3, "sampler": "sequential"} if algorithm in STOCHASTIC else {}
    models = grouped(duck, call(task, algorithm=algorithm, converge=converge, **options))
    assert_same(models, task, 0.5 if algorithm in ("hogwild", "hogbatch") else 0.02, UNITS)
    if algorithm in EXACT and converge == "gradient":
        assert models[0]["status"] == "ok"
    truth = {"linear": TRUTH, "logistic": TRUTH / 2}[task]
    bound = 5 * STD_ERR[task][:3]
    assert (np.abs(in_first_units(models[0], task, *UNITS[0])[:3] - truth) < bound).all()


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
def test_the_same_in_postgresql(post: Any, task: str) -> None:
    for algorithm in ("lbfgs", "bgd", "auto"):
        assert_same(grouped(post, call(task, algorithm=algorithm)), task, 0.02, UNITS)


@pytest.mark.parametrize("algorithm", ["lbfgs", "newton", "auto"])
def test_features_of_a_hinge(duck: Any, algorithm: str) -> None:
    models = grouped(duck, call("svm", algorithm=algorithm, epsilon=1e-5))
    assert_same(models, "svm", 0.05, UNITS)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(-12, 12), st.integers(-12, 12), st.sampled_from(EXACT), st.booleans())
def test_any_units_alone(con: Any, label: int, feature: int, algorithm: str, fitted: bool) -> None:
    """One model in a statement, against the same in the first units."""
    found = []
    for unit in ((0, 0), (label, feature)):
        y, _, x = scaled(*unit)
        con.execute(
            "CREATE OR REPLACE TABLE units AS SELECT 0 AS g, unnest(?) AS y, unnest(?) AS x",
            [y, x],
        )
        found += grouped(con, call("linear", algorithm=algorithm, fit_intercept=fitted))
    assert_same(found, "linear", 0.02, [(0, 0), (label, feature)])


@pytest.mark.parametrize(
    ("algorithm", "penalty"),
    [(algorithm, {"l2": 0.1}) for algorithm in ("lbfgs", "bgd", "newton", "svrg")]
    + [
        (algorithm, penalty)
        for algorithm in ("lbfgs", "bgd", "svrg")  # newton has no l1
        for penalty in ({"l1": 0.1}, {"l1": 0.05, "l2": 0.1})
    ],
)
def test_penalties_are_in_the_caller_s_units(duck: Any, algorithm: str, penalty: dict) -> None:
    """Labels times c: the same objective times c^2, where l1 grows by c."""
    models = []
    for label in SCALES:
        given = penalty | ({"l1": penalty["l1"] * 10.0**label} if "l1" in penalty else {})
        made = call("linear", algorithm=algorithm, max_iter=3000, **given)
        y = f"(y * 1e{label})"
        model = duck.execute(
            f"SELECT {made.replace(' y,', f' {y},')} FROM units WHERE g = 0"
        ).fetchone()[0]
        models.append(model)
        if "l1" in penalty:
            assert [c == 0 for c in model["coef"]] == [c == 0 for c in models[0]["coef"]]
    assert_same(models, "linear", 0.02, [(label, 0) for label in SCALES])


@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd", "newton", "newton_cg"])
@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_sparse_features_in_other_units(duck: Any, task: str, algorithm: str) -> None:
    """A feature in small units beside one in units of 1."""
    models = []
    for exponent in (0, -8, 8, -12):
        sparse = f"sparse(ARRAY[0, 1, 2], ARRAY[x[1], x[2] - 3, x[3] * 1e{exponent}])"
        made = call(task, sparse, algorithm=algorithm)
        model = duck.execute(f"SELECT {made} FROM units WHERE g = 0").fetchone()[0]
        model["coef"][2] *= 10.0**exponent
        models.append(model)
    assert_same(models, task, 0.02, [(0, 0)] * 4, more=2)  # of the first none is scaled


@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd", "newton", "newton_cg", "svrg"])
@pytest.mark.parametrize("weight", [1e-12, 1e-6, 1e6, 1e12])
def test_class_weights_of_any_size(duck: Any, algorithm: str, weight: float) -> None:
    """Weights of 1 and 3, and the same times a number, have one optimum."""
    first, other = (
        duck.execute(
            f"SELECT {call('logistic', algorithm=algorithm, class_weight=[w, 3 * w])} FROM units WHERE g = 0"
        ).fetchone()[0]
        for w in (1.0, weight)
    )
    assert_same(
        [first, other], "logistic", 0.02, [(0, 0)] * 2, more=2 if algorithm == "svrg" else 0.5
    )


@pytest.mark.parametrize(
    "algorithm", ["lbfgs", "bgd", "newton", "newton_cg", "svrg", "sgd", "mgd"]
)
def test_rare_events(con: Any, algorithm: str) -> None:
    """Of 60,000 rows 0.1 % are events: the gradient is small where the training starts."""
    rng = np.random.default_rng(1)
    n = 60_000
    x = rng.standard_normal((n, 2))
    b = (x @ [1.0, -0.5] - 7.5 + rng.logistic(size=n) > 0).astype(int)
    con.register("drawn", {"b": b, "x0": x[:, 0].copy(), "x1": x[:, 1].copy()})
    con.execute("CREATE OR REPLACE TABLE rare AS SELECT b, [x0, x1] AS x FROM drawn")
    epsilon = 1e-2 if algorithm in ("sgd", "mgd") else 1e-4
    made = call("logistic", algorithm=algorithm, epsilon=epsilon, threads=1)
    model = con.execute(f"SELECT {made} FROM rare").fetchone()[0]
    best = con.execute(f"SELECT {call('logistic', epsilon=1e-9)} FROM rare").fetchone()[0]
    off = np.abs(np.array(model["coef"]) - best["coef"]) / best["std_err"][1:]
    assert (off < (1.0 if algorithm in ("sgd", "mgd") else 0.1)).all(), model


@pytest.mark.parametrize("label", ["0.0", "1e-9", "0.1", "1e9", "-3e300"])
@pytest.mark.parametrize("algorithm", EXACT)
def test_labels_that_are_all_the_same(duck: Any, label: str, algorithm: str) -> None:
    """The constant is the model, at once."""
    made = call("linear", algorithm=algorithm).replace(" y,", f" {label},")
    model = duck.execute(f"SELECT {made} FROM units WHERE g = 0").fetchone()[0]
    assert (model["status"], model["converged"]) == ("ok", True)
    assert model["intercept"] == pytest.approx(float(label), rel=1e-12)
    np.testing.assert_allclose(model["coef"], 0.0, atol=1e-12 * abs(float(label)))


@pytest.mark.parametrize("algorithm", ["lbfgs", "newton"])
@pytest.mark.parametrize("label", ["0.0", "1e-9", "5.0"])
def test_a_warm_start_leaves_constant_labels(duck: Any, label: str, algorithm: str) -> None:
    """From another model all coefficients return to 0."""
    size = max(float(label), 1e-9)
    warm = {"coef": [size, -size, size], "intercept": 2 * size}
    made = call("linear", algorithm=algorithm, warm_start=warm).replace(" y,", f" {label},")
    model = duck.execute(f"SELECT {made} FROM units WHERE g = 0").fetchone()[0]
    if label == "0.0":
        return  # nothing says what is small
    assert model["status"] == "ok"
    np.testing.assert_allclose(model["coef"], 0.0, atol=1e-5 * size)
