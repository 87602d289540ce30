"""Features that rounding alone tells apart: many sines of frequencies that lie close together."""

import json

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

N_ROWS, N_TONES = 1_500, 40
DETERMINED = 1e-5
"""Singular values, relative to the largest, of the directions that a model has to fit; rows of
floats hardly determine the others."""


@pytest.fixture(scope="module")
def rows() -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Features (n, 2 * N_TONES) of condition beyond 1e7, and a noisy wave (n,)."""
    rng = np.random.default_rng(3)
    t = rng.random(N_ROWS) * 12
    angles = np.outer(t, np.sort(rng.uniform(0.2, 3.0, N_TONES)))
    x = np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)
    assert np.linalg.cond(x - x.mean(axis=0)) > 1e7
    return x, np.sin(1.3 * t) + 0.5 * np.cos(2.1 * t) + rng.standard_normal(N_ROWS)


def trained(
    con: duckdb.DuckDBPyConnection,
    task: str,
    x: NDArray[np.float32],
    y: NDArray[np.float64],
    kind: str,
) -> dict[str, object]:
    features = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
    table = pa.table({"y": y, "x": features})
    con.register("nearly_collinear", table)
    options = json.dumps({"algorithm": "newton", "epsilon": 1e-6})
    query = f"SELECT train_model('{task}', y, x::{kind}[], '{options}') FROM nearly_collinear"
    found: dict[str, object] = con.execute(query).fetchall()[0][0]
    con.unregister("nearly_collinear")
    return found


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_newton_finds_the_least_squares(
    con: duckdb.DuckDBPyConnection,
    rows: tuple[NDArray[np.float32], NDArray[np.float64]],
    kind: str,
) -> None:
    """Whole steps are many times too long here, and halved ones do not arrive in 100."""
    x, y = rows
    model = trained(con, "linear", x, y, kind)
    centred = x.astype(float) - x.mean(axis=0, dtype=float)
    best = np.linalg.lstsq(centred, y - y.mean(), rcond=DETERMINED)[0]
    least = ((y - y.mean() - centred @ best) ** 2).mean() / 2
    assert model["status"] == "collinear features"
    assert 0.97 * least < float(str(model["loss"])) < least * (1 + 1e-6)
    assert int(str(model["iterations"])) < 20


def test_newton_finds_the_likeliest_classes(
    con: duckdb.DuckDBPyConnection, rows: tuple[NDArray[np.float32], NDArray[np.float64]]
) -> None:
    """The loss of Newton's method on an orthogonal basis of the same features."""
    x, y = rows
    labels = (y > 0).astype(float)
    model = trained(con, "logistic", x, labels, "DOUBLE")
    centred = x.astype(float) - x.mean(axis=0, dtype=float)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    basis = np.column_stack([left[:, sizes > DETERMINED * sizes[0]], np.ones(len(y))])
    w = np.zeros(basis.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-basis @ w))
        curvature = basis.T @ (basis * (p * (1 - p))[:, None])
        w += np.linalg.solve(curvature, basis.T @ (labels - p))
    margin = basis @ w
    least = (np.logaddexp(0, margin) - labels * margin).mean()
    assert 0.97 * least < float(str(model["loss"])) < least * (1 + 1e-6)
    assert int(str(model["iterations"])) < 60
