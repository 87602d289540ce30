"""The estimators of factorization machines: scikit-learn's own checks, sparse rows, ONNX."""

from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.utils.estimator_checks import parametrize_with_checks

import tuskml
from tuskml.estimators import TuskFMClassifier, TuskFMRegressor
from tuskml.export_onnx import to_onnx


@pytest.mark.sample(9)
@parametrize_with_checks([TuskFMRegressor(), TuskFMClassifier()])
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def product(n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three features that are often 0, and the product of two of them."""
    x = np.random.default_rng(2).normal(size=(n, 3)).round(1)
    x[np.abs(x) < 0.5] = 0
    return x, x[:, 0] * x[:, 2]


def test_sparse_rows_are_scored_as_dense_ones() -> None:
    """A sparse row is read as it is, and gives what the same row written out gives."""
    x, y = product()
    fitted = TuskFMRegressor(rank=2, max_iter=40).fit(csr_array(x), y)
    sparse = fitted.predict(csr_array(x))
    np.testing.assert_allclose(sparse, fitted.predict(x), rtol=1e-12, atol=1e-12)
    assert fitted.score(x, y) > 0.95
    assert fitted.n_iter_ == 40


@pytest.mark.parametrize("named", [False, True])
def test_onnx_answers_as_the_model(named: bool) -> None:
    x, y = product()
    frame = pd.DataFrame({"k": np.where(x[:, 0] > 0, "up", "down"), "z": x[:, 2]})
    rows: Any = frame if named else x
    fitted = TuskFMClassifier(rank=3).fit(rows, y > 0)
    runs = onnxruntime.InferenceSession(to_onnx(fitted).SerializeToString())
    given = {"k": frame["k"].to_numpy(object), "z": x[:, 2]} if named else {"features": x}
    found = dict(zip((one.name for one in runs.get_outputs()), runs.run(None, given), strict=True))
    np.testing.assert_allclose(
        found["probability"], fitted.predict_proba(rows)[:, 1], rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(found["prediction"], fitted.predict(rows))


def test_python_trains_and_predicts(con: Any) -> None:
    x, y = product()
    frame = pd.DataFrame({"a": x[:, 0], "b": x[:, 2], "y": y})
    models = tuskml.train(con, "fm", source=frame, label="y", features=["a", "b"], rank=2)
    found = tuskml.evaluate(con, models, source=frame)
    assert found["r2"] > 0.9
    rows = tuskml.predict(con, models, source=frame, returns="numpy")
    ours = models.predict(x[:, [0, 2]])
    np.testing.assert_allclose(rows["prediction"], ours, rtol=1e-12, atol=1e-12)
