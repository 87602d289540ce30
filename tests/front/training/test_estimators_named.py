"""Estimators on frames with text, categories and times."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from tuskml.errors import DataError
from tuskml.estimators import TuskClassifier, TuskRegressor
from tuskml.export_onnx import to_onnx

L2 = 0.01


def rows(n: int = 500) -> pd.DataFrame:
    """A number, text, a category of numbers and a boolean."""
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "x of it": rng.normal(size=n),
            "text": rng.choice(["a", "b", "ü"], n),
            "code": pd.Categorical(rng.choice([3, 10, 20], n)),
            "flag": rng.random(n) < 0.4,
        }
    )


def labels(frame: pd.DataFrame) -> np.ndarray:
    noise = np.random.default_rng(4).normal(size=len(frame))
    return np.asarray(
        frame["x of it"] + (frame.text == "b") - (frame.code == 10) + 0.5 * frame.flag + noise
    )


def coded() -> ColumnTransformer:
    return ColumnTransformer(
        [
            ("number", "passthrough", ["x of it"]),
            ("category", OneHotEncoder(handle_unknown="ignore"), ["text", "code", "flag"]),
        ]
    )


def test_a_regression_is_that_of_a_pipeline() -> None:
    frame = rows()
    y = labels(frame)
    found = TuskRegressor(l2=L2, epsilon=1e-12).fit(frame, y)
    truth = make_pipeline(coded(), Ridge(alpha=L2 * len(y), tol=1e-12)).fit(frame, y)
    assert found.feature_names_in_.tolist() == list(frame.columns)
    assert found.models_[0].feature_names[:2] == ("x of it", "text[a]")
    assert found.predict(frame) == pytest.approx(truth.predict(frame), abs=1e-6)
    new = frame.head(3).assign(text="new")
    assert found.predict(new) == pytest.approx(truth.predict(new), abs=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_a_classifier_is_that_of_a_pipeline(k: int) -> None:
    frame = rows()
    y = np.array(["low", "middle", "high"])[
        np.digitize(labels(frame), [0.0, 9.0 if k == 2 else 1.0])
    ]
    found = TuskClassifier(l2=L2, epsilon=1e-10).fit(frame, y)
    assert found.predict_proba(frame).shape == (len(y), k)
    assert (found.predict(frame) == y).mean() > 0.55
    if k == 2:
        peer = LogisticRegression(C=1 / (L2 * len(y)), tol=1e-10, max_iter=5000)
        truth = make_pipeline(coded(), peer).fit(frame, y)
        assert found.predict_proba(frame) == pytest.approx(truth.predict_proba(frame), abs=1e-4)
        assert [one.name for one in to_onnx(found).graph.input] == list(frame.columns)


def test_options_of_columns_and_selection_work() -> None:
    frame = rows().assign(when=pd.Timestamp("2022-03-01") + pd.to_timedelta(range(500), "h"))
    options = {"dates": "cycles", "interactions": [["text", "code"]], "missing": "impute"}
    frame.loc[::9, "text"] = None
    model = TuskRegressor(l2=L2, options=options)
    scores = cross_val_score(model, frame, labels(frame))
    assert scores.shape == (5,)
    assert (scores > 0.2).all()


def test_a_frame_without_a_column_is_refused() -> None:
    frame = rows()
    fitted = TuskRegressor(l2=L2).fit(frame, labels(frame))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame.drop(columns="text"))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("made", ["zone", "period"])
def test_times_with_a_zone_and_periods(made: str) -> None:
    """Days of UTC, or of the beginnings of the periods, in training and in prediction."""
    frame = rows(400)
    zoned = pd.date_range("2021-03-27 20:00", periods=400, freq="h", tz="Europe/Berlin")
    when = zoned if made == "zone" else pd.period_range("2021-03", periods=400, freq="D")
    days = (
        when.tz_convert(None).to_numpy() if made == "zone" else when.to_timestamp().to_numpy()
    ) - np.datetime64("1970-01-01")
    frame["when"] = when
    y = days / np.timedelta64(1, "D")
    found = TuskRegressor(epsilon=1e-12).fit(frame, y)
    assert found.predict(frame) == pytest.approx(y, abs=1e-6)
    assert found.models_[0].feature_names[-1] == "when"


def test_a_column_of_several_types_is_refused() -> None:
    frame = rows(300).assign(mixed=[1, "a", None] * 100)
    with pytest.raises(DataError, match="'mixed' of X has values of several types, int, str"):
        TuskRegressor().fit(frame, np.arange(300.0))
