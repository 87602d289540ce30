"""scikit-learn estimators of linear models.

They train with the same engine, options and objective as SQL's `train_model('linear', ...)`,
`'logistic'` and `'svm'`.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from tuskml.errors import OptionError, one_of
from tuskml.estimators.one_model import (
    OneModelClassifier,
    OneModelRegressor,
    class_weight_of,
    encode_classes,
    refuse_weightless,
)
from tuskml.estimators.shared import Estimator, refuse_unknown_names
from tuskml.model.answers import Kind
from tuskml.model.scoring import Floats, probabilities, score_rows


class _Linear(Estimator):
    """The parameters of linear models."""

    parameters: tuple[str, ...] = ("l1", "l2", "fit_intercept", "algorithm", "max_iter", "epsilon")

    @refuse_unknown_names
    def __init__(
        self,
        *,
        l1: float = 0.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        max_iter: int | None = None,
        epsilon: float = 1e-6,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.l1 = l1
        self.l2 = l2
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.epsilon = epsilon
        self.random_state = random_state
        self.options = options


class OneLoss(OneModelRegressor, Estimator):
    """Fits one model of the task that `_task` names."""

    def _task(self) -> str:
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features); y: numbers of shape (n_samples,).

        sample_weight: of shape (n_samples,), at least 0.
        """
        X, y = self._check(X, y, y_numeric=True)
        self._train(self._task(), X, [np.asarray(y, np.float64)], weight=sample_weight)
        self.coef_ = np.array(self.models_[0].weights(), np.float64)
        self.intercept_ = self.models_[0].intercept
        return self


class TuskRegressor(OneLoss, _Linear):
    """Linear regression: mean of 1/2 (m - y)^2, plus l2/2 ‖w‖² and l1 ‖w‖₁.

    l1, l2, fit_intercept, algorithm, max_iter, epsilon: options of `train_model`; max_iter None:
    chosen with the algorithm. random_state: the seed of stochastic algorithms; None means 0, so
    that fits can be repeated. options: any others, such as `{"threads": 1}`.

    X: of shape (n_samples, n_features), dense or sparse, float32 or float64; others become
    float64. A frame with columns of text, categories or times is trained on by name, as SQL trains
    on rows with names; `models_[0].feature_names` are the features. Fitted: `coef_` of shape
    (n_features,), `intercept_`, `n_iter_`, and `models_`, a list of the one `tuskml.Model`. A
    sample weight of 2 equals the row twice.

    >>> X = np.arange(9.0)[:, None]
    >>> TuskRegressor().fit(X, 2 * X[:, 0] + 1).predict([[100.0]]).round(6).tolist()
    [201.0]
    """

    def _task(self) -> str:
        return "linear"

    def predict(self, X: Any) -> Floats:
        """Numbers of shape (n_samples,)."""
        rows = self._rows(X)
        if hasattr(rows, "columns"):
            return self.models_[0].predict(rows)
        return np.asarray(rows @ self.coef_ + self.intercept_, np.float64)


LOGISTIC = ("logistic", "multinomial")
"""One task by its two names."""


def _has_probabilities(estimator: "TuskClassifier") -> bool:
    if estimator.task in LOGISTIC:
        return True
    raise AttributeError(f"task is {estimator.task!r}, only 'logistic' gives probabilities")


