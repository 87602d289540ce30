"""Exports to ONNX and MLflow: loaded by those, they predict what the model predicts."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tuskml import DataError, Model, TuskError, train
from tuskml.export_mlflow import ModelWrapper, load_model, log_model, save_model
from tuskml.export_onnx import save_onnx, to_onnx

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read when it is imported
ROWS = """
CREATE TABLE trips AS
SELECT hash(i) % 100 / 10.0 AS delay, hash(i + 1) % 7 + 0.5 AS hour,
       hash(i + 3) % 10 + hash(i) % 100 / 10.0 > 8 AS late,
       CASE WHEN late THEN 7 ELSE -3 END AS code, hash(i + 1) % 7 + hash(i + 5) % 13 AS fare
FROM range(300) t(i)
"""
FEATURES = ["delay", "hour"]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*input example was not provided"),
    pytest.mark.filterwarnings("ignore:Operation with range"),
]
CASES = [("linear", "fare"), ("logistic", "code"), ("svm", "code"), ("logistic", "0 * code - 1")]
KINDS = {"prediction": "predict", "decision": "decision", "probability": "predict_proba"}


@pytest.fixture
def mlflow() -> Any:
    """MLflow, which takes seconds to import: not while tests are collected."""
    return pytest.importorskip("mlflow")


@pytest.fixture
def trips(con):
    con.execute(ROWS)
    return con


def fitted(trips: Any, task: str, label: str) -> tuple[Model, pd.DataFrame]:
    model = train(trips, task, source="trips", label=label, features=FEATURES, l2=0.01)
    return model, trips.execute("SELECT hour, delay FROM trips").df()


def run_onnx(graph: bytes, features: np.ndarray) -> dict[str, np.ndarray]:
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"features": features}), strict=True))


@pytest.mark.parametrize(("task", "label"), CASES)
def test_onnx_predicts_the_same(trips, tmp_path: Path, task: str, label: str) -> None:
    model, frame = fitted(trips, task, label)
    save_onnx(model, tmp_path / "model.onnx")
    X = frame[FEATURES].to_numpy()
    found = run_onnx((tmp_path / "model.onnx").read_bytes(), X)
    expected = ["prediction", *(["decision"] if task != "linear" else [])]
    assert list(found) == expected + (["probability"] if task == "logistic" else [])
    for name, values in found.items():
        assert values.dtype == np.float64
        np.testing.assert_allclose(values, getattr(model, KINDS[name])(X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("label", ["fare % 4 * 2", "'class ' || fare % 4"])
def test_onnx_predicts_many_classes(trips, label: str) -> None:
    model, frame = fitted(trips, "logistic", label)
    X = np.vstack([frame[FEATURES].to_numpy(), [[900.0, -900.0], [np.nan, 1.0]]])
    graph = to_onnx(model)
    found = run_onnx(graph.SerializeToString(), X)
    assert found["prediction"].tolist()[:-1] == model.predict(X).tolist()[:-1]
    shares = model.predict_probas(X)
    assert shares.shape == (302, 4)
    np.testing.assert_allclose(found["probability"][:-1], shares[:-1], rtol=1e-11, atol=1e-14)
    unknown = found["prediction"][-1]
    assert unknown == "" if model.has_text_classes else np.isnan(unknown)
    assert np.isnan(found["probability"][-1]).all()
    about = {prop.key: prop.value for prop in graph.metadata_props}
    assert json.loads(about["classes"]) == model.class_names


@pytest.mark.parametrize("case", ["numbers", "counts", "amounts", "two classes", "classes"])
def test_onnx_has_trees(trips, case: str) -> None:
    """Features that are missing have an answer too."""
    label = {"two classes": "fare > 10", "classes": "fare % 4 * 2"}.get(case, "fare")
    objective = {
        "numbers": "squared",
        "counts": "poisson",
        "amounts": "tweedie",
    }.get(case, "logistic")
    given = {"label": label, "features": FEATURES, "trees": 7, "objective": objective}
    model = train(trips, "gbdt", source="trips", **given)
    frame = trips.execute("SELECT hour, delay FROM trips").df()
    X = np.vstack([frame[FEATURES].to_numpy(), [[900.0, -900.0], [np.nan, 1.0], [1.0, np.nan]]])
    found = run_onnx(to_onnx(model).SerializeToString(), X)
    np.testing.assert_allclose(found["prediction"], model.predict(X), rtol=1e-12)
    assert np.isfinite(found["prediction"]).all()
    if case == "classes":
        shares = model.predict_probas(X)
        np.testing.assert_allclose(found["probability"], shares, rtol=1e-11, atol=1e-14)


def test_onnx_knows_the_features_and_unknown_numbers(trips) -> None:
    model, _ = fitted(trips, "logistic", "late")
    graph = to_onnx(model)
    about = {prop.key: prop.value for prop in graph.metadata_props}
    assert about == {
        "task": "logistic",
        "status": "ok",
        "label": "late",
        "features": '["delay", "hour"]',
        "classes": '["false", "true"]',
    }
    found = run_onnx(graph.SerializeToString(), np.array([[np.nan, 1.0], [-900.0, 1.0]]))
    np.testing.assert_array_equal(found["prediction"], [np.nan, 0.0])


@pytest.mark.parametrize("biases", [True, False])
def test_onnx_predicts_ratings(con, biases: bool) -> None:
    con.execute("CREATE TABLE ratings AS SELECT i % 7 AS u, i % 5 AS f, hash(i) % 5 AS s "
                "FROM range(300) t(i)")  # fmt: skip
    model = train(con, "matrix_factorization", source="ratings", label="s", features=["u", "f"],
                  rank=3, biases=biases)  # fmt: skip
    X = np.array([[u, f] for u in range(9) for f in range(7)], np.int64)
    found = run_onnx(to_onnx(model).SerializeToString(), X)
    np.testing.assert_allclose(found["prediction"], model.predict(X), rtol=1e-12)
    named = con.execute(
        "SELECT train_model('matrix_factorization', s, {'u': u, 'f': f}) FROM ratings"
    )
    with pytest.raises(DataError, match="columns of rows with names, expected ids"):
        to_onnx(Model.of(named.fetchall()[0][0]))


@pytest.mark.parametrize(("task", "label"), CASES)
def test_mlflow_predicts_the_same(trips, mlflow, tmp_path: Path, task: str, label: str) -> None:
    model, frame = fitted(trips, task, label)
    save_model(model, tmp_path / "saved")
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    np.testing.assert_allclose(served.predict(frame), model.predict(frame), rtol=1e-12)
    kinds = ["decision", *(["predict_proba"] if task == "logistic" else [])]
    for kind in kinds:
        found = served.predict(frame, params={"kind": kind})
        np.testing.assert_allclose(found, getattr(model, kind)(frame), rtol=1e-12, atol=1e-13)
    assert load_model(tmp_path / "saved") == model


@pytest.mark.parametrize(
    "features",
    ["pair", "[delay, hour]", "ARRAY[delay,  hour]", '["delay", hour]', "list_value(delay, hour)",
     "sparse([0, 1], [delay, hour])", "[delay]", "delay"],
)  # fmt: skip
def test_a_model_of_one_array_is_served(trips, mlflow, tmp_path: Path, features: str) -> None:
    """A frame with the array in a column of its name, or a column for each of its items."""
    trips.execute("ALTER TABLE trips ADD COLUMN pair DOUBLE[]")
    trips.execute("UPDATE trips SET pair = [delay, hour]")
    model = train(trips, "logistic", source="trips", label="late", features=features, l2=0.01)
    width = len(model.weights())
    X = trips.execute("SELECT delay, hour FROM trips").df().to_numpy()[:, :width]
    expected = model.predict_proba(X)
    written = features != "pair" and "(" not in features
    items = FEATURES[:width] if written else [f"{features}[{k}]" for k in range(1, width + 1)]
    frames = [pd.DataFrame(X, columns=items)[items[::-1]]]
    if features != "delay":
        frames += [pd.DataFrame({features: list(X)}), pd.DataFrame({features: X.tolist()})]
    save_model(model, tmp_path / "saved")
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    for frame in frames:
        for found in (
            served.predict(frame, params={"kind": "predict_proba"}),
            model.predict_proba(frame),
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_column_of_arrays_that_does_not_fit_is_refused(trips) -> None:
    model = train(trips, "linear", source="SELECT [delay, hour] AS pair, fare FROM trips",
                  label="fare", features="pair")  # fmt: skip
    found = model.predict(pd.DataFrame({"pair": [[1.0, 2.0], None]}))
    np.testing.assert_array_equal(np.isnan(found), [False, True])
    with pytest.raises(DataError, match="row 1 of X has 3 features, the model has 2"):
        model.predict(pd.DataFrame({"pair": [[1.0, 2.0], [1.0, 2.0, 3.0]]}))
    with pytest.raises(DataError, match="X is no array of numbers"):
        model.predict(pd.DataFrame({"pair": ["ab", "cd"]}))
    with pytest.raises(DataError, match=r"no column 'pair\[1\]': .* a column 'pair' of arrays"):
        model.predict(pd.DataFrame({"delay": [1.0]}))


def test_mlflow_s_folder_holds_no_pickle(trips, mlflow, tmp_path: Path) -> None:
    model, frame = fitted(trips, "logistic", "late")
    save_model(model, tmp_path / "saved", input_example=frame.head(2))
    files = [path for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} <= {".json", ".txt", ".yaml", ".yml", ""}
    for path in files:
        text = path.read_text()  # all of it is text
        assert "cloudpickle" not in text, path
        assert "python_model" not in text, path
    signature = mlflow.models.get_model_info(str(tmp_path / "saved")).signature
    assert signature.inputs.input_names() == FEATURES


def test_a_model_is_logged_to_a_run(trips, mlflow, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny has no database
    model, frame = fitted(trips, "linear", "fare")
    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    with mlflow.start_run():
        info = log_model(model)
    found = mlflow.pyfunc.load_model(info.model_uri).predict(frame)
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-12)
    assert load_model(info.model_uri) == model


def test_a_damaged_folder_is_refused(trips, mlflow, tmp_path: Path) -> None:
    model, frame = fitted(trips, "linear", "fare")
    save_model(model, tmp_path / "saved")
    file = tmp_path / "saved" / "data" / "model.json"
    file.write_text(file.read_text().replace('"n_rows": 300', '"n_rows": 301'))
    with pytest.raises(DataError, match="damaged"):
        load_model(tmp_path / "saved")
    file.unlink()
    with pytest.raises(DataError, match="was not saved by tuskml"):
        load_model(tmp_path / "saved")
    with pytest.raises(DataError, match="kind is 'proba', expected"):
        ModelWrapper(model).predict(frame, {"kind": "proba"})


def test_what_cannot_be_exported_is_said(trips, mlflow, tmp_path: Path, monkeypatch) -> None:
    model, _ = fitted(trips, "linear", "fare")
    stored = replace(model, coef=None, store="ads@1")
    with pytest.raises(DataError, match="lie in the store"):
        to_onnx(stored)
    with pytest.raises(DataError, match="lie in the store"):
        save_model(stored, tmp_path / "saved")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(TuskError, match="pip install 'tuskml\\[onnx\\]'"):
        to_onnx(model)
    monkeypatch.setitem(sys.modules, "mlflow.pyfunc", None)
    with pytest.raises(TuskError, match="pip install 'tuskml\\[mlflow\\]'"):
        save_model(model, tmp_path / "saved")
