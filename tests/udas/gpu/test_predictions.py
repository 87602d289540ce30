"""Predictions of arrays on the device are those of NumPy."""

import numpy as np
import pytest
from scipy.special import expit
from standin import MISSING, StandIn

from tuskml.errors import DataError
from tuskml.udas.gpu import cuda, predictions

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
rng = np.random.default_rng(0)


@pytest.mark.parametrize(("n", "d", "dtype"), [(301, 5, "f4"), (1, 40, "f8"), (77, 33, "f8")])
@pytest.mark.parametrize("part", [1 << 28, 4000])
def test_margins_and_probabilities(device, monkeypatch, n, d, dtype, part):
    """Also where the rows come in several parts, each in several pieces."""
    monkeypatch.setattr(predictions, "PART_BYTES", part)
    monkeypatch.setattr(predictions, "STAGED_BYTES", 3000)
    x, coef = (3 * rng.normal(size=(n, d))).astype(dtype), rng.normal(size=d)
    expected = x.astype(float) @ coef - 0.7
    assert np.allclose(predictions.decision(x, coef, -0.7, device), expected, rtol=1e-12)
    found = predictions.predict_proba(x, coef, -0.7, device)
    assert np.allclose(found, expit(expected), rtol=1e-11)


def test_rows_that_are_not_there():
    assert predictions.decision(np.empty((0, 3)), [1, 2, 3], 0.0, StandIn()).shape == (0,)


@pytest.mark.parametrize("x", [np.zeros((4, 2)), np.zeros(3), np.zeros((4, 3), int)])
def test_shapes_that_do_not_fit(x):
    with pytest.raises(DataError, match=r"expected \(n, 3\) of float32 or float64"):
        predictions.decision(x, [1.0, 2.0, 3.0], 0.0, StandIn())


def test_without_a_gpu(monkeypatch):
    monkeypatch.setattr(cuda, "availability", lambda: "there is no NVIDIA driver on this machine")
    with pytest.raises(DataError, match="not possible: there is no NVIDIA driver"):
        predictions.decision(np.zeros((4, 3)), [1.0, 2.0, 3.0], 0.0)
