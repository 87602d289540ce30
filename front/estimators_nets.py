"""scikit-learn estimators of neural nets; `pip install 'tuskml[sklearn]'` brings what they need.

They train with the same engine, options and objective as SQL's `train_model('mlp', ...)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from tuskml.errors import OptionError
from tuskml.estimators import Linear, known_names, weights_by_place
from tuskml.model.scoring import Floats, probabilities, scored


class _Net(Linear):
    """What the two estimators share: options and rows."""

    @known_names
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
        *("activation", "algorithm", "max_iter", "batch_size", "learning_rate"),
        *("weight_decay", "dropout", "validation"),
    )

    def _settings(self) -> dict[str, Any]:
        """The options of `train_model`."""
        return {"layers": list(self.layers)} | super()._settings()

    def _fitted(self, X: Any, labels: NDArray[Any], more: Mapping[str, Any]) -> Self:
        """Trains the one model."""
        self._train("mlp", X, [labels], [more])
        return self


class TuskNetRegressor(RegressorMixin, _Net):  # type: ignore[misc]
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
        X, y = self._checked(X, y, y_numeric=True)
        return self._fitted(X, np.asarray(y, np.float64), {})

    def predict(self, X: Any) -> Floats:
        """Numbers of shape (n_samples,)."""
        rows = self._rows(X)
        return scored(self.models_[0], "predict", rows)


class TuskNetClassifier(ClassifierMixin, _Net):  # type: ignore[misc]
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

    @known_names
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

    def _weights(self) -> dict[str, Any]:
        """The option class_weight."""
        given = self.class_weight
        if given is None or (isinstance(given, str) and given == "balanced"):
            return {} if given is None else {"class_weight": given}
        if not isinstance(given, Mapping):
            raise OptionError(
                f"class_weight is {given!r}, expected 'balanced' or a dict of weights by class"
            )
        return {"class_weight": weights_by_place(given, self.classes_.tolist())}

    def fit(self, X: Any, y: Any) -> Self:
        """Trains. X: (n_samples, n_features); y: classes of shape (n_samples,)."""
        X, y = self._checked(X, y)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class, {self.classes_.tolist()[0]!r}, expected two classes or more"
            )
        return self._fitted(X, codes, {"objective": "logistic"} | self._weights())

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of shape (n_samples, n_classes)."""
        rows = self._rows(X)
        model = self.models_[0]
        if len(self.classes_) > 2:
            return probabilities(model, rows)
        p = scored(model, "predict_proba", rows)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of shape (n_samples,)."""
        place = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[place])
