"""Predictions of arrays on the device are those of NumPy."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from scipy.special import expit
from standin import StandIn

import tuskml
from tuskml.errors import DataError, OptionError
from tuskml.kernels.gpu import cuda, predictions

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


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_rows_on_the_device_stay_there(device, dtype):
    x, coef = rng.normal(size=(101, 7)).astype(dtype), rng.normal(size=7)
    there = device.to_device(x)
    expected = x.astype(float) @ coef + 2
    assert np.allclose(predictions.decision(there, coef, 2.0, device), expected, rtol=1e-12)
    some = there[3:50:2]
    found = predictions.predict_proba(some, coef, 2.0, device)
    assert np.allclose(found, expit(expected[3:50:2]), rtol=1e-11)
    assert predictions.decision(there[:0], coef, 2.0, device).shape == (0,)


@pytest.mark.parametrize("kind", ["decision", "predict", "predict_proba"])
def test_models_predict_on_the_gpu_where_they_are_asked_to(con, standing_in, kind):
    con.execute(
        "CREATE TABLE t AS SELECT [hash(i) % 10, hash(i + 1) % 7]::FLOAT[] AS x, "
        "hash(i + 3) % 10 + hash(i) % 10 > 8 AS late FROM range(400) t(i)"
    )
    ((found,),) = con.execute("SELECT train_model('logistic', late, x) FROM t").fetchall()
    model, x = tuskml.Model.of(found), rng.normal(size=(50, 2))
    expected = getattr(model, kind)(x)
    assert not standing_in.launches
    forms = (x, x.tolist(), pd.DataFrame(x, columns=["x1", "x2"]), standing_in.to_device(x))
    for given in forms:
        assert np.allclose(getattr(model, kind)(given, device="gpu"), expected, rtol=1e-12)
    assert [name for name, _ in standing_in.launches] == ["margins"] * 4
    assert np.allclose(getattr(model, kind)(x.astype("f4"), device="gpu"), expected, atol=1e-5)


@pytest.mark.parametrize(("response", "inverse"), [("exp", np.exp), ("logistic", expit)])
def test_the_response_of_an_own_task_is_that_of_the_cpu(con, standing_in, response, inverse):
    con.execute(
        "CREATE TABLE t AS SELECT [hash(i) % 10, hash(i + 1) % 7]::FLOAT[] AS x, i % 2 AS y "
        "FROM range(400) t(i)"
    )
    ((found,),) = con.execute("SELECT train_model('linear', y, x) FROM t").fetchall()
    model = replace(
        tuskml.Model.of(found), task="own", options={"tuskml": 1, "response": response}
    )
    x = rng.normal(size=(50, 2))
    expected = inverse(x @ np.array(model.coef) + model.intercept)
    for given in (x, standing_in.to_device(x)):
        assert np.allclose(model.predict(given, device="gpu"), expected, rtol=1e-12)
    with pytest.raises(DataError, match="which gives no probabilities"):
        model.predict_proba(x, device="gpu")


def test_what_the_gpu_does_not_predict_is_said(con, standing_in, monkeypatch):
    con.execute("CREATE TABLE t AS SELECT [i % 7]::FLOAT[] AS x, i % 3 AS y FROM range(40) t(i)")
    ((found,),) = con.execute("SELECT train_model('linear', y, x) FROM t").fetchall()
    model = tuskml.Model.of(found)
    with pytest.raises(DataError, match="of linear models, X is a sparse matrix: expected device"):
        model.decision(scipy.sparse.eye_array(1), device="gpu")
    with pytest.raises(OptionError, match="device is 'tpu', expected 'cpu' or 'gpu'"):
        model.predict([[1.0]], device="tpu")
    with pytest.raises(DataError, match="the model has 1 features, X has 2 columns"):
        model.predict([[1.0, 2.0]], device="gpu")
    rated = replace(model, task="matrix_factorization")
    with pytest.raises(DataError, match="the model is 'matrix_factorization': expected device"):
        rated.predict([[1.0, 2.0]], device="gpu")
    monkeypatch.setattr(cuda, "availability", lambda: "no CuPy here")
    with pytest.raises(DataError, match="predictions on the GPU are not possible: no CuPy here"):
        model.predict([[1.0]], device="gpu")


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
