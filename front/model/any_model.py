"""A model however a caller holds it: a `tuskml.Model`, or a fitted estimator of one."""

from dataclasses import replace
from typing import Any, Protocol

from tuskml.errors import DataError
from tuskml.learners.classes import shortest
from tuskml.model.model import Model


class Estimator(Protocol):
    """A fitted estimator such as `tuskml.estimators.TuskClassifier`."""

    models_: list[Model]


def model_in(given: Any) -> Model:
    """The one model. A classifier's has the names of `classes_`, and predicts these: as numbers,
    or by their names.

    Raises DataError if it is not a model, is not fitted, or has a model per class.
    """
    if isinstance(given, Model):
        return given
    name = type(given).__qualname__
    if not name.startswith("Tusk") or not hasattr(given, "fit"):
        raise DataError(
            f"model is of type {name}, expected a tuskml.Model or a fitted TuskClassifier or "
            "TuskRegressor"
        )
    models: list[Model] | None = getattr(given, "models_", None)
    if not models:
        raise DataError(f"the {name} is not fitted: call fit before")
    if len(models) > 1:
        raise DataError(
            f"the {name} has {len(models)} models, one per class, expected one model: each of "
            "estimator.models_ is one, for its class against the rest"
        )
    classes = getattr(given, "classes_", None)
    if classes is None:
        return models[0]
    if classes.dtype.kind == "b":
        return replace(models[0], class_names=["false", "true"])
    if classes.dtype.kind not in "iuf":
        return replace(models[0], class_names=[str(value) for value in classes])
    values = [float(value) for value in classes]
    return replace(models[0], classes=values, class_names=[shortest(value) for value in values])
