"""Registered estimators predict by SQL as they do themselves."""

# ruff: noqa: E501, SQL is read better on one line

import json
from pathlib import Path
from typing import Any

import duckdb
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, linear_model, svm, tree
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

import tuskml
from tuskml.own.boosters import of_json
from tuskml.own.nodes import below, up_to

X = "[a, b, c]"
FOREST = ensemble.RandomForestClassifier(10, max_depth=4, random_state=0)
NUMBERS = [
    linear_model.LinearRegression(),
    linear_model.ElasticNet(alpha=0.1),
    linear_model.HuberRegressor(),
    tree.DecisionTreeRegressor(max_depth=5, random_state=0),
    ensemble.RandomForestRegressor(10, max_leaf_nodes=9, random_state=0),
    ensemble.GradientBoostingRegressor(n_estimators=10, random_state=0),
    ensemble.HistGradientBoostingRegressor(max_iter=10, random_state=0),
    MLPRegressor(hidden_layer_sizes=[6, 5], activation="logistic", max_iter=9, random_state=0),
    MLPRegressor(hidden_layer_sizes=[6], activation="identity", max_iter=9, random_state=0),
    lgb.LGBMRegressor(n_estimators=10, num_leaves=7, verbosity=-1),
    make_pipeline(StandardScaler(), linear_model.Ridge()),
    make_pipeline(RobustScaler(), PCA(2, whiten=True), linear_model.Ridge()),
    make_pipeline(
        MinMaxScaler(), MLPRegressor(hidden_layer_sizes=[6], max_iter=9, random_state=0)
    ),
]
COUNTS = [
    linear_model.PoissonRegressor(),
    linear_model.TweedieRegressor(power=1.5),
    ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=10, random_state=0),
    lgb.LGBMRegressor(objective="poisson", n_estimators=10, num_leaves=7, verbosity=-1),
    MultinomialNB(),
]
CLASSES = [
    linear_model.LogisticRegression(max_iter=500),
    LinearDiscriminantAnalysis(),
    tree.DecisionTreeClassifier(max_depth=5, random_state=0),
    FOREST,
    ensemble.GradientBoostingClassifier(n_estimators=5, random_state=0),
    ensemble.HistGradientBoostingClassifier(max_iter=5, random_state=0),
    MLPClassifier(hidden_layer_sizes=[6], max_iter=9, random_state=0),
    lgb.LGBMClassifier(n_estimators=5, num_leaves=7, verbosity=-1),
    make_pipeline(StandardScaler(), linear_model.LogisticRegression()),
]
OF_TWO = [
    svm.LinearSVC(),
    linear_model.RidgeClassifier(),
    ensemble.GradientBoostingClassifier(loss="exponential", n_estimators=5, random_state=0),
]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """300 rows, with labels of each kind."""
    random = np.random.default_rng(0)
    a, b, c = random.normal(size=(3, 300)) * [[1.0], [3.0], [0.5]]
    y = 2 * a + np.sin(b) + 0.3 * random.normal(size=300)
    counts = abs(y).round()
    return pd.DataFrame(
        {"a": abs(a), "b": abs(b) + 1, "c": abs(c), "y": y, "n": counts}
        | {"two": (y > 0) * 1, "three": np.digitize(y, [-1, 1]) * 2}
    )


@pytest.fixture
def rows(con: duckdb.DuckDBPyConnection, frame: pd.DataFrame) -> duckdb.DuckDBPyConnection:
    con.register("shown", frame)
    con.execute("CREATE TABLE t AS FROM shown")
    con.unregister("shown")
    return con


def predicted(
    rows: duckdb.DuckDBPyConnection, estimator: Any, label: str, function: str
) -> list[Any]:
    """What SQL's function answers for each row, by a model that the estimator trained."""
    tuskml.register_learner("own", estimator)
    rows.execute(
        f"CREATE OR REPLACE TABLE m AS SELECT train_model('own', {label}, {X}) AS m FROM t"
    )
    found = rows.execute("SELECT m.status, m.plan FROM m").fetchall()
    assert found[0][0] in ("ok", "not converged"), found
    answers = rows.execute(f"SELECT {function}(m, {X}) FROM m, t").fetchall()
    return [answer for (answer,) in answers]


def named(one: Any) -> str:
    return type(one[-1] if hasattr(one, "steps") else one).__name__


