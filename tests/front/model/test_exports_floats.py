"""ONNX graphs of floats, and of pipelines of scikit-learn."""

from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from tuskml import DataError, OptionError, estimators, train
from tuskml.estimators import (
    TuskBoostedClassifier,
    TuskClassifier,
    TuskNetRegressor,
    TuskRegressor,
)
from tuskml.export_onnx import save_onnx, to_onnx

ESTIMATORS = [
    estimators.TuskRegressor(),
    estimators.TuskClassifier(l2=0.1),
    estimators.TuskGLMRegressor("gamma"),
    estimators.TuskBoostedRegressor(trees=30),
    estimators.TuskBoostedClassifier(trees=10),
    estimators.TuskForestClassifier(trees=10),
    estimators.TuskNetClassifier(layers=[8], max_iter=20),
    estimators.TuskNetRegressor(layers=[8], max_iter=20, options={"activation": "gelu"}),
    estimators.TuskFMRegressor(rank=3),
]
"""One for each kind of graph."""


def data(n: int = 400) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Columns of numbers and text, positive numbers, and three classes."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=n),
            "b": 100 + 10 * rng.normal(size=n),
            "k": rng.choice(list("uvw"), n),
        }
    )
    y = np.exp(frame.a / 2 + (frame.k == "u") + 0.1 * rng.normal(size=n)).to_numpy()
    return frame, y, np.digitize(y, [0.8, 1.6])


def run(graph: Any, given: dict[str, Any]) -> dict[str, np.ndarray]:
    """The outputs of a graph by name."""
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, given), strict=True))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda one: type(one).__name__)
def test_floats_answer_as_doubles(estimator: Any) -> None:
    """Trees send each float where doubles do, also one at a threshold; sums are rounded."""
    frame, y, classes = data()
    X = frame[["a", "b"]].to_numpy(np.float32).round(2)
    fitted = estimator.fit(X, classes if "Classifier" in type(estimator).__name__ else y)
    graph = to_onnx(fitted, precision="float32")
    assert {one.data_type for one in graph.graph.initializer} <= {1, 7}
    singles = run(graph, {"features": X})
    doubles = run(to_onnx(fitted), {"features": X.astype(float)})
    assert singles.keys() == doubles.keys()
    for name, values in singles.items():
        assert values.dtype == np.float32
        if name == "prediction" and "Classifier" in type(estimator).__name__:
            assert (values == doubles[name]).mean() > 0.99  # but for ties
            continue
        scale = np.abs(doubles[name]).max()
        np.testing.assert_allclose(values, doubles[name], rtol=1e-4, atol=2e-5 * scale)


def test_floats_of_columns_and_what_they_cannot_hold(con: Any) -> None:
    frame, y, _ = data()
    frame["t"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(len(frame)), unit="h")
    rows = frame.assign(y=y)
    model = train(con, "linear", source=rows, label="y", features=["a", "k"])
    given = {"a": frame.a.to_numpy(np.float32), "k": frame.k.to_numpy(object)}
    found = run(to_onnx(model, precision="float32"), given)["prediction"]
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-4)
    of_times = train(con, "linear", source=rows, label="y", features=["a", "t"], dates="parts")
    with pytest.raises(DataError, match="reads parts of times, which floats cannot tell apart"):
        to_onnx(of_times, precision="float32")
    large = train(con, "linear", source=rows.assign(y=1e60 * y), label="y", features=["a"])
    with pytest.raises(DataError, match=r"has the number .*e\+60, which floats cannot hold"):
        to_onnx(large, precision="float32")
    with pytest.raises(OptionError, match="precision is 'half', expected 'float64' or 'float32'"):
        to_onnx(model, precision="half")
    with pytest.raises(DataError, match="rows are for a Pipeline"):
        to_onnx(model, rows=frame)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    ("steps", "last"),
    [
        ([StandardScaler()], TuskRegressor()),
        ([StandardScaler(), PCA(2)], TuskNetRegressor(layers=[4], max_iter=20)),
        ([StandardScaler()], TuskBoostedClassifier(trees=5)),
        ([], TuskRegressor()),
    ],
)
def test_a_pipeline_is_one_graph(
    steps: list[Any], last: Any, precision: Any, tmp_path: Any
) -> None:
    frame, y, classes = data()
    X = frame[["a", "b"]].to_numpy()
    fitted = make_pipeline(*steps, last).fit(X, classes if "Class" in str(last) else y)
    graph = to_onnx(fitted, precision=precision)
    assert [one.name for one in graph.graph.input] == ["features"]
    assert {one.key for one in graph.metadata_props} >= {"task", "status"}
    found = run(graph, {"features": X.astype(precision)})
    assert found["prediction"].dtype == precision
    if hasattr(fitted, "predict_proba"):
        close = np.isclose(found["probability"], fitted.predict_proba(X), rtol=1e-4, atol=1e-6)
        assert close.mean() > (0.99 if precision == "float32" else 0.9999)
    else:
        tolerance = 1e-9 if precision == "float64" else 1e-4
        np.testing.assert_allclose(found["prediction"], fitted.predict(X), rtol=tolerance)
    save_onnx(fitted, tmp_path / "graph.onnx", precision=precision)
    assert (tmp_path / "graph.onnx").read_bytes() == graph.SerializeToString()


def test_a_pipeline_of_columns_reads_them_by_name() -> None:
    frame, _, classes = data()
    frame.loc[::7, "a"] = np.nan
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
            ("text", OneHotEncoder(sparse_output=False), ["k"]),
        ]
    )
    fitted = make_pipeline(columns, TuskClassifier(l2=0.01)).fit(frame, classes)
    graph = to_onnx(fitted, rows=frame, precision="float32")  # which onnxruntime's Imputer needs
    given = {name: frame[[name]].to_numpy(np.float32) for name in "ab"}
    found = run(graph, given | {"k": frame[["k"]].to_numpy(object)})
    np.testing.assert_allclose(
        found["probability"], fitted.predict_proba(frame), rtol=1e-3, atol=1e-5
    )
    assert (found["prediction"] == fitted.predict(frame)).mean() > 0.99


def test_pipelines_that_cannot_be_exported_are_refused() -> None:
    frame, y, _ = data()
    by_name = make_pipeline(FunctionTransformer(), TuskRegressor()).fit(frame[["a", "k"]], y)
    with pytest.raises(DataError, match=r"last step .* was fitted on columns of text"):
        to_onnx(by_name, rows=frame)
    unknown = make_pipeline(FunctionTransformer(np.sin), TuskRegressor()).fit(frame[["a"]], y)
    with pytest.raises(DataError, match="skl2onnx cannot convert the steps before the model"):
        to_onnx(unknown)
