"""Boosted trees in LightGBM's text format, beside LightGBM itself."""

import re
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import tuskml
from tuskml import DataError, Model

RECORDED = Path(__file__).parent / "lightgbm_recorded.txt"
"""Three classes, of LightGBM 4.7.0, with missing values; predictions follow the text."""
CASES = {
    "regression": ("y", '{"objective": "squared"}'),
    "poisson": ("floor(abs(y))", '{"objective": "poisson"}'),
    "gamma": ("abs(y)", '{"objective": "gamma"}'),
    "tweedie": ("floor(abs(y))", '{"objective": "tweedie", "power": 1.2}'),
    "quantile": ("y", '{"objective": "quantile", "quantile": 0.9}'),
    "huber": ("y", '{"objective": "huber", "delta": 0.5}'),
    "binary": ("y > 0", '{"objective": "logistic"}'),
    "multiclass": ("floor(y / 2)", '{"objective": "logistic"}'),
}


def rows(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Rows with three features and their labels."""
    random = np.random.default_rng(5)
    x = random.normal(size=(n, 3))
    return x, 2 * x[:, 0] + x[:, 1] * x[:, 2] + random.normal(size=n) / 4


def with_missing(x: np.ndarray) -> np.ndarray:
    """The same with NaN, zeros and large numbers."""
    x = x.copy()
    x[::7, 0], x[::5, 1], x[::11, 2], x[1] = np.nan, 0.0, np.nan, 1e300
    return x


def trained(con: duckdb.DuckDBPyConnection, case: str, more: str = "") -> Model:
    x, y = rows()
    table = {"x": list(x), "y": y}
    con.execute("CREATE OR REPLACE TABLE t (x DOUBLE[], y DOUBLE)")
    con.executemany(
        "INSERT INTO t VALUES (?, ?)", [[list(a), b] for a, b in zip(*table.values(), strict=True)]
    )
    label, options = CASES[case]
    options = options.replace("}", f', "trees": 12, "num_leaves": 7{more}}}')
    found = con.execute(f"SELECT train_model('gbdt', {label}, x, '{options}') FROM t").fetchall()
    return Model.of(found[0][0])


def margins_of(model: Model, x: np.ndarray) -> np.ndarray:
    told = model.explain(x)
    return told.base + told.contributions.sum(axis=-1)


def agree(model: Model, booster: Any, x: np.ndarray) -> None:
    """LightGBM predicts what the model does."""
    found = booster.predict(x)
    if model.many_classes:
        expected: np.ndarray = model.predict_probas(x)
    elif model.classes:
        expected = model.predict_proba(x)
    else:
        expected = model.predict(x)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", CASES)
def test_lightgbm_predicts_what_tuskml_does(con: duckdb.DuckDBPyConnection, case: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model = trained(con, case)
    booster = lightgbm.Booster(model_str=model.to_lightgbm())
    assert booster.num_trees() == 12 * (len(model.classes or ()) if case == "multiclass" else 1)
    agree(model, booster, with_missing(rows()[0]))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("missing", [False, True])
def test_tuskml_predicts_what_lightgbm_does(case: str, missing: bool) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    x, y = rows()
    if case == "gamma":
        y = np.abs(y)
    elif case in ("poisson", "tweedie"):
        y = np.floor(np.abs(y))
    elif case == "binary":
        y = (y > 0) * 1.0
    elif case == "multiclass":
        y = np.digitize(y, [-1, 0, 1])
    given = {"objective": case, "verbose": -1, "num_leaves": 7, "alpha": 0.9, "num_threads": 1}
    if case == "multiclass":
        given["num_class"] = 4
    if case == "binary":
        given["sigmoid"] = 0.7
    data = lightgbm.Dataset(with_missing(x) if missing else x, y)
    booster = lightgbm.train(given, data, 12)
    model = Model.from_lightgbm(booster.model_to_string())
    agree(model, booster, with_missing(x))
    assert (model.n_rows, model.n_features, model.iterations) == (400, 3, 12)
    assert model.features == ("Column_0", "Column_1", "Column_2")
    raw = booster.predict(with_missing(x), pred_contrib=True).reshape(400, -1, 4)
    told = model.explain(with_missing(x))
    shapes = told.contributions.reshape(400, -1, 3)
    factor = 0.7 if case == "binary" else 1.0
    np.testing.assert_allclose(shapes, factor * raw[:, :, :3], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("case", ["regression", "binary", "multiclass", "poisson"])
def test_averaged_forests(case: str) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    x, y = rows()
    given = {"objective": case, "verbose": -1, "num_leaves": 7, "num_threads": 1, "sigmoid": 0.7}
    given |= {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.7}
    if case == "multiclass":
        y, given["num_class"] = np.digitize(y, [-1, 1]), 3
    elif case != "regression":
        y = np.floor(np.abs(y)) if case == "poisson" else (y > 0) * 1.0
    booster = lightgbm.train(given, lightgbm.Dataset(with_missing(x), y), 9)
    assert "average_output" in booster.model_to_string()
    agree(Model.from_lightgbm(booster.model_to_string()), booster, with_missing(x))


@pytest.mark.parametrize("case", CASES)
def test_text_and_back_is_the_same_model(con: duckdb.DuckDBPyConnection, case: str) -> None:
    model = trained(con, case)
    back = Model.from_lightgbm(model.to_lightgbm())
    x = with_missing(rows()[0])
    assert margins_of(back, x) == pytest.approx(margins_of(model, x), rel=1e-12, abs=1e-12)
    assert (back.options["objective"], back.iterations) == (model.options["objective"], 12)
    assert back.to_lightgbm() == Model.from_lightgbm(back.to_lightgbm()).to_lightgbm()
    assert Model.from_json(back.to_json()).coef == back.coef


def test_sql_predicts_with_a_model_that_was_read(con: duckdb.DuckDBPyConnection) -> None:
    model = trained(con, "regression")
    back = Model.from_lightgbm(model.to_lightgbm())
    asked = "SELECT predict({'payload': $1::BLOB}, x) FROM t LIMIT 5"
    told = con.execute(asked, [back.payload]).fetchall()
    assert np.ravel(told) == pytest.approx(model.predict(rows()[0][:5]), rel=1e-12)


def test_a_recorded_text() -> None:
    """Of LightGBM, without it."""
    text, _, told = RECORDED.read_text().partition("predictions\n")
    table = np.array([[float(one) for one in line.split()] for line in told.splitlines()])
    model = Model.from_lightgbm(text)
    assert model.class_names == ["0", "1", "2"]
    np.testing.assert_allclose(model.predict_probas(table[:, :3]), table[:, 3:], rtol=1e-12)


def test_models_without_trees(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    model = trained(con, "regression", ', "min_gain": 1e9')
    assert model.coef is None
    tuskml.export_lightgbm(model, tmp_path / "model.txt")
    text = (tmp_path / "model.txt").read_text()
    assert Model.from_lightgbm(text).predict([[1, 2, 3]]).tolist() == [model.intercept]
    lightgbm = pytest.importorskip("lightgbm")
    booster = lightgbm.Booster(model_str=text)
    if booster.num_feature() == 3:
        assert booster.predict([[1, 2, 3]]).tolist() == [model.intercept]


def recorded() -> str:
    return RECORDED.read_text().partition("predictions\n")[0]


REFUSALS = [
    ("is_linear=0", "is_linear=1", "a tree has linear leaves"),
    ("multiclass num_class:3", "lambdarank", "the objective is lambdarank, expected"),
    ("objective=multiclass num_class:3\n", "", "the objective is missing, expected"),
    ("end of trees", "", "the text ends before 'end of trees'"),
    ("tree\n", "wood\n", "the text does not begin with 'tree'"),
    ("num_leaves=4", "num_leaves=5", "the text is damaged"),
    ("left_child=2 -2 -1", "left_child=0 0 0", "the text is damaged"),
    ("Tree=2", "Treetop=2", "the text is damaged"),
    ("threshold=", "threshold=nan ", "the text is damaged"),
    ("split_feature=0", "split_feature=9", "the text is damaged"),
]


@pytest.mark.parametrize(("old", "new", "sentence"), REFUSALS)
def test_refusals_say_what_is_expected(old: str, new: str, sentence: str) -> None:
    text = recorded()
    assert old in text
    with pytest.raises(DataError, match=re.escape(sentence)) as refused:
        Model.from_lightgbm(text.replace(old, new, 1))
    assert ("damaged" in str(refused.value)) == ("damaged" in sentence)


def test_other_models_are_no_trees(con: duckdb.DuckDBPyConnection) -> None:
    of = "SELECT train_model({}) FROM (SELECT i, 'k' || i % 3 AS k FROM range(99) r(i))"
    linear = Model.of(con.execute(of.format("'linear', i, [i]")).fetchall()[0][0])
    with pytest.raises(DataError, match="the model is 'linear', expected boosted trees"):
        linear.to_lightgbm()
