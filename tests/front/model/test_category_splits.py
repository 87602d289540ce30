"""Splits of categories in LightGBM's text format, both ways, and in ONNX."""

import json
from typing import Any

import duckdb
import numpy as np
import pytest

from tuskml import DataError, Model
from tuskml.export_onnx import to_onnx

CASES = {
    "regression": ("y", "squared"),
    "binary": ("y > 0", "logistic"),
    "multiclass": ("floor(y / 2)", "logistic"),
}
NEW = np.array([[0, 70], [0, 99], [0, np.nan], [0, -1], [np.nan, 3], [0.2, 64]], float)
"""Levels at the end of a word, new, missing and impossible."""


def rows(n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """A number and a category of 72 levels."""
    random = np.random.default_rng(5)
    level = random.integers(0, 72, n)
    x = np.stack([random.normal(size=n), level], axis=1)
    return x, random.normal(size=72)[level] * 2 + x[:, 0] + random.normal(size=n) / 4


def trained(con: duckdb.DuckDBPyConnection, case: str) -> Model:
    x, y = rows()
    con.execute("CREATE OR REPLACE TABLE t (x DOUBLE[], y DOUBLE)")
    con.execute("INSERT INTO t SELECT unnest($x), unnest($y)", {"x": x.tolist(), "y": y.tolist()})
    label, objective = CASES[case]
    options = {"categorical": [2], "trees": 12, "num_leaves": 9, "objective": objective}
    sql = f"SELECT train_model('gbdt', {label}, x, '{json.dumps(options)}') FROM t"
    return Model.of(con.execute(sql).fetchall()[0][0])


def told(model: Model, x: np.ndarray) -> np.ndarray:
    if model.many_classes:
        found: np.ndarray = model.predict_probas(x)
        return found
    return model.predict_proba(x) if model.classes else model.predict(x)


@pytest.mark.parametrize("case", CASES)
def test_lightgbm_predicts_what_tuskml_does(con: duckdb.DuckDBPyConnection, case: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model, x = trained(con, case), np.concatenate([rows()[0], NEW])
    text = model.to_lightgbm()
    assert "cat_threshold" in text
    booster = lightgbm.Booster(model_str=text)
    np.testing.assert_allclose(booster.predict(x), told(model, x), rtol=1e-12, atol=1e-14)
    back = Model.from_lightgbm(text)
    np.testing.assert_allclose(told(back, x), told(model, x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_tuskml_predicts_what_lightgbm_does(case: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    x, y = rows()
    y = {"regression": y, "binary": (y > 0) * 1.0, "multiclass": np.digitize(y, [-1, 1])}[case]
    given: dict[str, Any] = {"objective": case, "verbose": -1, "num_leaves": 9, "num_threads": 1}
    if case == "multiclass":
        given["num_class"] = 3
    data = lightgbm.Dataset(x, y, categorical_feature=[1])
    booster = lightgbm.train(given, data, 12)
    model = Model.from_lightgbm(booster.model_to_string())
    x = np.concatenate([x, NEW])
    np.testing.assert_allclose(told(model, x), booster.predict(x), rtol=1e-12, atol=1e-14)
    sums = booster.predict(x, pred_contrib=True).reshape(len(x), -1, 3)
    mine = model.explain(x).contributions.reshape(len(x), -1, 2)
    np.testing.assert_allclose(mine, sums[:, :, :2], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "damage",
    [
        ("cat_boundaries=0 ", "cat_boundaries=7 "),
        ("cat_threshold=", "cat_threshold=99999999999 "),
        ("cat_threshold=", "cat_threshold=-1 "),
        ("cat_boundaries=", "cat_bounds="),
    ],
)
def test_a_damaged_set_is_refused(con: duckdb.DuckDBPyConnection, damage: tuple[str, str]) -> None:
    text = trained(con, "regression").to_lightgbm()
    with pytest.raises(DataError, match="the text is damaged"):
        Model.from_lightgbm(text.replace(*damage))


@pytest.mark.parametrize("case", CASES)
def test_onnx_says_the_same(con: duckdb.DuckDBPyConnection, case: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, x = trained(con, case), np.concatenate([rows()[0], NEW])
    graph = to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"features": x}), strict=True))
    np.testing.assert_allclose(found["prediction"], model.predict(x), rtol=1e-12)
    if case == "multiclass":
        shares = model.predict_probas(x)
        np.testing.assert_allclose(found["probability"], shares, rtol=1e-11, atol=1e-14)