@pytest.mark.parametrize("estimator", NUMBERS, ids=named)
def test_numbers(rows: duckdb.DuckDBPyConnection, frame: pd.DataFrame, estimator: Any) -> None:
    x = frame[["a", "b", "c"]].to_numpy()
    peer = clone(estimator).fit(x, frame["y"].to_numpy())
    found = predicted(rows, estimator, "y", "predict")
    np.testing.assert_allclose(found, peer.predict(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("estimator", COUNTS, ids=named)
def test_counts(rows: duckdb.DuckDBPyConnection, frame: pd.DataFrame, estimator: Any) -> None:
    x = frame[["a", "b", "c"]].to_numpy()
    peer = clone(estimator).fit(x, frame["n"].to_numpy())
    found = predicted(rows, estimator, "n", "predict")
    np.testing.assert_allclose(found, peer.predict(x), rtol=1e-9)


@pytest.mark.parametrize("label", ["two", "three"])
@pytest.mark.parametrize("estimator", CLASSES, ids=named)
def test_classes(
    rows: duckdb.DuckDBPyConnection, frame: pd.DataFrame, estimator: Any, label: str
) -> None:
    x = frame[["a", "b", "c"]].to_numpy()
    peer = clone(estimator).fit(x, frame[label].to_numpy())
    shares = predicted(rows, estimator, label, "predict_probas")
    found = np.array([list(one.values()) for one in shares])
    np.testing.assert_allclose(found, peer.predict_proba(x), atol=1e-9)
    answers = rows.execute(f"SELECT predict(m, {X}) FROM m, t").fetchall()
    assert [one for (one,) in answers] == peer.predict(x).tolist()


@pytest.mark.parametrize("estimator", OF_TWO, ids=named)
def test_two_classes(rows: duckdb.DuckDBPyConnection, frame: pd.DataFrame, estimator: Any) -> None:
    x = frame[["a", "b", "c"]].to_numpy()
    peer = clone(estimator).fit(x, frame["two"].to_numpy())
    assert predicted(rows, estimator, "two", "predict") == peer.predict(x).tolist()


def test_a_tie_of_votes_is_the_lower_class(
    rows: duckdb.DuckDBPyConnection, frame: pd.DataFrame
) -> None:
    """Trees that are grown in full have whole votes, and ten of them are tied in some rows."""
    forest = ensemble.RandomForestClassifier(10, max_features=1, random_state=1)
    x = frame[["a", "b", "c"]].to_numpy()
    rows.execute(
        "CREATE TABLE far AS SELECT sin(i) AS a, 3 * cos(i) AS b, sin(3 * i) AS c FROM range(500) r(i)"
    )
    far = rows.execute("SELECT a, b, c FROM far").fetch_df().to_numpy()
    peer = clone(forest).fit(x, frame["two"].to_numpy())
    assert (peer.predict_proba(far)[:, 0] == 0.5).any()
    predicted(rows, forest, "two", "predict")
    found = rows.execute(f"SELECT predict(m, {X}) FROM m, far").fetchall()
    assert [one for (one,) in found] == peer.predict(far).tolist()


def test_thresholds_of_floats_hold_for_doubles() -> None:
    """A double goes left as the float that it is rounded to does, next to the threshold too."""
    random = np.random.default_rng(0)
    at = np.concatenate([random.normal(size=99), [0.0, 1.0, -2.0]]).astype(np.float32)
    for threshold, rounded in ((up_to(at + 1e-9), at + 1e-9), (below(at), None)):
        for near in (threshold, np.nextafter(threshold, np.inf), np.nextafter(threshold, -np.inf)):
            single = near.astype(np.float32)
            left = single < at if rounded is None else single.astype(float) <= rounded
            np.testing.assert_array_equal(near <= threshold, left)


KEPT = json.loads(Path(__file__).with_name("xgboost_models.json").read_text())
"""Models of XGBoost 3.2.0, rows, and what it predicts of these: `scripts/tests/xgboost_models.py`."""


@pytest.mark.parametrize("name", KEPT["models"])
def test_xgboost(rows: duckdb.DuckDBPyConnection, name: str) -> None:
    """Its sums are floats; rows lie at its thresholds too, which floats of doubles decide."""
    one = KEPT["models"][name]

    def fit(x: Any, y: Any) -> tuskml.Model:
        found = of_json(json.dumps(one["model"]))
        kinds = [float(k) for k in range(len(one["classes"]))] or None
        intercept = None if np.isnan(found.intercept) else found.intercept
        about = {"coef": found.coef.tolist(), "intercept": intercept, "classes": kinds}
        return made_model(found.task, found.options, **about)

    labels = "classes" if one["classes"] else "numbers"
    tuskml.register_learner("own", fit=fit, labels=labels)
    rows.execute(
        f"CREATE TABLE m AS SELECT train_model('own', {'three' if len(one['classes']) > 2 else 'two'}, {X}) AS m FROM t"
    )
    assert rows.execute("SELECT m.status FROM m").fetchall() == [("ok",)]
    function = "predict_probas" if one["classes"] else "predict"
    for row, expected in zip(KEPT["rows"], one["predicted"], strict=True):
        (found,) = (
            rows.execute(f"SELECT {function}(m, ?::DOUBLE[]) FROM m", [row]).fetchone() or ()
        )
        answer = list(found.values()) if one["classes"] else found
        np.testing.assert_allclose(answer, expected, rtol=1e-6, atol=1e-6)


def made_model(task: str, options: dict[str, Any], **given: Any) -> tuskml.Model:
    """A model with these fields."""
    usual: dict[str, Any] = {"std_err": None, "n_rows": 0, "n_skipped": 0, "n_features": 3}
    usual |= {"loss": 0.0, "history": None, "iterations": 1, "converged": True, "status": "ok"}
    usual |= {"plan": "", "seconds": 0.0, "store": None}
    return tuskml.Model(task=task, options={"tuskml": 1} | options, **usual | given)


@pytest.mark.parametrize("kind", ["XGBRegressor", "XGBClassifier"])
def test_xgboost_itself(rows: duckdb.DuckDBPyConnection, frame: pd.DataFrame, kind: str) -> None:
    xgboost = pytest.importorskip("xgboost")
    label = "y" if kind == "XGBRegressor" else "three"
    estimator = getattr(xgboost, kind)(n_estimators=5, max_depth=3)
    x = frame[["a", "b", "c"]].to_numpy()
    encoded = frame[label] if label == "y" else frame[label] // 2
    peer = clone(estimator).fit(x, encoded.to_numpy())
    found = predicted(rows, estimator, label, "predict")
    expected = peer.predict(x) if label == "y" else peer.predict(x) * 2
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
