"""Sparse rows say what dense rows of the same numbers say: status, coefficients and standard errors, also of features that
are 0 or one number in all rows, and of fewer rows than weights.
"""

# ruff: noqa: E501, the docstring is read better on one line

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, few, here, there

__all__ = ["client", "here", "there"]

COUNTS, POSITIVE = ("poisson", "negative_binomial"), ("gamma", "tweedie", "inverse_gaussian")
CLASSES = {"logistic": 2, "svm": 2, "squared_hinge": 2, "many classes": 3}
TASKS = ("linear", "huber", "quantile", *COUNTS, *POSITIVE, *CLASSES)


def labels(task: str, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels that the task takes, with noise, of which all classes occur."""
    margins = np.clip(x, -3, 3) @ np.cos(np.arange(x.shape[1])) + rng.normal(size=len(x))
    if task in CLASSES:
        of_class = np.argsort(np.argsort(margins)) * CLASSES[task] // len(x)
        return np.where(rng.random(len(x)) < 0.3, rng.permutation(of_class), of_class)
    if task in COUNTS:
        return rng.poisson(np.exp(0.3 * margins + 0.5))
    return np.exp(0.3 * margins) if task in POSITIVE else margins


@st.composite
def columns(draw: st.DrawFn) -> np.ndarray:
    """Features with zeros among them, one of which may be 0 or another number everywhere."""
    n = draw(st.sampled_from([3, 5, 40]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    d = draw(st.integers(1, 3))
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    for value in draw(st.lists(st.sampled_from([0.0, 2.5, -1e6]), max_size=2)):
        x = np.insert(x, draw(st.integers(0, x.shape[1])), value, axis=1)
    return x


@few
@given(
    x=columns(),
    seed=st.integers(0, 2**32),
    task=st.sampled_from(TASKS),
    options=st.sampled_from([{}, {"fit_intercept": False}, {"l2": 0.1}, {"algorithm": "lbfgs"}]),
)
def test_both_storages_say_the_same(
    here: Client, x: np.ndarray, seed: int, task: str, options: dict[str, Any]
) -> None:
    y = labels(task, x, np.random.default_rng(seed))
    options = options | {"epsilon": 1e-9}
    task = "logistic" if task in CLASSES and CLASSES[task] > 2 else task
    dense, sparse = (here.fit(task, x, y, storage, **options) for storage in ("dense", "sparse"))
    assert sparse.status == dense.status
    assert np.isnan(sparse.std_err).tolist() == np.isnan(dense.std_err).tolist()
    if dense.status in ("ok", "constant feature"):
        np.testing.assert_allclose(sparse.std_err, dense.std_err, rtol=1e-3)
        np.testing.assert_allclose(sparse.loss, dense.loss, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("value", [0.0, 2.5])
@pytest.mark.parametrize("task", ["linear", "many classes"])
def test_a_constant_has_no_weight(client: Client, task: str, value: float) -> None:
    """The others have what they have without it."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 2))
    y = labels(task, x, rng)
    task = "linear" if task == "linear" else "logistic"
    model = client.fit(task, np.insert(x, 1, value, axis=1), y, "sparse")
    without = client.fit(task, x, y, "sparse")
    assert (model.status, without.status) == ("constant feature", "ok")
    kept = np.array([0, 2]) if task == "linear" else np.array([0, 1, 3, 4, 5, 7, 8, 9, 11])
    np.testing.assert_allclose(model.coef[kept], without.coef, rtol=1e-6, atol=1e-9)
    assert (np.delete(model.coef, kept) == 0).all()


def test_an_id_that_never_occurs_is_no_feature(client: Client) -> None:
    sql = "SELECT train_model('linear', i % 5, sparse(ARRAY[7], ARRAY[i])) AS m FROM generate_series(1, 4) AS s(i)"
    found = client.connection.execute(
        f"SELECT (m).status, (m).n_features FROM ({sql}) AS t"
    ).fetchone()
    assert found == ("ok", 8)
