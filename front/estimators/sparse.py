"""scikit-learn estimators of sparse linear models, whose penalty makes coefficients zero.

They train with the same engine, options and objective as SQL's `train_model('lasso', ...)`,
`'elastic_net'` and `'sparse_logistic'`.
"""

from typing import Any, Self

import numpy as np

from tuskml.estimators.linear import OneLoss
from tuskml.estimators.one_model import (
    OneModelClassifier,
    class_weight_of,
    encode_two_classes,
    refuse_weightless,
)
from tuskml.estimators.shared import Estimator, refuse_unknown_names
from tuskml.model.scoring import Floats, score_rows


class _Penalty(Estimator):
    """The parameters of sparse linear models."""

    parameters: tuple[str, ...] = ("fit_intercept", "max_iter", "tol")
    penalty: float | None
    l1_ratio: float = 1.0

    def _settings(self) -> dict[str, Any]:
        given = {} if self.penalty is None else {"lambda": self.penalty}
        if self.l1_ratio != type(self).l1_ratio:
            given["alpha"] = self.l1_ratio
        return given | super()._settings()


class TuskLasso(_Penalty, OneLoss):
    """The lasso: mean of 1/2 (m - y)^2 plus penalty ‖w‖₁, exact to a duality gap.

    penalty: option `lambda`; None: a path and folds choose it. fit_intercept, max_iter, tol:
    options of `train_model`. random_state, options, X and what is fitted are those of
    `TuskRegressor`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> TuskLasso(0.1).fit(X, 3 * X[:, 1]).coef_.nonzero()[0].tolist()
    [1]
    """

    @refuse_unknown_names
    def __init__(
        self,
        penalty: float | None = None,
        *,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-6,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.penalty = penalty
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.options = options

    def _task(self) -> str:
        return "lasso"


class TuskElasticNet(_Penalty, OneLoss):
    """The elastic net: mean of 1/2 (m - y)^2 plus penalty (a ‖w‖₁ + (1 - a)/2 ‖w‖²).

    l1_ratio: a, the option `alpha`, above 0 and at most 1. The other parameters, X and what is
    fitted are those of `TuskLasso`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> TuskElasticNet(0.5, l1_ratio=0.9).fit(X, 3 * X[:, 1]).coef_.nonzero()[0].tolist()
    [1]
    """

    l1_ratio = 0.5

    @refuse_unknown_names
    def __init__(
        self,
        penalty: float | None = None,
        *,
        l1_ratio: float = 0.5,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-6,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.options = options

    def _task(self) -> str:
        return "elastic_net"


class TuskSparseClassifier(OneModelClassifier, _Penalty):
    """Sparse logistic regression: mean of log(1 + exp(-y m)) plus the elastic net's penalty.

    y: two classes of any type. class_weight: "balanced", or weights by class. The other parameters
    and X are those of `TuskElasticNet`. Fitted: `classes_`, `coef_` of shape (1, n_features),
    `intercept_` of shape (1,), `n_iter_` and `models_`, a list of one `tuskml.Model`, trained on
    the places of the classes in `classes_`.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 5))
    >>> TuskSparseClassifier(0.1).fit(X, X[:, 1] > 0).coef_[0].nonzero()[0].tolist()
    [1]
    """

    @refuse_unknown_names
    def __init__(
        self,
        penalty: float | None = None,
        *,
        l1_ratio: float = 1.0,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-6,
        class_weight: Any = None,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.penalty = penalty
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.class_weight = class_weight
        self.random_state = random_state
        self.options = options

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features); y: two classes of shape (n_samples,).

        sample_weight: of shape (n_samples,), at least 0.
        """
        X, y = self._check(X, y)
        self.classes_, codes = encode_two_classes(y)
        refuse_weightless(self.classes_, codes, sample_weight)
        weights = class_weight_of(self.class_weight, self.classes_)
        own = {} if weights is None else {"class_weight": weights}
        self._train("sparse_logistic", X, [codes], [own], sample_weight)
        self.coef_ = np.array([self.models_[0].weights()], np.float64)
        self.intercept_ = np.array([self.models_[0].intercept], np.float64)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Margins of shape (n_samples,)."""
        rows = self._rows(X)
        return score_rows(self.models_[0], "decision", rows)
