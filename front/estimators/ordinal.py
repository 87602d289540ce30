"""A scikit-learn estimator of ordered classes.

It trains with the same engine, options and objective as SQL's `train_model('ordinal', ...)`.
"""

from typing import Any, Self

import numpy as np

from tuskml.estimators.one_model import OneModelClassifier, encode_classes, refuse_weightless
from tuskml.estimators.shared import refuse_unknown_names
from tuskml.model.scoring import Floats, probabilities


class TuskOrdinalClassifier(OneModelClassifier):
    """Proportional odds: P(y <= k) = G(threshold_k - x'w), of classes that rise.

    link: `logit`, `probit` or `cloglog`; l2, max_iter, epsilon: options of `train_model`.
    random_state, options and X are those of `TuskRegressor`. y: classes whose order is that of
    NumPy's sort, such as numbers. Fitted: `classes_`, `thresholds_` of shape (n_classes - 1,),
    `coef_` of shape (n_features,), `n_iter_` and `models_`, a list of one `tuskml.Model`, trained
    on the places of the classes in `classes_`.

    >>> X = np.arange(30.0)[:, None]
    >>> y = (X[:, 0] + 5 * np.sin(7 * X[:, 0])) // 10
    >>> TuskOrdinalClassifier().fit(X, y).predict([[1.0], [14.0], [29.0]]).tolist()
    [0.0, 1.0, 3.0]
    """

    parameters = ("link", "l2", "max_iter", "epsilon")

    @refuse_unknown_names
    def __init__(
        self,
        link: str = "logit",
        *,
        l2: float = 0.0,
        max_iter: int | None = None,
        epsilon: float = 1e-6,
        random_state: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.link = link
        self.l2 = l2
        self.max_iter = max_iter
        self.epsilon = epsilon
        self.random_state = random_state
        self.options = options

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of classes without an order
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Trains. X: (n_samples, n_features); y: classes of shape (n_samples,).

        sample_weight: of shape (n_samples,), at least 0.
        """
        X, y = self._check(X, y)
        self.classes_, codes = encode_classes(y)
        refuse_weightless(self.classes_, codes, sample_weight)
        self._train("ordinal", X, [codes], weight=sample_weight)
        weights = np.array(self.models_[0].weights(), np.float64)
        cuts = len(self.classes_) - 1
        self.thresholds_, self.coef_ = weights[:cuts].copy(), weights[cuts:].copy()
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of shape (n_samples, n_classes)."""
        rows = self._rows(X)
        return probabilities(self.models_[0], rows)
