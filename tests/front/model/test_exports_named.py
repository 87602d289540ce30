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
        {"missing": "level", "levels": {"c": ["z", "b", "a"]}, "l2": 0.01},
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


def test_hashed_words_are_refused(con: Any) -> None:
    model = fitted(con, "linear", "y", text=["c"])
    with pytest.raises(DataError, match="the model counts hashed words of 'c', and ONNX has no"):
        to_onnx(model)


DERIVED: list[dict[str, Any]] = [
    {"interactions": [["x", "c"]]},
    {"interactions": [["c", "k"]], "categories": ["k"], "missing": "level"},
    {"interactions": [["x", "c", "k"]], "categories": ["k"], "missing": "impute", "l2": 0.01},
    {"dates": "parts", "missing": "impute"},
    {"dates": "parts", "missing": "level", "interactions": [["c", "d.hour"]], "l2": 0.01},
    {"dates": "cycles"},
    {"dates": "cycles", "missing": "impute", "interactions": [["c", "d.hour"], ["x", "d.month"]]},
    {"max_categories": 2, "missing": "level", "interactions": [["c", "x"]], "l2": 0.01},
]
TIMES = [
    "1969-12-31 23:59:59.999999", "1970-01-01", "2000-02-29 12:00:00", "2021-12-31 23:30:00",
    "1900-03-01", "2100-02-28 05:59:59.9999995", "0001-01-01", "2024-06-30 18:00:00",
]  # fmt: skip
MODELS: list[tuple[str, str, dict[str, Any]]] = [
    ("linear", "y", {}),
    ("logistic", "late", {}),
    ("logistic", "grade", {}),
    ("poisson", "count", {}),
    ("gbdt", "y", {"trees": 12}),
    ("gbdt", "grade", {"objective": "logistic", "trees": 5}),
    ("mlp", "y", {"max_iter": 3, "layers": [4]}),
    (
        "mlp",
        "grade",
        {"objective": "logistic", "max_iter": 3, "layers": [4]},
    ),
]


def dated(n: int = 600) -> pd.DataFrame:
    """Rows with times, some of them missing, and labels of several kinds."""
    rng = np.random.default_rng(5)
    hours = rng.integers(0, 24 * 900, n)
    frame = rows(n).assign(
        d=pd.Timestamp("2019-11-03").to_datetime64() + hours.astype("m8[h]").astype("m8[us]"),
        grade=rng.choice(["high", "low", "middle"], n),
        count=rng.poisson(2, n),
    )
    frame["d"] = frame.d.where(rng.random(n) > 0.1, pd.NaT)
    return frame


def asked() -> pd.DataFrame:
    """Rows of the training, levels that it had not, and times at the ends of days and ages."""
    more = dated(len(TIMES)).assign(k=3, c="rare", d=np.array(TIMES, "M8[us]"))
    return pd.concat([dated(300), more.assign(c="a", k=2, x=0.5), more], ignore_index=True)


def outputs_of(model: Model, frame: pd.DataFrame) -> dict[str, Any]:
    """What the graph answers, by output; times are days, missing text is ""."""
    runtime = pytest.importorskip("onnxruntime")
    graph = to_onnx(model).SerializeToString()
    session = runtime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    days = (frame.d.to_numpy("M8[us]") - np.datetime64(0, "D")) / np.timedelta64(1, "D")
    known = {"x": frame.x.to_numpy(float), "c": np.array(frame.c.fillna(""), object)}
    known |= {"k": frame.k.to_numpy(float), "d": days.astype(float)}
    given = {one.name: known[one.name] for one in session.get_inputs()}
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


@pytest.mark.sample(8)
@pytest.mark.parametrize("options", DERIVED, ids=range(len(DERIVED)))
@pytest.mark.parametrize(("task", "label", "more"), MODELS)
def test_graphs_of_all_models_prepare_the_rows(
    con: Any, task: str, label: str, more: dict[str, Any], options: dict[str, Any]
) -> None:
    """Parts of dates, interactions, gaps and unknown levels, for models of every learner."""
    penalties = {} if task in ("linear", "logistic", "poisson") else {"l2"}
    given = {name: value for name, value in options.items() if name not in penalties} | more
    con.register("seen", dated())
    con.execute("CREATE TABLE t AS SELECT * REPLACE (nullif(x, 'nan') AS x) FROM seen")
    source = "SELECT * FROM t WHERE c IS NULL OR c <> 'rare'"
    model = train(con, task, source=source, label=label, features=["x", "c", "k", "d"], **given)
    frame = asked()
    found = outputs_of(model, frame)
    if model.many_classes:
        names = ["" if name is None else name for name in model.predict(frame)]
        np.testing.assert_array_equal(found.pop("prediction"), names)
        expected = {"probability": model.predict_probas(frame)}
    else:
        expected = {name: getattr(model, OUTPUTS[name])(frame) for name in found}
    assert np.isfinite(next(iter(found.values()))).any()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-9, atol=1e-9)


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
    assert {one.name: getattr(one.type, "name", "Any") for one in inputs.inputs} == {
        "x": "Any", "c": "Any", "k": "Any", "d": "datetime",
    }  # fmt: skip
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    asked = frame[["d", "c", "k", "x"]].assign(extra=1)
    assert asked.k.dtype.kind == "i"
    assert served.predict(asked) == pytest.approx(model.predict(frame))
    asked["c"] = asked.c.astype("category")
    assert served.predict(asked) == pytest.approx(model.predict(frame))
    with pytest.raises(mlflow.exceptions.MlflowException, match=r"missing inputs \['c'\]"):
        served.predict(asked.drop(columns="c"))
    assert load_model(tmp_path / "saved").predict(frame) == pytest.approx(model.predict(frame))


@pytest.mark.parametrize(("task", "label", "more"), [MODELS[2], MODELS[5], MODELS[7]])
def test_mlflow_serves_classes_of_every_learner(
    con: Any, tmp_path: Path, task: str, label: str, more: dict[str, Any]
) -> None:
    mlflow = pytest.importorskip("mlflow")
    from tuskml.export_mlflow import save_model

    con.register("seen", dated().dropna())
    given = {"label": label, "features": ["x", "c", "k", "d"], "dates": "parts"} | more
    model = train(con, task, source="SELECT * FROM seen", **given)
    save_model(model, tmp_path / "saved")
    served = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    frame = dated(50).dropna()[["d", "c", "k", "x"]]
    found = served.predict(frame, params={"kind": "predict_class"})
    assert list(found) == list(model.predict_class(frame))
    assert set(found) <= {"high", "low", "middle"}
    probabilities = served.predict(frame, params={"kind": "predict_probas"})
    np.testing.assert_array_equal(probabilities, model.predict_probas(frame))
