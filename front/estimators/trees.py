"""scikit-learn estimators of trees.

They train with the same engine, options and objective as SQL's `train_model('gbdt', ...)` and
`train_model('random_forest', ...)`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from tuskml.estimators.one_model import (
    OneModelClassifier,
    OneModelRegressor,
    encode_classes,
    refuse_weightless,
)
from tuskml.estimators.shared import FLOATS, UNFINISHED, Estimator, refuse_unknown_names
from tuskml.learners.trees.forest import gains_of
from tuskml.model.scoring import Floats


class _Trees(Estimator):
    """What the estimators share: rows with gaps, one model, importances.

    task: of `train_model`.
    """

    sparse_rows = False
    unfinished: ClassVar[Mapping[str, str]] = {
        "too few rows": "there are fewer than two leaves of min_child_rows rows: lower it",
        "out of range": UNFINISHED["out of range"],
    }
    task = ""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check(self, X: Any, y: Any, **more: Any) -> tuple[Any, Any]:
        """X and y, where X may have NaN."""
        return super()._check(X, y, ensure_all_finite="allow-nan", **more)

    def _rows(self, X: Any) -> Any:
        """Rows to predict, checked."""
        check_is_fitted(self)
        if self.models_[0].preparation is not None:
            return super()._rows(X)
        return validate_data(
            self, X, dtype=FLOATS, reset=False, order="C", ensure_all_finite="allow-nan"
        )

    @property
    def feature_importances_(self) -> Floats:
        """The share of each feature in what all splits gained, of shape (features,).

        They add up to 1, or are 0 where no tree has a split. `models_[0].feature_names` are the
        features.
        """
        check_is_fitted(self)
        model = self.models_[0]
        gains = gains_of(model.coef or [], len(model.feature_names))
        return gains / gains.sum() if gains.sum() > 0 else gains


class _Boosting(_Trees):
    """The parameters of boosted trees."""

    task = "gbdt"
    parameters = (
        "trees",
        "num_leaves",
        "max_depth",
        "learning_rate",
        "min_child_rows",
        "l1",
        "l2",
        "feature_fraction",
        "row_fraction",
        "validation",
        "patience",
    )

    @refuse_unknown_names
    def __init__(
        self,
        *,
        trees: int = 100,
        num_leaves: int = 31,
        max_depth: int = 0,
        learning_rate: float = 0.1,
        min_child_rows: int | None = None,
        l1: float = 0.0,
        l2: float | None = None,
        feature_fraction: float | None = None,
        row_fraction: float | None = None,
        validation: float = 0.0,
        patience: int | None = None,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.trees = trees
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.min_child_rows = min_child_rows
        self.l1 = l1
        self.l2 = l2
        self.feature_fraction = feature_fraction
        self.row_fraction = row_fraction
        self.validation = validation
        self.patience = patience
        self.random_state = random_state
        self.options = options


class _Forest(_Trees):
    """The parameters of random forests."""

    task = "random_forest"
    parameters = (
        "trees",
        "num_leaves",
        "max_depth",
        "min_child_rows",
        "feature_fraction",
        "row_fraction",
    )

    @refuse_unknown_names
    def __init__(
        self,
        *,
        trees: int = 100,
        num_leaves: int | None = None,
        max_depth: int = 0,
        min_child_rows: int = 1,
        feature_fraction: float | None = None,
        row_fraction: float = 1.0,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.trees = trees
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.min_child_rows = min_child_rows
        self.feature_fraction = feature_fraction
        self.row_fraction = row_fraction
        self.random_state = random_state
        self.options = options


class _Numbers(OneModelRegressor, _Trees):
    """Trees for numbers."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features), may have NaN; y: numbers of shape (n_samples,).

        sample_weight: of shape (n_samples,), at least 0.
        """
        X, y = self._check(X, y, y_numeric=True)
        self._train(self.task, X, [np.asarray(y, np.float64)], weight=sample_weight)
        return self


class _Classes(OneModelClassifier, _Trees):
    """Trees for two classes or more. objective: of labels that are classes."""

    objective = ""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features), may have NaN; y: classes of shape (n_samples,).

        sample_weight: of shape (n_samples,), at least 0.
        """
        X, y = self._check(X, y)
        self.classes_, codes = encode_classes(y)
        refuse_weightless(self.classes_, codes, sample_weight)
        self._train(self.task, X, [codes], [{"objective": self.objective}], sample_weight)
        return self


