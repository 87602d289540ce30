"""The estimators of trees: scikit-learn's own checks, its scores, gaps, weights, categories."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

from tuskml import OptionError, connect, train
from tuskml.estimators import (
    TuskBoostedClassifier,
    TuskBoostedRegressor,
    TuskForestClassifier,
    TuskForestRegressor,
    model_of,
)

CLASSIFIERS = [
    (TuskBoostedClassifier, HistGradientBoostingClassifier),
    (TuskForestClassifier, RandomForestClassifier),
]
REGRESSORS = [
    (TuskBoostedRegressor, HistGradientBoostingRegressor),
    (TuskForestRegressor, RandomForestRegressor),
]
ALL = [ours for ours, _ in CLASSIFIERS + REGRESSORS]


REPEATED = "check_sample_weight_equivalence_on_dense_data"


def known(estimator: Any) -> dict[str, str]:
    """What does not hold of random forests, scikit-learn's included, and of boosted trees, whose
    leaves have their least rows by number as LightGBM's do.
    """
    if "Forest" in type(estimator).__name__:
        return {REPEATED: "each row is drawn anew, whether it is repeated or weighs more"}
    return {REPEATED: "leaves and bins have their least rows, whatever rows weigh"}


@pytest.mark.sample(18)
@parametrize_with_checks(
    [one(trees=20, options={"threads": 1}) for one in ALL], expected_failed_checks=known
)
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer rows than two leaves have
        check(estimator)


@pytest.mark.nightly
@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
@pytest.mark.parametrize(("ours", "peer"), CLASSIFIERS)
def test_classes_are_told_as_well_as_by_scikit_learn_s_trees(
    ours: Any, peer: Any, load: Any
) -> None:
    X, y = load(return_X_y=True)
    train_X, test, train_y, test_y = train_test_split(X[:500], y[:500], random_state=0)
    model = ours(trees=30, random_state=1).fit(train_X, train_y)
    other = peer(random_state=1).fit(train_X, train_y)
    assert model.score(test, test_y) > other.score(test, test_y) - 0.03
    p = model.predict_proba(test)
    assert p.shape == (len(test), len(model.classes_))
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-12)
    assert model.n_iter_ == 30


@pytest.mark.parametrize(("ours", "peer"), REGRESSORS)
def test_numbers_are_told_as_well_as_by_scikit_learn_s_trees(ours: Any, peer: Any) -> None:
    X, y = load_diabetes(return_X_y=True)
    train_X, test, train_y, test_y = train_test_split(X, y, random_state=0)
    model = ours(random_state=1).fit(train_X, train_y)
    assert (
        model.score(test, test_y)
        > peer(random_state=1).fit(train_X, train_y).score(test, test_y) - 0.05
    )


@pytest.mark.parametrize("ours", ALL)
def test_the_model_is_that_of_sql(ours: Any) -> None:
    X, y = load_diabetes(return_X_y=True)
    y = np.where(y > 140, 1.0, 0.0) if "Classifier" in ours.__name__ else y
    estimator = ours(trees=15, random_state=3).fit(X, y)
    rows = pd.DataFrame({"x": list(X), "y": y})
    given = estimator._settings()
    if "Classifier" in ours.__name__:
        given["objective"] = ours.objective
    with connect() as con:
        con.register("rows_", rows)
        model = train(con, ours.task, source="rows_", label="y", features="x", **given)
    assert model_of(estimator).coef == model.coef
    assert len(model.coef) > 100


@pytest.mark.parametrize("ours", ALL)
def test_missing_values_have_a_side(ours: Any) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 3))
    X[rng.random(600) < 0.3, 0] = np.nan
    y = np.where(np.isnan(X[:, 0]), 1.0, 0.0)  # what a constant for NaN would hide
    y = np.where(y == 1, "gap", "number") if "Classifier" in ours.__name__ else y
    for dtype in (np.float64, np.float32):
        estimator = ours(trees=60).fit(X[:400].astype(dtype), y[:400])
        assert estimator.score(X[400:].astype(dtype), y[400:]) > 0.95
    assert estimator.feature_importances_.argmax() == 0


@pytest.mark.parametrize("ours", ALL)
def test_a_row_of_weight_zero_says_nothing(ours: Any) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(500, 2))
    truth = np.where(X[:, 0] > 0, 1, 0)
    weight = (np.arange(500) % 2).astype(float)
    y = np.where(weight > 0, truth, 1 - truth)  # rows of weight zero say the opposite
    estimator = ours(trees=40).fit(X, y, sample_weight=weight)
    told = estimator.predict(X)
    assert np.mean((told > 0.5) == truth) > 0.97
    lost = ours(trees=40).fit(X, y).predict(X)
    assert np.mean((lost > 0.5) == truth) < 0.8


@pytest.mark.parametrize("ours", ALL)
def test_importances_are_shares_of_gains(ours: Any) -> None:
    rng = np.random.default_rng(7)
    X = rng.normal(size=(500, 4))
    y = np.where(X[:, 2] > 0, 1, 0)
    shares = ours(trees=10).fit(X, y).feature_importances_
    assert shares.shape == (4,)
    assert shares.sum() == pytest.approx(1)
    assert shares.argmax() == 2
    flat = TuskBoostedRegressor().fit(X, np.ones(500))
    assert flat.feature_importances_.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("ours", [TuskBoostedClassifier, TuskForestClassifier])
def test_categories_of_a_frame(ours: Any) -> None:
    n = np.arange(1500)
    frame = pd.DataFrame({"k": [f"k{i % 6}" for i in n], "x": (n * 7919) % 1009 / 1009})
    y = np.where((n % 6 > 2) == (frame["x"] > 0.5), "up", "down")
    told = ours(trees=60).fit(frame, y)
    assert told.score(frame, y) > 0.98
    assert told.feature_importances_.shape == (2,)
    assert '"k5"' in told.models_[0].preparation


def test_other_options_and_names() -> None:
    X, y = load_diabetes(return_X_y=True)
    high = TuskBoostedRegressor(options={"objective": "quantile", "quantile": 0.9}).fit(X, y)
    assert np.mean(y < high.predict(X)) == pytest.approx(0.9, abs=0.05)
    early = TuskBoostedRegressor(trees=500, validation=0.2, learning_rate=0.3).fit(X, y)
    assert 0 < early.n_iter_ < 500
    with pytest.raises(OptionError, match="has no parameter 'n_leaves'"):
        TuskBoostedRegressor(n_leaves=3)
    with pytest.warns(ConvergenceWarning, match="'too few rows': there are fewer than two leaves"):
        TuskBoostedRegressor().fit(X[:5], y[:5])
    with pytest.raises(ValueError, match="y has one class, 'a', expected two classes or more"):
        TuskForestClassifier().fit(X, ["a"] * len(y))
