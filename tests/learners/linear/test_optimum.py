"""At default options every coefficient of a deterministic solver lies within a small part of its standard error of the
optimum, whatever the order of the rows.
"""

# ruff: noqa: E501

import json
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.native

TASKS = (
    "linear",
    "logistic",
    "classes",
    "poisson",
    "negative_binomial",
    "gamma",
    "huber",
    "tweedie",
    "quantile",
)
SIZES = (40, 300, 800)
PART = 1e-3
"""Of a standard error."""


def drawn(rng: np.random.Generator, task: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Features that are nearly the same, in units of their own, and labels."""
    x = rng.normal(size=(n, 3))
    x[:, 1] = x[:, 0] + 10.0 ** rng.uniform(-2.5, 0) * x[:, 1]
    m = x @ rng.normal(size=3) * 0.5
    x = x * 10.0 ** rng.integers(-2, 3, size=3)
    if task in ("linear", "huber", "quantile"):
        return x, m + 0.3 * rng.standard_t(3, size=n)
    if task == "logistic":
        return x, (rng.random(n) < 1 / (1 + np.exp(-m))).astype(float)
    if task == "classes":
        return x, np.argmax(np.c_[m, -m, 0 * m] + rng.gumbel(size=(n, 3)), axis=1).astype(float)
    mean = np.exp(np.clip(m + 1, -3, 4))
    if task == "gamma":
        return x, rng.gamma(2, mean / 2)
    if task == "tweedie":
        return x, np.array([rng.gamma(2, 0.5, size=k).sum() for k in rng.poisson(mean)])
    return x, (
        rng.poisson(mean) if task == "poisson" else rng.negative_binomial(2, 2 / (2 + mean))
    ).astype(float)


def fitted(con, task: str, features: str, order: str, weight: str = "", **options):
    name = "logistic" if task == "classes" else task
    call = f"train_model('{name}', y, {features}, $1{weight})"
    rows = con.execute(
        f"SELECT k, m.coef, m.intercept, m.std_err, m.status FROM (SELECT k, {call} AS m FROM (SELECT * FROM t ORDER BY {order}) GROUP BY k ORDER BY k)",
        [json.dumps(options)],
    ).fetchall()
    several = task == "classes"
    return [
        (np.array(coef if several else [intercept, *coef]), std_err, status)
        for _, coef, intercept, std_err, status in rows
    ]


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**32),
    task=st.sampled_from(TASKS),
    algorithm=st.sampled_from(["auto", "newton", "lbfgs", "bgd", "newton_cg"]),
    features=st.sampled_from(["x", "sparse(range(3), x)", "{'a': x[1], 'b': x[2], 'c': x[3]}"]),
    weight=st.sampled_from(["", ", 1 + floor(4 * a)"]),
)
def test_coefficients_are_those_of_the_optimum(con, seed, task, algorithm, features, weight):
    if task in ("classes", "quantile") and algorithm == "newton_cg":
        algorithm = "lbfgs"  # it is for two classes, and for smooth losses
    if task == "quantile" and algorithm == "bgd" and "TUSKML_EXAMPLES" not in os.environ:
        algorithm = "lbfgs"  # by night, since it takes many seconds to come down to a kink
    rng = np.random.default_rng(seed)
    con.execute("CREATE OR REPLACE TABLE t (k INTEGER, x DOUBLE[], y DOUBLE, a DOUBLE)")
    for k, n in enumerate(SIZES):
        x, y = drawn(rng, task, n)
        con.execute(
            "INSERT INTO t SELECT $1, unnest($2), unnest($3), unnest($4)",
            [k, x.tolist(), y.tolist(), rng.random(n).tolist()],
        )
    best = fitted(con, task, features, "a", weight, algorithm="newton", epsilon=1e-12)
    for order in ("a DESC", "y, a"):
        found = fitted(con, task, features, order, weight, algorithm=algorithm)
        for (here, _, status), (there, errors, _) in zip(found, best, strict=True):
            if status == "not converged" or errors is None:
                continue
            size = np.array(errors, float)
            known = np.isfinite(size)
            assert (np.abs(here - there)[known] <= PART * size[known]).all()
