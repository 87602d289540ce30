"""Estimators of one model: classes as codes, their weights, probabilities, predictions."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from tuskml.errors import OptionError
from tuskml.estimators.shared import Estimator
from tuskml.model.scoring import Floats, probabilities, score_rows


def encode_classes(y: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The classes of y in rising order, and the place of each row's class among them.

    ValueError where there are fewer than two.
    """
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y has one class, {classes.tolist()[0]!r}, expected two classes or more")
    return classes, codes


def encode_two_classes(y: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Encodes classes as `encode_classes` does; ValueError where there are not exactly two."""
    classes, codes = encode_classes(y)
    if len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported: y has {len(classes)} classes, expected two"
        )
    return classes, codes


def class_weight_of(given: Any, classes: NDArray[Any]) -> str | list[float] | None:
    """The option class_weight of an estimator's parameter: weights by the place of the class."""
    if given is None or (isinstance(given, str) and given == "balanced"):
        return given
    if not isinstance(given, Mapping):
        raise OptionError(
            f"class_weight is {given!r}, expected 'balanced' or a dict of weights by class"
        )
    return weights_by_place(given, classes.tolist())


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
    """Refuses a class without a row of weight above 0; codes: the index of each row's class."""
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


class OneModelRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """Predictions of the one model of an estimator for numbers."""

    def predict(self, X: Any) -> Floats:
        """Numbers of shape (n_samples,)."""
        rows = self._rows(X)
        return score_rows(self.models_[0], "predict", rows)


class OneModelClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """Predictions of the one model of an estimator for two classes or more."""

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of shape (n_samples, n_classes)."""
        rows = self._rows(X)
        if len(self.classes_) > 2:
            return probabilities(self.models_[0], rows)
        p = score_rows(self.models_[0], "predict_proba", rows)
        return np.stack([1 - p, p], axis=1)

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes of shape (n_samples,)."""
        place = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[place])
