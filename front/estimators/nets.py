"""scikit-learn estimators of neural nets.

They train with the same engine, options and objective as SQL's `train_model('mlp', ...)`.
"""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from tuskml.estimators.one_model import (
    OneModelClassifier,
    OneModelRegressor,
    class_weight_of,
    encode_classes,
)
from tuskml.estimators.shared import Estimator, refuse_unknown_names


class _Net(Estimator):
    """What the two estimators share: options and rows."""

    @refuse_unknown_names
    def __init__(
        self,
        *,
        layers: Sequence[int] = (64, 32),
        activation: str = "relu",
        algorithm: str = "adam",
        max_iter: int = 100,
        batch_size: int = 32,
        learning_rate: float | None = None,
        weight_decay: float = 0.0,
        dropout: float = 0.0,
        validation: float = 0.0,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.layers = layers
        self.activation = activation
        self.algorithm = algorithm
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.validation = validation
        self.random_state = random_state
        self.options = options

    sparse_rows = False
    parameters = (
        "activation",
        "algorithm",
        "max_iter",
        "batch_size",
        "learning_rate",
        "weight_decay",
        "dropout",
        "validation",
    )

    def _settings(self) -> dict[str, Any]:
        """The options of `train_model`."""
        return {"layers": list(self.layers)} | super()._settings()


class TuskNetRegressor(OneModelRegressor, _Net):
    """A neural net for numbers: it lowers the mean of 1/2 (m - y)^2.

    layers: the units of each hidden layer; activation, algorithm, max_iter (the epochs),
    batch_size, learning_rate, weight_decay, dropout, validation: options of `train_model`.
    random_state: the seed; None means 0, so that fits can be repeated. options: any others, such
    as `{"schedule": "cosine"}`.

    X: of shape (n_samples, n_features), dense, float32 or float64; others become float64. A frame
    with columns of text, categories or times is trained on by name, and its categories are
    embedded. Fitted: `n_iter_`, the epochs, and `models_`, a list of the one `tuskml.Model`.

    >>> X = np.arange(90.0)[:, None]
    >>> TuskNetRegressor().fit(X, 2 * X[:, 0] + 1).predict([[50.0]]).round(-1).tolist()
    [100.0]
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Trains. X: (n_samples, n_features); y: numbers of shape (n_samples,)."""
        X, y = self._check(X, y, y_numeric=True)
        self._train("mlp", X, [np.asarray(y, np.float64)])
        return self


class TuskNetClassifier(OneModelClassifier, _Net):
    """A neural net for two classes or more.

    It lowers the mean of log(1 + exp(-y m)), or of more than two classes of
    log sum_k exp(m_k) - m_y. class_weight: "balanced", or weights by class, 1 for those not named.
    The other parameters, and X, are those of `TuskNetRegressor`; y: classes of any type. Fitted:
    `classes_`, `n_iter_`, and `models_`, a list of one `tuskml.Model`, trained on the places of
    the classes in `classes_`.

    >>> X = np.arange(90.0)[:, None]
    >>> TuskNetClassifier().fit(X, np.where(X[:, 0] > 40, "high", "low")).predict([[80.0]])[0]
    np.str_('high')
    """

    @refuse_unknown_names
    def __init__(
        self,
        *,
        layers: Sequence[int] = (64, 32),
        activation: str = "relu",
        algorithm: str = "adam",
        max_iter: int = 100,
        batch_size: int = 32,
        learning_rate: float | None = None,
        weight_decay: float = 0.0,
        dropout: float = 0.0,
        validation: float = 0.0,
        class_weight: Any = None,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            layers=layers,
            activation=activation,
            algorithm=algorithm,
            max_iter=max_iter,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            dropout=dropout,
            validation=validation,
            random_state=random_state,
            options=options,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any) -> Self:
        """Trains. X: (n_samples, n_features); y: classes of shape (n_samples,)."""
        X, y = self._check(X, y)
        self.classes_, codes = encode_classes(y)
        weights = class_weight_of(self.class_weight, self.classes_)
        own = {} if weights is None else {"class_weight": weights}
        self._train("mlp", X, [codes], [{"objective": "logistic", **own}])
        return self
