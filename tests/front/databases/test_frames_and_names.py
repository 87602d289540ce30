"""Frames of every kind are read by one rule, and a name that is nearly a column's gets a sentence."""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import tuskml
from tuskml import DataError, Model
from tuskml.estimators import TuskClassifier, TuskRegressor

SERIES = {"duckdb": "range(60)", "postgres": "generate_series(0, 59)"}


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def tumours(request: pytest.FixtureRequest, make_place: Callable[[str], Any]) -> Any:
    place = make_place(request.param)
    place.sql(
        f'CREATE TABLE tumours AS SELECT i % 7 AS "mean radius", i % 5 AS "mean area", i % 7 > 3 AS bad, i AS miles FROM {SERIES[request.param]} AS t(i)'
    )
    return place


NAMES = {
    "a space": ({"features": ["mean radus", "miles"]}, "features has 'mean radus', which is neither a column of table tumours nor an SQL expression; did you mean 'mean radius'?"),
    "a dash": ({"features": ["mean-radius"]}, "features has 'mean-radius', which is neither .*did you mean 'mean radius'"),
    "the label": ({"label": "mean aera"}, "label has 'mean aera', which is neither .*did you mean 'mean area'"),
    "a key": ({"group_by": "mean areas"}, "group_by has 'mean areas', which is neither .*did you mean 'mean area'"),
    "no such thing": ({"features": ["miles by hour"]}, r"features has 'miles by hour', which is neither a column of table tumours nor an SQL expression \(syntax error at or near .*\): its columns are mean radius, mean area, bad, miles"),
    "in an expression": ({"features": ["miles + 1", "mils + 1"]}, "features names column 'mils', which table tumours does not have: .*did you mean 'miles'"),
}  # fmt: skip


@pytest.mark.parametrize("what", NAMES)
def test_nearly_a_column(tumours: Any, what: str) -> None:
    given, sentence = NAMES[what]
    arguments: dict[str, Any] = {
        "source": "tumours",
        "label": "bad",
        "features": ["miles"],
        "l2": 0.1,
        **given,
    }
    with pytest.raises(DataError, match=sentence) as raised:
        tuskml.train(tumours.connection, "logistic", **arguments)
    assert "\n" not in str(raised.value)


def frames() -> dict[str, Any]:
    """The same rows: NaN at 3 and 7 of x, at 5 of y, NULL at 9."""
    x = [float("nan") if i in (3, 7) else None if i == 9 else float(i % 11) for i in range(100)]
    y = [float("nan") if i == 5 else 1.0 + 2 * (i % 11) + i % 3 for i in range(100)]
    single = np.array([np.nan if value is None else value for value in x], np.float32)
    table = pa.table(
        {
            "x": pa.array(x, pa.float64(), from_pandas=False),
            "y": pa.array(y, from_pandas=False),
            "z": pa.array(single, from_pandas=False),
        }
    )
    return {
        "pandas": pd.DataFrame({"x": x, "y": y, "z": single}),
        "polars": pl.from_arrow(table),
        "lazy": pl.from_arrow(table).lazy(),
        "arrow": table,
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "arrow"])
@pytest.mark.parametrize("feature", ["x", "z"])
def test_a_frame_s_nan_is_a_missing_value(kind: str, feature: str, con) -> None:
    """As in pandas, which cannot tell them apart: the row is skipped, and counted."""
    rows = [i for i in range(100) if i not in (3, 5, 7, 9)]
    slope, intercept = np.polyfit(
        [i % 11 for i in rows], [1.0 + 2 * (i % 11) + i % 3 for i in rows], 1
    )
    model = tuskml.train(con, "linear", source=frames()[kind], label="y", features=feature)
    assert (model.n_rows, model.n_skipped) == (96, 4)
    np.testing.assert_allclose([*model.weights(), model.intercept], [slope, intercept], rtol=1e-5)
    predicted = tuskml.predict(con, model, source=frames()[kind], returns="numpy")
    assert np.isnan(predicted["prediction"]).sum() == 3
    assert tuskml.evaluate(con, model, source=frames()[kind])["n_rows"] == 96


def test_a_lazy_frame_comes_back_as_a_frame(con) -> None:
    model = tuskml.train(
        con, "linear", source=frames()["lazy"].filter(pl.col("x") > 2), label="y", features="x"
    )
    assert isinstance(tuskml.predict(con, model, source=frames()["lazy"]), pl.DataFrame)


