"""Fits of few dense features, from sums over rows, beside fits of the same rows by their columns.

A fit that is told which features are penalised together goes by columns, even if none are.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import block
from sklearn.linear_model import LassoCV
from sklearn.model_selection import PredefinedSplit

from tuskml.kernels.passes import Pass
from tuskml.kernels.paths import SQUARED, Rules, fit

pytestmark = pytest.mark.native


def paths(x, y, *, columns=False, weight=None, free=None, intercept=True, **how):
    """Points (k,) and weights (k, d) of one path."""
    rows = Pass(block(x, y, weight=weight), SQUARED, None, None, intercept, 2)
    given = {"length": 25, "alpha": 1.0, "tolerance": 1e-13, "max_epochs": 10**6, "ratio": 0.01}
    rules = Rules(SQUARED, **(given | how))
    alone = np.arange(x.shape[1], dtype=np.int32)[None] if columns else None
    points, weights = fit(rows, rules, free, 0, alone)
    coefs = [weights[0].dense(k, x.shape[1]) for k in range(rules.length)]
    return points[0], np.array(coefs)


def both(x, y, **how):
    """By sums and by columns."""
    return paths(x, y, **how), paths(x, y, columns=True, **how)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 10**6), n=st.integers(12, 90), d=st.integers(1, 12),
    alpha=st.sampled_from([1.0, 0.5]), folds=st.sampled_from([0, 2, 3, 7]),
    positive=st.booleans(), standardize=st.booleans(), intercept=st.booleans(),
    weighted=st.booleans(), unpenalized=st.integers(0, 2), scale=st.sampled_from([1.0, 1e-3, 1e5]),
)  # fmt: skip
def test_sums_and_columns_find_the_same(
    seed, n, d, alpha, folds, positive, standardize, intercept, weighted, unpenalized, scale
):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8) * scale
    x[:, 1:] += 0.6 * x[:, :-1]
    y = x[:, : 1 + d // 2].sum(axis=1) / scale + rng.normal(size=n) + 3
    free = np.zeros((1, d), np.uint8)
    free[0, : min(unpenalized, d - 1)] = 1
    weight = rng.uniform(0.1, 3, n) if weighted else None
    (found, coef), (other, other_coef) = both(
        x, y, alpha=alpha, folds=folds, positive=positive, standardize=standardize,
        intercept=intercept, weight=weight, free=free,
    )  # fmt: skip
    assert found["lambda"] == pytest.approx(other["lambda"], rel=1e-9)
    assert found["objective"] == pytest.approx(other["objective"], rel=1e-9)
    assert found["null"] == pytest.approx(other["null"], rel=1e-9)
    assert (found["gap"] <= 1e-13 * found["null"]).all()
    size = np.abs(other_coef).max() + 1e-9 / scale
    assert coef / size == pytest.approx(other_coef / size, abs=1e-4)
    assert found["intercept"] == pytest.approx(other["intercept"], abs=1e-3)
    if folds:
        assert found["held"] == pytest.approx(other["held"], rel=1e-3)
        assert found["held_error"] == pytest.approx(other["held_error"], rel=1e-2, abs=1e-6)


def test_collinear_columns_are_left_to_coordinate_descent():
    """The systems of equations have no single solution; the objective has one least value."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 6))
    x[:, 3], x[:, 5] = x[:, 0] + x[:, 1], x[:, 2]
    y = x.sum(axis=1) + rng.normal(size=60)
    (found, _), (other, _) = both(x, y, folds=3)
    assert found["objective"] == pytest.approx(other["objective"], rel=1e-10)
    assert found["held"] == pytest.approx(other["held"], rel=1e-4)


def test_losses_of_labels_without_noise_have_digits():
    """They fall with the square of the penalty, below what sums of squares of labels have."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 4)) + 100
    y = x @ [1.0, -2, 3, 0.5]
    points, _ = paths(x, y, folds=4, ratio=1e-9, length=10)
    held = points["held"]
    assert held[-1] < 1e-17 * y.var()
    assert held[-3:] == pytest.approx(held[-4:-1] / 100, rel=1e-3)


def test_a_feature_of_one_fold_is_constant_in_its_fit():
    """Of a feature that varies in one row, that row's fold is predicted without it."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(40, 3))
    x[:, 2] = 0.1
    x[7, 2] = 1e9
    y = x[:, 0] + rng.normal(size=40)
    y[7] += 5
    (found, _), (other, _) = both(x, y, folds=4, length=10)
    assert np.isfinite(found["held"]).all()
    assert found["held"] == pytest.approx(other["held"], rel=1e-5)


def test_an_outlier_leaves_the_other_folds_their_digits():
    """Sums of folds are added: the difference of all and one would have no digits here."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(50, 3))
    y = x @ [1.0, 2, -1] + 0.1 * rng.normal(size=50)
    x[11], y[11] = 1e8, 1e8
    (found, _), (other, _) = both(x, y, folds=5, length=10, tolerance=1e-6)
    assert found["held"] == pytest.approx(other["held"], rel=1e-3)


def test_labels_that_overflow_end_at_once():
    x = np.random.default_rng(5).normal(size=(30, 3))
    points, _ = paths(x, x[:, 0] * 1e200, folds=3)
    assert not np.isfinite(points["objective"]).any()
    assert points["epochs"].max() <= 1


def test_a_path_takes_few_systems_of_equations():
    """Weights enter and leave one at a time, so that most penalties take one system."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(500, 20))
    y = x @ rng.normal(size=20) + rng.normal(size=500)
    points, _ = paths(x, y, length=100, ratio=1e-3)
    assert points["epochs"].sum() <= 100 + 2 * 20
    assert (points["gap"] <= 1e-13 * points["null"]).all()


def test_many_folds_and_features_are_fitted_by_columns():
    """The sums of so many folds would take too much memory; the losses are scikit-learn's."""
    rng = np.random.default_rng(7)
    n, d = 200, 160
    x = rng.normal(size=(n, d))
    y = x[:, :5].sum(axis=1) + rng.normal(size=n)
    points, _ = paths(x, y, folds=n, length=5, ratio=0.1, tolerance=1e-9)
    found = LassoCV(
        cv=PredefinedSplit(np.arange(n)), alphas=points["lambda"], tol=1e-8, max_iter=10**5
    ).fit(x, y)
    assert points["held"] == pytest.approx(found.mse_path_.mean(axis=1), rel=1e-4)
