"""Two features that differ by little: the weights and errors of an orthogonal basis, status ok.

The truth is Newton's method on such a basis, in long doubles.
"""

import json
from typing import Any

import duckdb
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

import tuskml

Wide = NDArray[np.longdouble]
TASKS = ("linear", "logistic", "poisson", "gamma")
N = 120


@pytest.fixture(scope="module")
def duck() -> Any:
    with tuskml.connect() as con:
        con.execute("SET threads = 1")
        yield con


def basis_of(x: Wide) -> tuple[Wide, Wide]:
    """q (n, d) with q'q = n and r (d, d) such that x = q r, by Gram and Schmidt, three times."""
    q, r = x.copy(), np.zeros((x.shape[1], x.shape[1]), np.longdouble)
    for j in range(x.shape[1]):
        for _ in range(3):
            for k in range(j):
                along = q[:, k] @ q[:, j] / len(x)
                r[k, j] += along
                q[:, j] -= along * q[:, k]
        r[j, j] = np.sqrt(q[:, j] @ q[:, j] / len(x))
        q[:, j] /= r[j, j]
    return q, r


def slopes(task: str, y: Wide, m: Wide) -> tuple[Wide, Wide]:
    """First and second derivatives of the loss."""
    if task == "linear":
        return m - y, np.ones_like(m)
    if task == "logistic":
        p = 1 / (1 + np.exp(-m))
        return p - y, p * (1 - p)
    if task == "poisson":
        return np.exp(m) - y, np.exp(m)
    return 1 - y * np.exp(-m), y * np.exp(-m)


def truth(task: str, x: Wide, y: Wide) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients and their standard errors, but for the dispersion, (d,) each."""
    q, r = basis_of(x - x.mean(axis=0))
    z = np.column_stack([np.ones_like(y), q])
    v = np.zeros(z.shape[1], np.longdouble)
    if task != "logistic":
        v[0] = y.mean() if task == "linear" else np.log(y.mean())
    for _ in range(40):
        first, second = slopes(task, y, z @ v)
        hessian = ((z.T * second) @ z).astype(float)
        v -= np.linalg.solve(hessian, (z.T @ first).astype(float))
    if task == "gamma":  # by the expected curvature
        hessian = (z.T @ z).astype(float)
    back = np.linalg.inv(r.astype(float))
    spread = back @ np.linalg.inv(hessian)[1:, 1:] @ back.T
    return back @ v[1:].astype(float), np.sqrt(np.diag(spread))


def drawn(task: str, seed: int, apart: float, far: float) -> tuple[Any, Any]:
    """Features (n, 3), of which the last is the first plus little, and labels (n,)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(N, 3))
    m = 0.5 * x[:, 0] - 0.3 * x[:, 1] + 0.2
    x[:, 2] = x[:, 0] + apart * x[:, 2]
    noise = {
        "linear": lambda: m + rng.normal(size=N),
        "logistic": lambda: (m + rng.logistic(size=N) > 0) * 1.0,
        "poisson": lambda: rng.poisson(np.exp(m)) * 1.0,
        "gamma": lambda: np.exp(m) * rng.gamma(2, 0.5, size=N),
    }
    return x + far, noise[task]()


@settings(max_examples=16)
@given(
    task=st.sampled_from(TASKS),
    algorithm=st.sampled_from(["newton", "newton_cg", "lbfgs"]),
    sparse=st.booleans(),
    seed=st.integers(0, 2**31),
    apart=st.sampled_from([1e-2, 1e-4, 1e-5, 3e-6]),
    far=st.sampled_from([0.0, 100.0]),
)
def test_features_that_differ_by_little(
    duck: duckdb.DuckDBPyConnection,
    task: str,
    algorithm: str,
    sparse: bool,
    seed: int,
    apart: float,
    far: float,
) -> None:
    x, y = drawn(task, seed, apart, far)
    duck.execute(
        "CREATE OR REPLACE TABLE near AS SELECT unnest(?) AS y, unnest(?) AS x",
        [y.tolist(), x.tolist()],
    )
    features = "sparse([0, 1, 2], x)" if sparse else "x"
    options = json.dumps({"algorithm": algorithm})
    query = f"SELECT train_model('{task}', y, {features}, '{options}') FROM near"
    model = duck.execute(query).fetchall()[0][0]
    assert model["status"] == "ok"
    coef, error = truth(task, x.astype(np.longdouble), y.astype(np.longdouble))
    found = np.array(model["std_err"][1:], float)
    scale = found[1] / error[1] if task in ("linear", "gamma") else 1.0  # the dispersion's root
    assert (np.abs(np.array(model["coef"]) - coef) <= 0.01 * scale * error).all()
    np.testing.assert_allclose(found, scale * error, rtol=0.05)
