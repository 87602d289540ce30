"""One group's training by an estimator: a model of tuskml, or the reason why there is none."""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, Interrupted
from tuskml.kernels.library import Charges
from tuskml.kernels.open_rows import error_text
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.segments import chunks, labels_of
from tuskml.kvstore import access
from tuskml.learners.classes import class_fields, margin_of_one_class, refuse_no_classes
from tuskml.learners.learner import Request
from tuskml.learners.models import FAILED, Lists, Models, options_text
from tuskml.learners.tasks import Task
from tuskml.model import scoring
from tuskml.model.model import Model
from tuskml.own.conversion import convert, family, predictions
from tuskml.own.converted import ModelFields
from tuskml.own.options import OwnOptions
from tuskml.own.torch_modules import TrainedModule
from tuskml.schedule import budget
from tuskml.schedule.pool import signals_blocked

COMPARED = 1024
"""Rows by which a model is compared with its estimator."""
MOST_CLASSES = 1000
LONGEST = 500
"""Characters of an exception in a model's plan."""
TINY = np.finfo(float).tiny

Fit = Callable[..., Any]


@dataclass(frozen=True)
class Recipe:
    """How a learner trains.

    fit: a function of features (n, d), labels (n,), weights (n,) or None and parameters by name,
    that returns what `conversion.convert` reads; predict: the user's function of that and of
    features; what: its name in plans; encodes: whether classes are numbered from 0 on; seeds,
    threads: the parameters for them, None: it has none; parameters: those that each fit has.
    """

    name: str
    what: str
    fit: Fit
    classifies: bool
    predict: Callable[[Any, Floats], Any] | None = None
    encodes: bool = False
    seeds: str | None = None
    threads: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rows:
    """The rows of a group: features (n, d), labels (n,), and weights (n,) or None."""

    x: Floats
    y: Floats
    weight: Floats | None


def rows_of(group: np.void, memory: int) -> Rows:
    """Copies the rows of a dense group, since estimators may write into their arrays."""
    n, d = int(group["n_rows"]), int(group["dim"])
    x = Charges(memory).empty((n, d))
    y = np.empty(n)
    for first, features, labels in chunks(group):
        end = min(first + len(labels), n)
        x[first:end], y[first:end] = features[: end - first], labels[: end - first]
    weights = [one for _, one in labels_of(group) if one is not None]
    return Rows(x, y, np.concatenate(weights)[:n] if weights else None)


def train_group(
    recipe: Recipe, group: NDArray[np.void], request: Request[Task, OwnOptions], memory: int
) -> Models:
    """The model of a group, `group` of shape (1,). Raises RowsError for labels that are no
    classes.
    """
    began = time.monotonic()
    rows = rows_of(group[0], memory)
    classes = np.unique(rows.y) if recipe.classifies else None
    if classes is not None:
        refuse_no_classes([classes], [len(classes)], MOST_CLASSES, "a regressor")
    if classes is not None and len(classes) == 1:
        found = of_one_class(recipe, group, request, classes)
    else:
        try:
            # a server's signals are for its own thread, not for those that start here
            with signals_blocked() if access.is_served() else nullcontext():
                found = fit_group(recipe, group, request, rows, classes)
        except Interrupted:
            raise
        except DataError as error:
            found = failed_model(group, request, str(error))
        except Exception as error:
            found = failed_model(group, request, f"fit {error_text(error)}"[:LONGEST])
    return replace(found, seconds=np.full(1, time.monotonic() - began))


def fit_group(
    recipe: Recipe,
    group: NDArray[np.void],
    request: Request[Task, OwnOptions],
    rows: Rows,
    classes: Floats | None,
) -> Models:
    """The model of a group that an estimator fits. Raises what it raises, and DataError."""
    threads = request.options.threads or budget.threads()
    params = parameters(recipe, request.options, threads)
    y: NDArray[Any] = rows.y
    if classes is not None:
        whole = bool((classes == np.floor(classes)).all())
        y = np.searchsorted(classes, y) if recipe.encodes else y.astype(np.int64) if whole else y
    estimator = recipe.fit(rows.x, y, rows.weight, **params)
    made = convert(estimator)
    if made.n_features != rows.x.shape[1]:
        raise DataError(
            f"the estimator has {made.n_features} features and rows have {rows.x.shape[1]}"
        )
    own = predictions(estimator, rows.x, recipe.predict)
    refuse_not_finite(own)
    models = as_models(recipe, group, request, made, classes)
    model = Model.of_batch(models, 0)
    levels = classes
    if classes is not None and recipe.encodes:
        levels = np.arange(float(len(classes)))
    compare(model, made, rows.x, own, levels)
    loss = loss_of(model, made, rows, own, classes)
    late = not_converged(estimator)
    return replace(
        models,
        loss=np.full(1, loss),
        status=replace(models.status, pool=("not converged" if late else "ok",)),
        converged=np.full(1, not late, np.uint8),
    )


