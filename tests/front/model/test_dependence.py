"""Permutation importance and partial dependence beside scikit-learn's."""

import json
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.inspection import partial_dependence, permutation_importance

from tuskml import DataError, Model


def rows(n: int = 1500) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    x = np.round(random.normal(size=(n, 3)), 2)
    return x, 3 * x[:, 0] + x[:, 1] ** 2


def trained(con: duckdb.DuckDBPyConnection, label: str = "y", **options: Any) -> Model:
    x, y = rows()
    con.execute(
        "CREATE OR REPLACE TABLE t AS SELECT unnest($x) AS x, unnest($y) AS y",
        {"x": x.tolist(), "y": y.tolist()},
    )
    given = json.dumps({"trees": 30} | options)
    return Model.of(
        con.execute(f"SELECT train_model('gbdt', {label}, x, '{given}') FROM t").fetchall()[0][0]
    )


class Peer(RegressorMixin, BaseEstimator):
    """A fitted estimator that predicts what a model does."""

    def __init__(self, model: Any = None) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> "Peer":
        self.fitted_ = True
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self.model.predict(np.asarray(X))


def test_dependence_is_scikit_learns(con: duckdb.DuckDBPyConnection) -> None:
    model, (x, y) = trained(con), rows()
    for feature in range(3):
        found = model.partial_dependence(x, feature, points=20)
        told = partial_dependence(
            Peer(model).fit(x, y),
            x,
            [feature],
            custom_values={feature: found.values},
            method="brute",
        )
        assert found.mean == pytest.approx(told["average"][0], rel=1e-12)
        assert found.feature == f"x{feature + 1}"


def test_importance_is_scikit_learns(con: duckdb.DuckDBPyConnection) -> None:
    """Means over many shuffles, which differ."""
    model, (x, y) = trained(con), rows()
    found = model.permutation_importance(x, y, repeats=20)
    told = permutation_importance(
        Peer(model).fit(x, y), x, y, n_repeats=20, random_state=0, scoring="neg_mean_squared_error"
    )
    assert found.mean == pytest.approx(told.importances_mean, rel=0.05, abs=0.01)
    assert found.loss == pytest.approx(np.mean((model.predict(x) - y) ** 2), rel=1e-12)
    assert found.features == ("x1", "x2", "x3")
    again = model.permutation_importance(x, y, repeats=20)
    assert (again.mean == found.mean).all()


@pytest.mark.nightly
@pytest.mark.parametrize("label", ["y > 1", "floor(y / 3)"])
def test_classes_have_the_log_loss(con: duckdb.DuckDBPyConnection, label: str) -> None:
    model, (x, y) = trained(con, label, objective="logistic"), rows()
    labels = y > 1 if label == "y > 1" else np.floor(y / 3)
    found = model.permutation_importance(x, labels, repeats=2)
    assert found.loss == pytest.approx(model.loss, rel=1e-9)
    assert found.mean.argmax() == 0
    assert model.partial_dependence(x, 0).mean.min() >= 0


def test_frames_with_categories(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(
        "CREATE TABLE n AS SELECT 'k' || (i % 4) AS k, i % 7 AS a, 5.0 * (i % 4) AS y "
        "FROM range(800) r(i)"
    )
    model = Model.of(
        con.execute(
            "SELECT train_model('gbdt', y, {'k': k, 'a': a}, '{\"trees\": 80}') FROM n"
        ).fetchall()[0][0]
    )
    frame = con.execute("SELECT k, a, y FROM n").df()
    X = pd.DataFrame(frame[["k", "a"]])
    found = model.partial_dependence(X, "k")
    assert dict(zip(found.values, found.mean, strict=True)) == pytest.approx(
        {"k0": 0, "k1": 5, "k2": 10, "k3": 15}, abs=0.1
    )
    told = model.permutation_importance(X, frame["y"])
    assert told.features == ("k", "a")
    assert told.mean[0] > 10
    assert told.mean[1] == pytest.approx(0, abs=1e-3)


def test_mistakes_have_a_sentence(con: duckdb.DuckDBPyConnection) -> None:
    model, (x, y) = trained(con), rows()
    with pytest.raises(DataError, match="X has no column 'x9', its columns are x1, x2, x3"):
        model.partial_dependence(x, "x9")
    with pytest.raises(DataError, match="X has 1500 rows and y 3, expected as many"):
        model.permutation_importance(x, y[:3])
    classes = trained(con, "y > 1", objective="logistic")
    with pytest.raises(DataError, match=r"label is 7.0, which is none of the classes"):
        classes.permutation_importance(x, np.full(len(y), 7.0))
