"""Exports of models of rows with names: graphs and MLflow prepare rows as the model does."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tuskml import DataError, Model, train
from tuskml.export_onnx import to_onnx

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"  # read when it is imported
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*input example was not provided"),
    pytest.mark.filterwarnings("ignore:Operation with range"),
]
FEATURES = ["x", "c", "k"]
OUTPUTS = {"prediction": "predict", "decision": "decision", "probability": "predict_proba"}


def rows(n: int = 600) -> pd.DataFrame:
    """Some x and c are missing."""
    rng = np.random.default_rng(11)
    seen = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "c": rng.choice(["a", "b", "Ünï", "long level of text", "rare"], n),
            "k": rng.choice([-1, 2, 10], n),
        }
    )
    seen["y"] = seen.x + (seen.c == "b") + (seen.k == 2) + rng.normal(size=n)
    seen["late"] = seen.y > 0.5
    seen.loc[rng.random(n) < 0.1, "x"] = np.nan
    seen["c"] = seen.c.where(rng.random(n) > 0.1, None)
    return seen


def fitted(con: Any, task: str, label: str, **options: Any) -> Model:
    con.register("seen", rows())
    con.execute("CREATE TABLE t AS SELECT * REPLACE (nullif(x, 'nan') AS x) FROM seen")
    source = "SELECT * FROM t WHERE c IS NULL OR c <> 'rare'"
    return train(con, task, source=source, label=label, features=FEATURES, **options)


def run_onnx(model: Model, frame: pd.DataFrame) -> dict[str, Any]:
    runtime = pytest.importorskip("onnxruntime")
    graph = to_onnx(model).SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    given = {"x": frame.x.to_numpy(float), "c": np.array(frame.c.fillna(""), object)}
    given["k"] = frame.k.to_numpy(float)
    names = [output.name for output in session.get_outputs()]
    assert [one.name for one in session.get_inputs()] == ["x", "c", "k"]
    return dict(zip(names, session.run(None, given), strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"categories": ["k"]},
        {"categories": ["k"], "missing": "impute", "l2": 0.01},
        {"categories": ["k"], "missing": "level"},
        {"missing": "level", "max_categories": 2},
        {"missing": "impute", "max_categories": 2, "l2": 0.01},
    ],
)
@pytest.mark.parametrize(("task", "label"), [("linear", "y"), ("logistic", "late")])
def test_onnx_prepares_the_rows(con: Any, task: str, label: str, options: dict[str, Any]) -> None:
    """Levels, unknown ones (`rare`, 3) and gaps weigh what they do in the model."""
    model = fitted(con, task, label, **options)
    frame = pd.concat([rows(), rows(20).assign(k=3)], ignore_index=True)
    for name, found in run_onnx(model, frame).items():
        expected = getattr(model, OUTPUTS[name])(frame)
        assert np.isnan(expected).any() == ("missing" not in options)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


def test_unknown_levels_that_are_refused_are_not_numbers(con: Any) -> None:
    model = fitted(con, "linear", "y", unseen="error", categories=["k"])
    frame = pd.DataFrame({"x": [0.0, 0.0, 0.0], "c": ["a", "rare", "a"], "k": [2, 2, 3]})
    assert np.isnan(run_onnx(model, frame)["prediction"]).tolist() == [False, True, True]


def test_what_graphs_do_not_derive_is_said(con: Any) -> None:
    model = fitted(con, "linear", "y", interactions=[["x", "c"]])
    with pytest.raises(DataError, match="the model derives 'x:c', which ONNX graphs here do not"):
        to_onnx(model)


def test_mlflow_serves_frames_of_text_and_dates(con: Any, tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    from tuskml.export_mlflow import load_model, save_model

    frame = (
        rows()
        .dropna()
        .assign(d=pd.Timestamp("2021-02-03") + pd.to_timedelta(range(len(rows().dropna())), "h"))
    )
    con.register("dated", frame)
    options = {
        "dates": "parts",
        "categories": ["k"],
        "l2": 0.01,
        "interactions": [["c", "d.hour"]],
    }
    given = {"label": "y", "features": ["x", "c", "k", "d"]}
    model = train(con, "linear", source="SELECT * FROM dated", **given, **options)
    save_model(model, tmp_path / "saved")
    inputs = mlflow.pyfunc.load_model(str(tmp_path / "saved")).metadata.get_input_schema()
    assert {one.name: one.type.name for one in inputs.inputs} == {
        "x": "double", "c": "string", "k": "double", "d": "datetime",
    }  # fmt: skip
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    asked = frame[["d", "c", "k", "x"]].assign(k=frame.k.astype(float))
    assert served.predict(asked) == pytest.approx(model.predict(frame))
    assert load_model(tmp_path / "saved").predict(frame) == pytest.approx(model.predict(frame))