def test_nan_in_a_table_is_a_bad_row(con) -> None:
    """A table's NaN is a value that somebody wrote there."""
    con.execute(
        "CREATE TABLE t AS SELECT CASE WHEN i = 3 THEN 'nan'::DOUBLE ELSE i END AS x, i AS y FROM range(9) r(i)"
    )
    given = {"source": "t", "label": "y", "features": "x"}
    with pytest.raises(DataError, match="NaN"):
        tuskml.train(con, "linear", **given, invalid="error")
    model = tuskml.train(con, "linear", **given)
    assert model.status == "invalid rows"
    assert "feature 1 is NaN in row 4" in model.plan


def test_a_model_in_a_file(con, tmp_path: Path) -> None:
    model = tuskml.train(
        con, "linear", source="SELECT x, 3 * x AS y FROM range(9) r(x)", label="y", features="x"
    )
    path = tmp_path / "y.json"
    model.save(path)
    assert Model.load(str(path)) == model
    assert [p.name for p in tmp_path.iterdir()] == ["y.json"]
    path.write_text(path.read_text()[:-20])
    with pytest.raises(DataError, match=r"y\.json: the model is not valid JSON"):
        Model.load(path)
    with pytest.raises(DataError, match=r"no\.json does not exist"):
        Model.load(tmp_path / "no.json")


@pytest.fixture(scope="module")
def cancer() -> tuple[Any, Any]:
    return load_breast_cancer(return_X_y=True)


def run_onnx(path: Path, X: Any) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"features": np.asarray(X, np.float64)})


def test_estimators_are_exported(cancer: tuple[Any, Any], tmp_path: Path) -> None:
    from tuskml.export_onnx import save_onnx

    X, y = cancer
    X = X[:, :5]
    for labels in (y * 4 + 3, np.array(["ill", "well"])[y]):
        classifier = TuskClassifier(l2=0.01).fit(X, labels)
        save_onnx(classifier, tmp_path / "c.onnx")
        prediction, _, probability = run_onnx(tmp_path / "c.onnx", X)
        assert (prediction == classifier.predict(X)).all()
        np.testing.assert_allclose(probability, classifier.predict_proba(X)[:, 1], rtol=1e-9)
    regressor = TuskRegressor(l2=0.01).fit(X, y)
    save_onnx(regressor, tmp_path / "r.onnx")
    np.testing.assert_allclose(
        run_onnx(tmp_path / "r.onnx", X)[0], regressor.predict(X), rtol=1e-9
    )


@pytest.mark.nightly
def test_what_is_no_model_is_said(cancer: tuple[Any, Any], tmp_path: Path, con) -> None:
    from tuskml import export_mlflow
    from tuskml.export_onnx import save_onnx

    X, y = cancer
    many = TuskClassifier(task="svm", l2=0.1).fit(*load_iris(return_X_y=True))
    wrong = (
        (many, "TuskClassifier has 3 models, one per class, expected one model: each of estimator.models_"),
        (TuskClassifier(), "the TuskClassifier is not fitted"),
        (make_pipeline(StandardScaler(), Ridge()).fit(X, y), "model is of type Pipeline, expected a tuskml.Model or a fitted TuskClassifier or TuskRegressor"),
        ({"coef": [1]}, "model is of type dict, expected"),
        ("late", "model is of type str, expected"),
    )  # fmt: skip
    for given, sentence in wrong:
        with pytest.raises(DataError, match=sentence):
            save_onnx(given, tmp_path / "no.onnx")
        with pytest.raises(DataError, match=sentence):
            export_mlflow.save_model(given, tmp_path / "no")
    with pytest.raises(DataError, match="TuskClassifier has 3 models"):
        tuskml.predict(con, many, source="SELECT 1 AS x1")
    assert not list(tmp_path.iterdir())
    regressor = TuskRegressor(l2=0.1).fit(X[:, :2], y)
    frame = pd.DataFrame(X[:, :2], columns=["x1", "x2"])
    found = tuskml.predict(con, regressor, source=frame, returns="numpy")["prediction"]
    np.testing.assert_allclose(found, regressor.predict(X[:, :2]), rtol=1e-9)