class TuskClassifier(OneModelClassifier, _Linear):
    """Logistic regression or a linear SVM, of two classes or more.

    task: `logistic`, also called `multinomial`, the mean of log(1 + exp(-y m)), or of more than
    two classes of log sum_k exp(m_k) - m_y; or `svm`, of max(0, 1 - y m), with more than two
    classes one against the rest. Both plus l2/2 ‖w‖² and l1 ‖w‖₁. class_weight: "balanced", or
    weights by class, 1 for those not named; with more than two classes of `svm` each problem
    weighs its own class, and the rest has weight 1. The other parameters are those of
    `TuskRegressor`.

    X as in `TuskRegressor`; y: two classes or more, of any type. Fitted: `classes_`, `coef_` of
    shape (1, n_features) or (n_classes, n_features), `intercept_`, `n_iter_` and `models_`, a list
    of one `tuskml.Model`, trained on the places of the classes in `classes_`; of `svm` with more
    than two classes one for each, trained on whether a row has it.

    >>> X = np.arange(9.0)[:, None]
    >>> TuskClassifier(l2=0.1).fit(X, np.where(X[:, 0] > 4, "high", "low")).predict([[8.0]])[0]
    np.str_('high')
    """

    @refuse_unknown_names
    def __init__(
        self,
        task: str = "logistic",
        *,
        l1: float = 0.0,
        l2: float | None = None,
        fit_intercept: bool = True,
        algorithm: str = "auto",
        max_iter: int | None = None,
        epsilon: float = 1e-6,
        class_weight: Any = None,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            l1=l1,
            l2=l2,
            fit_intercept=fit_intercept,
            algorithm=algorithm,
            max_iter=max_iter,
            epsilon=epsilon,
            random_state=random_state,
            options=options,
        )
        self.task = task
        self.class_weight = class_weight

    @property
    def _softmax(self) -> bool:
        """Returns whether one model has all of more than two classes."""
        return self.task in LOGISTIC and len(self.classes_) > 2

    def _weights(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """The option class_weight of each problem, a class against the rest; places: the classes.

        The rest of more than two classes weighs 1, as in LIBLINEAR.
        """
        weights = class_weight_of(self.class_weight, self.classes_)
        if weights is None:
            return [{} for _ in places]
        if "class_weight" in (self.options or {}):
            raise OptionError("class_weight is given twice, by itself and in options")
        if isinstance(weights, str):
            return [{"class_weight": weights} for _ in places]
        if self._softmax:
            return [{"class_weight": weights}]
        low = weights[0] if len(weights) == 2 else 1.0
        return [{"class_weight": [low, weights[place]]} for place in places]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features); y: classes of shape (n_samples,).

        sample_weight: of shape (n_samples,), at least 0.
        """
        tasks = (*LOGISTIC, "svm")
        if self.task not in tasks:
            raise OptionError(f"task is {self.task!r}, expected {one_of(tasks)}")
        X, y = self._check(X, y)
        self.classes_, codes = encode_classes(y)
        refuse_weightless(self.classes_, codes, sample_weight)
        positive = range(len(self.classes_)) if len(self.classes_) > 2 else [1]
        if self._softmax:
            self._train(self.task, X, [codes], self._weights([0]), sample_weight)
            weights = np.array(self.models_[0].weights(), np.float64)
            by_class = weights.reshape(len(self.classes_), -1)
            self.coef_, self.intercept_ = by_class[:, 1:].copy(), by_class[:, 0].copy()
            return self
        labels = [codes == code for code in positive]
        self._train(self.task, X, labels, self._weights(positive), sample_weight)
        self.coef_ = np.array([model.weights() for model in self.models_], np.float64)
        self.intercept_ = np.array([model.intercept for model in self.models_], np.float64)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Margins of shape (n_samples,), or of more than two classes (n_samples, n_classes)."""
        check_is_fitted(self)
        if self._softmax:
            rows = self._rows(X)
            if hasattr(rows, "columns"):  # by name: the margins but for a constant of each row
                p = probabilities(self.models_[0], rows)
                return np.asarray(np.log(np.maximum(p, np.finfo(float).tiny)), np.float64)
            return np.asarray(rows @ self.coef_.T + self.intercept_, np.float64)
        return self._score(X, "decision")

    def _score(self, X: Any, kind: Kind) -> Floats:
        """What each class's model answers, of shape (n_samples,) for one model."""
        rows = self._rows(X)
        m = np.stack([score_rows(model, kind, rows) for model in self.models_], axis=1)
        return m[:, 0] if m.shape[1] == 1 else m

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of shape (n_samples,)."""
        m = self.decision_function(X)
        code = (m >= 0).astype(np.intp) if m.ndim == 1 else m.argmax(axis=1)
        return np.asarray(self.classes_[code])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of shape (n_samples, n_classes); of `logistic` only."""
        return super().predict_proba(X)
