"""scikit-learn estimators; `pip install 'tuskml[sklearn]'` brings what they need.

They train with the same engine, options and objective as SQL's `train_model`.
"""

import functools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from tuskml.errors import OptionError, nearest, one_of
from tuskml.learners.options.other_names import hint
from tuskml.learners.registry import all_options
from tuskml.model.model import Model
from tuskml.model.scoring import Floats, Kind, probabilities, scored
from tuskml.training.arrays import named_rows, train_arrays, train_frame

Init = TypeVar("Init", bound=Callable[..., None])
FLOATS = [np.float64, np.float32]
UNFINISHED = {
    "not converged": "raise max_iter or epsilon",
    "separable": "a hyperplane separates the classes: give l2",
    "too few rows": "there are fewer rows than coefficients: give l2",
    "time limit": "the time was over",
    "diverged": "lower the learning rate",
    "out of range": "numbers are too large or too small for doubles: scale y or X",
}


def about(name: str, names: list[str]) -> str:
    """What a parameter that there is not may have been meant to be."""
    if name in all_options():
        return f"; give options={{'{name}': ...}}"
    expected = f", expected {', '.join(names[:-1])} or {names[-1]}"
    return hint(name) or nearest(name, names) or expected


def known_names(init: Init) -> Init:
    """An `__init__` that refuses names that it lacks in a sentence; its signature stays."""

    @functools.wraps(init)
    def checked(self: BaseEstimator, *values: Any, **given: Any) -> None:
        names = type(self)._get_param_names()
        for name in given:
            if name not in names:
                wrong = f"{type(self).__name__} has no parameter '{name}'{about(name, names)}"
                raise OptionError(wrong)
        init(self, *values, **given)

    return checked  # type: ignore[return-value]


class Linear(BaseEstimator):  # type: ignore[misc]
    """What estimators share: options, rows, margins.

    sparse_rows: whether X may be sparse; parameters: the names of those that are options;
    unfinished: what to do about a training's status.
    """

    sparse_rows = True
    unfinished: ClassVar[Mapping[str, str]] = UNFINISHED
    parameters: tuple[str, ...] = (
        "l1", "l2", "fit_intercept", "algorithm", "max_iter", "epsilon",
    )  # fmt: skip

    @known_names
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.sparse_rows
        return tags

    def _settings(self) -> dict[str, Any]:
        """The options of `train_model`."""
        given = {name: getattr(self, name) for name in self.parameters}
        settings = {name: value for name, value in given.items() if value is not None}
        if self.random_state is not None:
            settings["seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        return settings | (self.options or {})

    def _train(
        self,
        task: str,
        X: Any,
        labels: list[NDArray[Any]],
        more: Sequence[Mapping[str, Any]] = (),
        weight: Any = None,
    ) -> None:
        """A model for each column of labels; more: options of each; weight: of the rows."""
        if weight is not None:
            weight = _check_sample_weight(weight, X, dtype=np.float64, ensure_non_negative=True)
        names = getattr(self, "feature_names_in_", ())
        settings = [{**self._settings(), **own} for own in more or [{}] * len(labels)]
        self.models_ = [
            train_frame(task, X, y, given, weight)
            if hasattr(X, "columns")
            else train_arrays(task, X, y, given, names, weight)
            for y, given in zip(labels, settings, strict=True)
        ]
        self.n_iter_ = max(model.iterations for model in self.models_)
        for status in sorted({model.status for model in self.models_} & set(self.unfinished)):
            message = f"the training ended as '{status}': {self.unfinished[status]}"
            warnings.warn(message, ConvergenceWarning, stacklevel=3)

    @property
    def _accepted(self) -> str | bool:
        """Which sparse matrices X may be."""
        return "csr" if self.sparse_rows else False

    def _checked(self, X: Any, y: Any, **more: Any) -> tuple[Any, Any]:
        """X and y; a frame with columns that are not numbers stays one."""
        frame = named_rows(X)
        if frame is None:
            return validate_data(  # type: ignore[no-any-return]
                self, X, y, accept_sparse=self._accepted, dtype=FLOATS, order="C", **more
            )
        validate_data(self, frame, skip_check_array=True)
        labels = column_or_1d(y, warn=True)
        check_consistent_length(frame, labels)
        return frame, labels

    def _rows(self, X: Any) -> Any:
        """Rows to predict, checked."""
        check_is_fitted(self)
        if self.models_[0].preparation is not None:
            frame = X.to_pandas() if hasattr(X, "to_pandas") else X
            validate_data(self, frame, reset=False, skip_check_array=True)
            return frame
        return validate_data(self, X, accept_sparse=self._accepted, dtype=FLOATS, reset=False)


class TuskRegressor(RegressorMixin, Linear):  # type: ignore[misc]
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features); y: numbers of shape (n_samples,).

        sample_weight: of shape (n_samples,), at least 0.
        """
        X, y = self._checked(X, y, y_numeric=True)
        self._train("linear", X, [np.asarray(y, np.float64)], weight=sample_weight)
        self.coef_ = np.array(self.models_[0].weights(), np.float64)
        self.intercept_ = self.models_[0].intercept
        return self

    def predict(self, X: Any) -> Floats:
        """Numbers of shape (n_samples,)."""
        rows = self._rows(X)
        if hasattr(rows, "columns"):
            return self.models_[0].predict(rows)
        return np.asarray(rows @ self.coef_ + self.intercept_, np.float64)


def weights_by_place(given: Mapping[Any, Any], classes: list[Any]) -> list[float]:
    """A weight for each class, 1 for those that given does not name."""
    for name, weight in given.items():
        if name not in classes:
            shown = ", ".join(map(repr, classes[:12])) + (", ..." if len(classes) > 12 else "")
            raise OptionError(
                f"class_weight has the class {name!r}, expected classes of y: {shown}"
            )
        number = float(weight) if isinstance(weight, Real) else math.nan
        if isinstance(weight, bool) or not 0 < number < math.inf:
            raise OptionError(
                f"class_weight of the class {name!r} is {weight!r}, expected a number greater "
                "than 0"
            )
    return [float(given.get(name, 1.0)) for name in classes]


def refuse_weightless(classes: NDArray[Any], codes: NDArray[Any], weight: Any) -> None:
    """A class has to have a row of weight above 0; codes: the place of each row's class."""
    weights = np.asarray(weight)
    if weight is None or weights.shape != codes.shape:
        return  # one number for all rows, or refused later
    seen = np.bincount(codes[weights > 0], minlength=len(classes))
    if not seen.all():
        name = classes.tolist()[int(np.argmin(seen))]
        raise ValueError(
            f"all rows of the class {name!r} have the weight zero, expected one above it in each "
            "class"
        )


