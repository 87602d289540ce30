"""The estimator of ordered classes: scikit-learn's own checks, and statsmodels' numbers."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from statsmodels.miscmodels.ordinal_model import OrderedModel

from tuskml.estimators import TuskClassifier, TuskOrdinalClassifier


@pytest.mark.sample(25)
@parametrize_with_checks([TuskOrdinalClassifier()])
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of rows that separate
        check(estimator)


def rows(levels: int) -> tuple[np.ndarray, np.ndarray]:
    """(500, 2) features and classes 10, 20, ... of a latent number."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 2))
    latent = X @ [1.5, -0.7] + rng.logistic(size=500)
    cuts = np.quantile(latent, np.arange(1, levels) / levels)
    return X, 10 * (1 + np.searchsorted(cuts, latent))


@pytest.mark.parametrize(("link", "distr"), [("logit", "logit"), ("probit", "probit")])
def test_coefficients_are_statsmodels(link: str, distr: str) -> None:
    X, y = rows(4)
    ours = TuskOrdinalClassifier(link, epsilon=1e-10).fit(X, y)
    model = OrderedModel(y, X, distr=distr)
    peer = model.fit(method="bfgs", disp=False, gtol=1e-8)
    np.testing.assert_allclose(ours.coef_, peer.params[:2], rtol=1e-4)
    cuts = model.transform_threshold_params(peer.params)[1:-1]
    np.testing.assert_allclose(ours.thresholds_, cuts, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict(X), atol=1e-5)
    assert ours.classes_.tolist() == [10, 20, 30, 40]
    assert set(ours.predict(X)) <= {10, 20, 30, 40}


def test_two_classes_are_logistic() -> None:
    X, y = rows(2)
    ours = TuskOrdinalClassifier(epsilon=1e-10).fit(X, y)
    peer = TuskClassifier(epsilon=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.coef_, peer.coef_[0], rtol=1e-6)
    np.testing.assert_allclose(ours.thresholds_, -peer.intercept_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(X), peer.predict_proba(X), atol=1e-7)
