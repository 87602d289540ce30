"""A fitted estimator as a model of tuskml, before it has rows, classes and a status."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tuskml.formats.onnx_reading.reading import numbers, second_less_first
from tuskml.formats.onnx_reading.values import Dense, Forest, Margins
from tuskml.model.scoring import Floats

CLOSE, CLOSE_SINGLE = 1e-9, 1e-5
"""Tolerance of predictions against the estimator's, relative to the largest one; the second of
estimators that compute in floats."""


@dataclass(frozen=True)
class ModelFields:
    """The fields of a model that determine its predictions.

    task: of tuskml; intercept: NaN where `coef` has all margins; options: such as the objective;
    close: the tolerance of predictions; shares: whether classes have probabilities; features,
    preparation: as a model has them; classes: the labels, empty where they are 0, 1, ...; n_rows:
    rows of the training, as far as that is known; origin: what was read, in words.
    """

    task: str
    coef: Floats
    intercept: float
    n_features: int
    options: dict[str, Any] = field(default_factory=dict)
    iterations: int = 0
    close: float = CLOSE
    shares: bool = True
    features: tuple[str, ...] = ()
    preparation: str | None = None
    classes: tuple[Any, ...] = ()
    n_rows: int = 0
    origin: str = ""

    @property
    def classifies(self) -> bool:
        """Returns whether the model predicts classes."""
        objective = self.options.get("objective")
        return self.task in ("logistic", "svm") or objective in ("logistic", "gini")


LINEAR_TASKS = {"identity": "linear", "exp": "poisson", "logistic": "logistic"}
"""The task of a linear model by its response."""
OBJECTIVES = {"identity": "squared", "exp": "poisson", "logistic": "logistic"}
"""The objective by the response, where the estimator names none."""


def of_margins(
    margins: Margins,
    response: str,
    task: str | None = None,
    objective: str | None = None,
    *,
    single: bool = False,
    iterations: int | None = None,
) -> ModelFields:
    """The model of layers or trees.

    response: `identity`, `exp`, `logistic`, or `softmax` of a margin for each class; task: None:
    the usual one; single: whether the estimator computes in floats.
    """
    if response == "softmax" and margins.margins == 2:
        margins, response = second_less_first(margins), "logistic"
    response = "logistic" if response == "softmax" else response
    if task is None:
        deep = isinstance(margins, Dense) and len(margins.layers) > 1
        flat = LINEAR_TASKS[response]
        task = "gbdt" if isinstance(margins, Forest) else "mlp" if deep else flat
    options = {}
    if task in ("gbdt", "mlp", "random_forest"):
        options["objective"] = objective or OBJECTIVES[response]
    found = numbers(margins, task)
    intercept = found["intercept"]
    return ModelFields(
        task,
        np.asarray(found["coef"], np.float64),
        np.nan if intercept is None else float(intercept),
        int(found["n_features"]),
        options,
        int(found["iterations"] if iterations is None else iterations),
        CLOSE_SINGLE if single else CLOSE,
        task != "svm",
    )