class TuskBoostedRegressor(_Numbers, _Boosting):
    """Boosted trees for numbers: they lower the mean of 1/2 (m - y)^2.

    trees, num_leaves, max_depth, learning_rate, min_child_rows, l1, l2, feature_fraction,
    row_fraction, validation, patience: options of `train_model('gbdt', ...)`, patience only with
    validation. random_state: the seed of what is drawn; None means 0, so that fits can be
    repeated. options: any others, such as `{"objective": "quantile", "quantile": 0.9}` or
    `{"monotone": [1, 0, -1]}`.

    X: of shape (n_samples, n_features), dense, float32 or float64; others become float64. NaN is a
    missing value, for which each split learns a side. A frame with columns of text, categories or
    times is trained on by name, and its categories are split by sets of levels. Fitted: `n_iter_`,
    the trees, `feature_importances_`, and `models_`, a list of the one `tuskml.Model`.

    >>> X = np.arange(90.0)[:, None]
    >>> TuskBoostedRegressor().fit(X, X[:, 0] > 40).predict([[10.0], [80.0]]).round(2).tolist()
    [0.0, 1.0]
    """


class TuskBoostedClassifier(_Classes, _Boosting):
    """Boosted trees for two classes or more.

    They lower the mean of log(1 + exp(-y m)), or of more than two classes of
    log sum_k exp(m_k) - m_y, with a tree of each class in each iteration. The parameters, and X,
    are those of `TuskBoostedRegressor`; y: classes of any type. Fitted: `classes_`, `n_iter_`, the
    iterations, `feature_importances_`, and `models_`, a list of one `tuskml.Model`, trained on the
    places of the classes in `classes_`.

    >>> X = np.arange(90.0)[:, None]
    >>> labels = np.where(X[:, 0] > 40, "high", "low")
    >>> TuskBoostedClassifier().fit(X, labels).predict([[80.0]])[0]
    np.str_('high')
    """

    objective = "logistic"


class TuskForestRegressor(_Numbers, _Forest):
    """A random forest for numbers: the mean of the leaves of its trees (Breiman 2001).

    trees, num_leaves (None: any number), max_depth, min_child_rows, feature_fraction (None:
    0.6), row_fraction: options of `train_model('random_forest', ...)`. random_state, options and
    X are those of `TuskBoostedRegressor`. Fitted: `n_iter_`, the trees, `feature_importances_`,
    and `models_`, a list of the one `tuskml.Model`.

    >>> X = np.arange(90.0)[:, None]
    >>> TuskForestRegressor().fit(X, X[:, 0] > 40).predict([[10.0], [80.0]]).round(2).tolist()
    [0.0, 1.0]
    """


class TuskForestClassifier(_Classes, _Forest):
    """A random forest for two classes or more: the mean of the shares of classes in its leaves.

    feature_fraction None means the square root of the number of features. The other parameters are
    those of `TuskForestRegressor`; y: classes of any type. Fitted: `classes_`, `n_iter_`,
    `feature_importances_`, and `models_`, a list of one `tuskml.Model`, trained on the places of
    the classes in `classes_`.

    >>> X = np.arange(90.0)[:, None]
    >>> labels = np.where(X[:, 0] > 40, "high", "low")
    >>> TuskForestClassifier().fit(X, labels).predict([[80.0]])[0]
    np.str_('high')
    """

    objective = "gini"