def parameters(recipe: Recipe, options: OwnOptions, threads: int) -> dict[str, Any]:
    """The parameters of a fit: those of the call, the seed and the threads."""
    found = dict(recipe.parameters)
    if recipe.seeds is not None:
        found[recipe.seeds] = options.seed % 2**32
    if recipe.threads is not None:
        found[recipe.threads] = threads
    return found | options.parameters


def as_models(
    recipe: Recipe,
    group: NDArray[np.void],
    request: Request[Task, OwnOptions],
    made: ModelFields,
    classes: Floats | None,
) -> Models:
    """The model of a group, without its status and loss."""
    own: dict[str, Any] = {} if classes is None else class_fields(Lists.of_parts([classes]))
    if made.classifies != (classes is not None):
        kinds = ("classes", "numbers") if made.classifies else ("numbers", "classes")
        raise DataError(f"the estimator predicts {kinds[0]}, and labels are {kinds[1]}")
    return Models.build(
        group,
        made.task,
        coef=Lists.of_parts([made.coef]),
        intercept=np.full(1, made.intercept),
        iterations=np.full(1, made.iterations),
        status="ok",
        plan=f"{recipe.what}, registered as '{recipe.name}'",
        options=options_of(recipe, request.options, made.options),
        **own,
    )


def options_of(recipe: Recipe, options: OwnOptions, more: dict[str, Any]) -> str:
    """A model's field `options`."""
    about = {"learner": recipe.name, "params": options.parameters}
    names = [one for one in ("class_weight",) if one in options.given]
    return options_text(options, names, **more, **about)


def refuse_not_finite(own: Floats | None) -> None:
    """Raises DataError if an estimator predicts no numbers."""
    if own is not None and not np.isfinite(own).all():
        rows = ~np.isfinite(own).reshape(len(own), -1).all(axis=1)
        raise DataError(f"predictions of {int(rows.sum()):,} rows are no finite numbers")


def compare(
    model: Model, made: ModelFields, x: Floats, own: Floats | None, classes: Floats | None
) -> None:
    """Raises DataError if a model predicts otherwise than its estimator."""
    if own is None:
        return
    some, own = x[:COMPARED], own[:COMPARED]
    if classes is None:
        found = scoring.score_rows(model, "predict", some)
    elif own.ndim == 1 and not made.shares:
        found = classes[scoring.score_rows(model, "predict_class", some).astype(np.intp) - 1]
    else:
        found = scoring.probabilities(model, some)
        found = found[:, -1] if own.ndim == 1 else found
    if own.shape != found.shape:
        raise DataError(f"predictions have shape {own.shape}, expected {found.shape}")
    scale = max(float(np.abs(own).max(initial=0.0)), 1e-300)
    far = float(np.abs(found - own).max(initial=0.0)) / scale
    if not far <= made.close:
        raise DataError(
            f"predictions of the estimator are up to {far:.2g} of the largest one away from those "
            "of its trees, layers or coefficients, so no model of tuskml predicts as it does"
        )


def loss_of(
    model: Model, made: ModelFields, rows: Rows, own: Floats | None, classes: Floats | None
) -> float:
    """The mean of squared errors / 2, or of classes the mean of -log of the probability."""
    if classes is None:
        found = scoring.score_rows(model, "predict", rows.x) if own is None else own
        each = (found - rows.y) ** 2 / 2
    elif not made.shares:
        return float("nan")
    else:
        many = scoring.probabilities(model, rows.x) if own is None or own.ndim == 1 else own
        each = -np.log(
            np.maximum(many[np.arange(len(many)), np.searchsorted(classes, rows.y)], TINY)
        )
    return float(np.average(each, weights=rows.weight))


def not_converged(estimator: Any) -> bool:
    """Returns whether an estimator took all its iterations, as a module always does."""
    if isinstance(estimator, TrainedModule):
        return True
    steps = getattr(estimator, "steps", None)
    last = steps[-1][1] if steps else estimator
    most, took = getattr(last, "max_iter", None), getattr(last, "n_iter_", None)
    trees = hasattr(last, "_predictors")  # whose iterations are their number
    if most is None or took is None or trees or family(last) != "sklearn":
        return False
    return bool(np.max(took) >= most)


def of_one_class(
    recipe: Recipe,
    group: NDArray[np.void],
    request: Request[Task, OwnOptions],
    classes: Floats,
) -> Models:
    """The constant model of a group with a single class."""
    labels = Pass(group).labels()
    return Models.build(
        group,
        request.task.kept,
        intercept=margin_of_one_class(request.options, labels),
        converged=np.ones(1, np.uint8),
        status="one class",
        plan=f"{recipe.what}, registered as '{recipe.name}'",
        options=options_of(recipe, request.options, {}),
        **class_fields(Lists.of_parts([classes])),
    )


def failed_model(group: NDArray[np.void], request: Request[Task, OwnOptions], why: str) -> Models:
    """The model of a group without one, which predicts NULL."""
    return Models.build(
        group,
        request.task.kept,
        intercept=np.full(1, np.nan),
        loss=np.full(1, np.nan),
        status=FAILED,
        plan=why,
        options=options_text(request.options, (), learner=request.task.name, invalid_rows=True),
    )
