"""Each estimator passes scikit-learn's own checks at two settings other than its defaults."""

import warnings
from typing import Any

import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from tuskml import estimators

ROW_TWICE = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a weight of 2 is not the row twice"
    for kind in ("dense", "sparse")
}
"""Trees count rows in their leaves, and folds deal rows."""

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "TuskBoostedClassifier": [
        {"trees": 20, "num_leaves": 4},
        {"trees": 30, "learning_rate": 0.3, "l2": 1.0},
    ],
    "TuskBoostedRegressor": [
        {"trees": 20, "num_leaves": 4},
        {"trees": 30, "learning_rate": 0.3, "l2": 1.0},
    ],
    "TuskClassifier": [
        {"task": "svm", "l2": 0.01, "epsilon": 1e-10},
        {"l1": 0.001, "l2": 0.001},
    ],
    "TuskElasticNet": [{"penalty": 0.1, "l1_ratio": 0.9}, {"l1_ratio": 0.2}],
    "TuskFMClassifier": [{"rank": 3, "l2": 0.001}, {"options": {"algorithm": "sgd"}}],
    "TuskFMRegressor": [{"rank": 3, "l2": 0.001}, {"options": {"algorithm": "sgd"}}],
    "TuskForestClassifier": [{"trees": 20, "min_child_rows": 3}, {"trees": 10, "max_depth": 4}],
    "TuskForestRegressor": [{"trees": 20, "min_child_rows": 3}, {"trees": 10, "max_depth": 4}],
    "TuskGLMRegressor": [{"family": "gamma", "l2": 0.1}, {"family": "tweedie", "power": 1.3}],
    "TuskHuberRegressor": [{"delta": 1.0}, {"l2": 0.1, "fit_intercept": False}],
    "TuskKMeans": [{"clusters": 3, "starts": 2}, {"clusters": 2, "algorithm": "minibatch"}],
    "TuskLasso": [{"penalty": 0.1}, {"penalty": 0.01, "fit_intercept": False}],
    "TuskNetClassifier": [{"layers": [8], "max_iter": 30}, {"layers": [4, 4]}],
    "TuskNetRegressor": [{"layers": [16], "learning_rate": 0.01}, {"layers": [4, 4]}],
    "TuskOrdinalClassifier": [{"link": "probit", "l2": 0.1}, {"epsilon": 1e-9}],
    "TuskQuantileRegressor": [{"quantile": 0.8}, {"quantile": 0.3, "l2": 0.1}],
    "TuskRegressor": [
        {"l2": 0.5, "fit_intercept": False},
        {"l2": 0.1, "algorithm": "lbfgs", "epsilon": 1e-10},
    ],
    "TuskSparseClassifier": [{"penalty": 0.05, "l1_ratio": 0.5}, {"penalty": 0.01}],
}
ESTIMATORS = [
    getattr(estimators, name)(**given) for name, two in SETTINGS.items() for given in two
]


def test_every_estimator_has_two_other_settings() -> None:
    assert set(SETTINGS) == {name for name in estimators.__all__ if name.startswith("Tusk")}
    assert {len(two) for two in SETTINGS.values()} == {2}


def known(estimator: Any) -> dict[str, str]:
    """Checks that fail, and why."""
    by_rows = ("Boosted", "Forest")
    of_path = getattr(estimator, "penalty", 0.0) is None
    return (
        ROW_TWICE if of_path or any(part in type(estimator).__name__ for part in by_rows) else {}
    )


@pytest.mark.nightly
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=known)
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few rows of noise
        check(estimator)
