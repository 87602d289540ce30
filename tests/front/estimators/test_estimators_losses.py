"""Estimators of counts, quantiles, outliers and the lasso: scikit-learn's checks and numbers."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    ElasticNet,
    GammaRegressor,
    Lasso,
    LogisticRegression,
    PoissonRegressor,
    QuantileRegressor,
    TweedieRegressor,
)
from sklearn.utils.estimator_checks import parametrize_with_checks

from tuskml import OptionError
from tuskml.estimators import (
    TuskElasticNet,
    TuskGLMRegressor,
    TuskHuberRegressor,
    TuskLasso,
    TuskQuantileRegressor,
    TuskSparseClassifier,
)

DEFAULTS = [
    TuskGLMRegressor(),
    TuskQuantileRegressor(),
    TuskHuberRegressor(),
    TuskLasso(),
    TuskElasticNet(),
    TuskElasticNet(0.1, l1_ratio=0.9),
    TuskSparseClassifier(),
    TuskSparseClassifier(0.05, l1_ratio=0.5),
]


def known(estimator: Any) -> dict[str, str]:
    """Checks that fail: a path deals rows to folds, and a row of weight 2 lies in one of them."""
    if getattr(estimator, "penalty", 0.0) is not None:
        return {}
    checks = "check_sample_weight_equivalence_on_{}_data"
    return {checks.format(kind): "rows are dealt to folds" for kind in ("dense", "sparse")}


def quietly(check: Any, estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few rows of noise
        check(estimator)


@pytest.mark.sample(10)
@parametrize_with_checks(DEFAULTS, expected_failed_checks=known)
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    quietly(check, estimator)


@pytest.fixture
def rows() -> tuple[Any, Any]:
    """(300, 3) features and positive labels whose logarithm is linear in them."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3))
    return X, rng.gamma(5, np.exp(X @ [0.5, -0.3, 0.0] + 1) / 5)


@pytest.mark.parametrize(
    ("ours", "peer"),
    [
        (TuskGLMRegressor(l2=0.1), PoissonRegressor(alpha=0.1, tol=1e-9)),
        (TuskGLMRegressor("gamma", l2=0.1), GammaRegressor(alpha=0.1, tol=1e-9)),
        (
            TuskGLMRegressor("tweedie", power=1.5, l2=0.1),
            TweedieRegressor(power=1.5, alpha=0.1, tol=1e-9),
        ),
        (TuskLasso(0.1), Lasso(0.1, tol=1e-12)),
        (TuskElasticNet(0.1, l1_ratio=0.3), ElasticNet(0.1, l1_ratio=0.3, tol=1e-12)),
        (TuskQuantileRegressor(0.3, epsilon=1e-9), QuantileRegressor(quantile=0.3, alpha=0)),
    ],
)
def test_coefficients_are_scikit_learn_s(rows: tuple[Any, Any], ours: Any, peer: Any) -> None:
    X, y = rows
    ours.fit(X, y)
    peer.fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.predict(X), peer.predict(X), rtol=0.01)


@pytest.mark.parametrize("balanced", [None, "balanced"])
def test_the_sparse_classifier_is_an_elastic_net(rows: tuple[Any, Any], balanced: Any) -> None:
    X, y = rows[0], np.where(rows[1] > 3, "more", "less")
    ours = TuskSparseClassifier(0.02, l1_ratio=0.7, tol=1e-10, class_weight=balanced).fit(X, y)
    peer = LogisticRegression(
        C=1 / (0.02 * len(X)),
        l1_ratio=0.7,
        solver="saga",
        tol=1e-12,
        max_iter=100_000,
        class_weight=balanced,
    ).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, peer.intercept_, atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), peer.predict(X))
    np.testing.assert_allclose(ours.decision_function(X), peer.decision_function(X), atol=1e-4)


def test_a_family_that_there_is_not_is_refused(rows: tuple[Any, Any]) -> None:
    with pytest.raises(OptionError, match="family is 'binomial', expected 'poisson'"):
        TuskGLMRegressor("binomial").fit(*rows)
