"""scikit-learn estimators of factorization machines.

They train with the same engine, options and objective as SQL's `train_model('fm', ...)`.
"""

from typing import Any, Self

import numpy as np

from tuskml.estimators.one_model import OneModelClassifier, OneModelRegressor, encode_two_classes
from tuskml.estimators.shared import Estimator, refuse_unknown_names


class _Machine(Estimator):
    """What the two estimators share: options and rows."""

    @refuse_unknown_names
    def __init__(
        self,
        *,
        rank: int = 8,
        max_iter: int = 10,
        learning_rate: float | None = None,
        l2: float = 0.0,
        l2_factors: float = 0.0,
        validation: float = 0.0,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.rank = rank
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.l2 = l2
        self.l2_factors = l2_factors
        self.validation = validation
        self.random_state = random_state
        self.options = options

    parameters = ("rank", "max_iter", "learning_rate", "l2", "l2_factors", "validation")

    def _settings(self) -> dict[str, Any]:
        """The options of `train_model`; a fit can be repeated unless `options` says otherwise."""
        return {"deterministic": True} | super()._settings()


class TuskFMRegressor(OneModelRegressor, _Machine):
    """A factorization machine for numbers: it lowers the mean of 1/2 (m - y)^2.

    rank: the numbers of a feature's vector; max_iter (the epochs), learning_rate, l2, l2_factors,
    validation: options of `train_model`. random_state: the seed; None means 0, so that fits can be
    repeated. options: any others, such as `{"algorithm": "sgd"}`; `{"deterministic": False}` lets
    threads train large sparse rows together.

    X: of shape (n_samples, n_features), dense or sparse, float32 or float64; others become
    float64. A frame with columns of text, categories or times is trained on by name. Fitted:
    `n_iter_`, the epochs, and `models_`, a list of the one `tuskml.Model`.

    >>> x = np.arange(900.0)
    >>> X = np.stack([x % 30, x // 30], axis=1)
    >>> fitted = TuskFMRegressor(rank=2, max_iter=50).fit(X, X[:, 0] * X[:, 1])
    >>> fitted.predict([[20.0, 10.0]]).round(-1).tolist()
    [200.0]
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Trains. X: (n_samples, n_features); y: numbers of shape (n_samples,)."""
        X, y = self._check(X, y, y_numeric=True)
        self._train("fm", X, [np.asarray(y, np.float64)])
        return self


class TuskFMClassifier(OneModelClassifier, _Machine):
    """A factorization machine for two classes: it lowers the mean of log(1 + exp(-y m)).

    The parameters, and X, are those of `TuskFMRegressor`; y: two classes of any type. Fitted:
    `classes_`, `n_iter_`, and `models_`, a list of one `tuskml.Model`, trained on the places of
    the classes in `classes_`.

    >>> x = np.arange(900)
    >>> X = np.stack([x % 30 - 14.5, x // 30 - 14.5], axis=1)
    >>> fitted = TuskFMClassifier().fit(X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other"))
    >>> fitted.predict([[-9.0, -9.0], [-9.0, 9.0]]).tolist()
    ['same', 'other']
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Trains. X: (n_samples, n_features); y: classes of shape (n_samples,)."""
        X, y = self._check(X, y)
        self.classes_, codes = encode_two_classes(y)
        self._train("fm", X, [codes], [{"objective": "logistic"}])
        return self