def _has_probabilities(estimator: "TuskClassifier") -> bool:
    if estimator.task == "logistic":
        return True
    raise AttributeError(f"task is {estimator.task!r}, only 'logistic' gives probabilities")


class TuskClassifier(ClassifierMixin, Linear):  # type: ignore[misc]
    """Logistic regression or a linear SVM, of two classes or more.

    task: `logistic`, the mean of log(1 + exp(-y m)), or of more than two classes of
    log sum_k exp(m_k) - m_y; or `svm`, of max(0, 1 - y m), with more than two classes one against
    the rest. Both plus l2/2 ‖w‖² and l1 ‖w‖₁. class_weight: "balanced", or weights by class, 1 for
    those not named; with more than two classes of `svm` each problem weighs its own class, and the
    rest has weight 1. The other parameters are those of `TuskRegressor`.

    X as in `TuskRegressor`; y: two classes or more, of any type. Fitted: `classes_`, `coef_` of
    shape (1, n_features) or (n_classes, n_features), `intercept_`, `n_iter_` and `models_`, a list
    of one `tuskml.Model`, trained on the places of the classes in `classes_`; of `svm` with more
    than two classes one for each, trained on whether a row has it.

    >>> X = np.arange(9.0)[:, None]
    >>> TuskClassifier(l2=0.1).fit(X, np.where(X[:, 0] > 4, "high", "low")).predict([[8.0]])[0]
    np.str_('high')
    """

    @known_names
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
        """Whether one model has all of more than two classes."""
        return self.task == "logistic" and len(self.classes_) > 2

    def _weights(self, places: Sequence[int]) -> list[dict[str, Any]]:
        """The option class_weight of each problem, a class against the rest; places: the classes.

        The rest of more than two classes weighs 1, as in LIBLINEAR.
        """
        given = self.class_weight
        if given is None:
            return [{} for _ in places]
        if "class_weight" in (self.options or {}):
            raise OptionError("class_weight is given twice, by itself and in options")
        if isinstance(given, str) and given == "balanced":
            return [{"class_weight": "balanced"} for _ in places]
        if not isinstance(given, Mapping):
            raise OptionError(
                f"class_weight is {given!r}, expected 'balanced' or a dict of weights by class"
            )
        weights = weights_by_place(given, self.classes_.tolist())
        if self._softmax:
            return [{"class_weight": weights}]
        low = weights[0] if len(weights) == 2 else 1.0
        return [{"class_weight": [low, weights[place]]} for place in places]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features); y: classes of shape (n_samples,).

        sample_weight: of shape (n_samples,), at least 0.
        """
        tasks = ("logistic", "svm")
        if self.task not in tasks:
            raise OptionError(f"task is {self.task!r}, expected {one_of(tasks)}")
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_.tolist()[0]!r}, expected two classes or more"
            )
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
        return self._scored(X, "decision")

    def _scored(self, X: Any, kind: Kind) -> Floats:
        """What each class's model answers, of shape (n_samples,) for one model."""
        rows = self._rows(X)
        m = np.stack([scored(model, kind, rows) for model in self.models_], axis=1)
        return m[:, 0] if m.shape[1] == 1 else m

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of shape (n_samples,)."""
        m = self.decision_function(X)
        code = (m >= 0).astype(np.intp) if m.ndim == 1 else m.argmax(axis=1)
        return np.asarray(self.classes_[code])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of shape (n_samples, n_classes); of `logistic` only."""
        check_is_fitted(self)
        if self._softmax:
            return probabilities(self.models_[0], self._rows(X))
        p = self._scored(X, "predict_proba")
        return np.stack([1 - p, p], axis=1)


def model_of(estimator: Any) -> Model:
    """The one model of a fitted estimator; an SVM of more than two classes has several."""
    check_is_fitted(estimator)
    if len(estimator.models_) != 1:
        raise OptionError(
            f"the estimator has {len(estimator.models_)} models, one per class, expected one model"
        )
    return estimator.models_[0]  # type: ignore[no-any-return]
