"""The models of fitted paths: the chosen penalty, and the data kept of the others."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.paths import LOGISTIC, Weights, write_paths
from tuskml.learners.classes import class_fields, classes_in, margin_of_one_class, squares_vanish
from tuskml.learners.learner import Request
from tuskml.learners.models import Lists, Models, Strings, by_group, options_text, threads_text
from tuskml.learners.paths.options import Path, PathOptions, PathTask
from tuskml.schedule import budget

STATUSES = ("ok", "not converged", "time limit", "out of range", "too few rows")
CONSTANT = ("out of range", "too few rows")
"""Statuses of models without weights."""


class PathFits(NamedTuple):
    """The paths of G groups: points (`POINT`, (G, length)), weights, and alpha, (G,)."""

    points: NDArray[np.void]
    weights: list[Weights]
    alpha: Floats


def models_of(
    rows: Pass,
    labels: NDArray[np.void],
    fitted: PathFits,
    request: Request[PathTask, PathOptions],
    ids: NDArray[np.int64] | None = None,
) -> Models:
    """Makes the models of groups from their labels (LABELS) and paths.

    ids: as in `write_paths`.
    """
    options, points, weights = request.options, fitted.points, fitted.weights
    everyone = np.arange(len(points))
    taken = np.array([choose_penalty(one, options) for one in points])
    at = points[everyone, taken]
    status = [status_of(points[g], taken[g], options) for g in everyone]
    if request.task.loss != LOGISTIC:
        tiny = squares_vanish(labels)
        status = ["out of range" if tiny[g] else status[g] for g in everyone]
    flat = np.isin(status, CONSTANT)
    coef = [
        np.zeros(rows.n_features) if flat[g] else weights[g].dense(taken[g], rows.n_features)
        for g in everyone
    ]
    return Models.build(
        rows.groups,
        request.task.name,
        coef=Lists.of_parts(coef),
        intercept=np.where(flat, constants(labels, request), at["intercept"]),
        **classes_of(labels, request),
        loss=np.where(flat, np.nan, at["objective"]),
        iterations=np.where(np.isnan(points["lambda"]), 0, points["epochs"]).sum(axis=1),
        converged=np.array([one == "ok" for one in status], np.uint8),
        status=Strings.of(status, STATUSES),
        plan=plan_of(request),
        options=by_group(
            Strings.same(options_json(options, ()), len(points)),
            {
                "alpha": (np.ones(len(points), bool), fitted.alpha),
                "lambda": (np.isfinite(at["lambda"]), at["lambda"]),
            },
        ),
        trials=trials_of(fitted, taken, options, ids),
    )


def choose_penalty(points: NDArray[np.void], options: PathOptions) -> int:
    """The index of the penalty whose weights the model has: the last one that was fitted; with
    folds that of the least loss of held-out rows, or the first within one standard error of it.
    """
    fitted = int(np.isfinite(points["lambda"]).sum())
    held = points["held"][:fitted]
    if not np.isfinite(held).any():
        return max(fitted - 1, 0)
    best = int(np.nanargmin(held))
    if options.path is None or not options.path.one_standard_error:
        return best
    return int(np.flatnonzero(held <= held[best] + points["held_error"][best])[0])


def status_of(points: NDArray[np.void], taken: int, options: PathOptions) -> str:
    """The status of one group."""
    one = points[taken]
    if np.isnan(one["lambda"]):
        return "time limit" if options.time is not None else "out of range"
    numbers = [one[name] for name in ("objective", "intercept", "gap", "null")]
    if not np.isfinite(numbers).all():
        return "out of range"
    if np.isnan(points["lambda"]).any():
        return "time limit"
    if options.holds_out:
        if options.time is not None and np.isnan(points["held"]).any():
            return "time limit"
        if np.isnan(one["held"]):
            return "too few rows"
    # The penalties that a penalty is compared with have to be optima, too.
    near = (
        points[max(taken - 1, 0) : taken + 2] if options.holds_out else points[taken : taken + 1]
    )
    return "ok" if (near["gap"] <= options.tol * near["null"]).all() else "not converged"


def constants(labels: NDArray[np.void], request: Request[PathTask, PathOptions]) -> Floats:
    """The margins of constant models, (G,)."""
    if request.task.loss != LOGISTIC:
        return np.asarray(labels["mean"])
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = np.log(labels["weight_high"] / (labels["weight"] - labels["weight_high"]))
    return np.asarray(odds)


def classes_of(
    labels: NDArray[np.void], request: Request[PathTask, PathOptions]
) -> dict[str, Any]:
    """The fields that say which classes models have; none where labels are numbers."""
    if request.task.loss != LOGISTIC:
        return {}
    return class_fields(classes_in(labels, request.options, None))


def one_class_models(
    groups: NDArray[np.void], labels: NDArray[np.void], request: Request[PathTask, PathOptions]
) -> Models:
    """Constant models of groups with a single class."""
    width = int(groups["dim"][0])
    margin = margin_of_one_class(request.options, labels)
    return Models.build(
        groups,
        request.task.name,
        coef=Lists.of_rows(np.zeros((len(groups), width)), np.full(len(groups), width)),
        intercept=margin,
        **classes_of(labels, request),
        loss=np.zeros(len(groups)),
        status="one class",
        plan=plan_of(request),
        options=options_json(request.options),
    )


def trials_of(
    fitted: PathFits, taken: NDArray[np.intp], options: PathOptions, ids: NDArray[np.int64] | None
) -> Strings:
    """The paths as JSON; none where there was one penalty that the call gave."""
    points, weights, n = fitted.points, fitted.weights, len(taken)
    if options.penalty is not None:
        return Strings.same(None, n)
    texts = write_paths(points, weights, taken, budget.threads(options.threads), ids)
    return Strings(texts, np.arange(n, dtype=np.int32))


def plans_of(by_sums: NDArray[np.bool_], request: Request[PathTask, PathOptions]) -> Strings:
    """The plan text of each group. by_sums: whether it needs sums over rows alone, (G,)."""
    both = tuple(plan_of(request, by_sums=kind) for kind in (False, True))
    return Strings(both, by_sums.astype(np.int32))


def plan_of(request: Request[PathTask, PathOptions], *, by_sums: bool = False) -> str:
    """Describes the training in one line."""
    options = request.options
    how = "systems of equations" if by_sums else "coordinate descent"
    of = "from sums over rows" if by_sums else "on working sets"
    parts = [f"{how} {of}", threads_text(options)]
    path = options.path or Path()
    if options.penalty is None:
        parts.insert(1, f"a path of {path.length} penalties")
        held = request.held_out
        if held is not None and held.share is not None:
            parts.insert(2, f"{held.share:g} of the rows held out")
        elif path.times:
            parts.insert(2, f"{path.times} folds")
    return ", ".join(parts)


def options_json(options: PathOptions, first: tuple[str, ...] = ("alpha",)) -> str:
    """The options in force except `lambda`, as JSON that starts with the format's version."""
    names = (*first, "tol", "max_iter", "positive", "standardize", "fit_intercept", "seed")
    more = ("unpenalized", "groups", "class_weight", "classes")
    given = (name for name in more if getattr(options, name) is not None)
    return options_text(options, (*names, *given))
