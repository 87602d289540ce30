"""Linear models that select features: a batch of groups in, a batch of models out.

The objective and its sources are in `kernels/native/paths/api.h`.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.kernels.paths import (
    HELD_OUT,
    LEFT_OUT,
    LOGISTIC,
    SQUARED,
    TRAINED_ON,
    Rules,
    fit,
    needs_sums,
)
from tuskml.kernels.rows.renumber import few_occur
from tuskml.learners import events
from tuskml.learners.classes import check_classes, positive_class
from tuskml.learners.held_out import HeldOut
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.list_size import refuse_too_long
from tuskml.learners.models import Models, seconds_by_group
from tuskml.learners.paths.feature_groups import (
    blocks_of,
    copy_group,
    find_feature,
    names_of,
    of_numbers,
    refuse_groups,
    refuse_unknown,
    spread,
)
from tuskml.learners.paths.options import Path, PathOptions, PathTask
from tuskml.learners.paths.outcome import PathFits, models_of, one_class_models, plan_of, plans_of
from tuskml.learners.validation import pass_until
from tuskml.schedule.shares import note_plan

MOST_ROWS = 2**31 - 1
"""Rows of a group, whose numbers have 32 bits."""
MOST_FEATURES = 1 << 24
"""Features of a group: several numbers are kept for each."""


LEAST_ALPHA = 1e-3
"""The alpha by which the largest penalty of a path is computed, at least, as in glmnet."""


def train(
    groups: NDArray[np.void], request: Request[PathTask, PathOptions], memory: int
) -> Iterator[Models]:
    """Trains each of the groups; models carry their groups' indices in `groups`.

    In sparse groups with few but large ids, only ids that occur take memory.
    """
    refuse_rows(groups, request.task.name, False)
    widths = groups["dim"].tolist()
    refuse_unknown("unpenalized", request.options.unpenalized or (), widths, request)
    refuse_groups(widths, request)
    few = few_occur(groups, memory, passes.cancel_mark()) if memory else []
    others = np.setdiff1d(np.arange(len(groups)), few)
    if len(others):
        own = request if not few else request.of_places(others)
        for models in train_groups(groups[others], own, memory):
            yield models.renumber(others[models.group])
    listed = 0
    for place in few:
        width = int(groups["dim"][place])
        listed += width
        with copy_group(groups[place : place + 1], request, memory, place) as rows:
            refuse_too_long(width, len(rows.ids), listed, memory)
            own = of_numbers(request, rows.ids, width, place)
            for model in train_groups(rows.groups, own, memory, rows.ids):
                yield spread(model, rows.ids, width, request.options, memory).renumber(
                    np.array([place])
                )


def train_groups(
    groups: NDArray[np.void],
    request: Request[PathTask, PathOptions],
    memory: int,
    ids: NDArray[np.int64] | None = None,
) -> Iterator[Models]:
    """Trains the groups on their features.

    ids: of the features, if these are numbers of ids, as in stored models.
    """
    refuse_rows(groups, request.task.name, ids is not None)
    widths = groups["dim"].tolist()
    refuse_unknown("unpenalized", request.options.unpenalized or (), widths, request)
    refuse_groups(widths, request)
    with passes.watching_sigint():
        for places in alike(groups):
            for models in train_alike(groups[places], places, request, memory, ids):
                yield models.renumber(places[models.group])


def refuse_rows(groups: NDArray[np.void], task: str, numbers: bool) -> None:
    """Raises DataError for rows that are too many or too wide, OptionError for offsets.
    numbers: whether features are numbers of the ids that occur.
    """
    refuse_offsets(groups, task)
    most, widest = int(groups["n_rows"].max()), int(groups["dim"].max())
    if most > MOST_ROWS:
        raise DataError(f"a group has {most:,} rows, '{task}' takes at most {MOST_ROWS:,}")
    if widest > MOST_FEATURES and numbers:
        raise DataError(
            f"{widest:,} different feature ids occur in a group, '{task}' takes at most "
            f"{MOST_FEATURES:,}: expected fewer, such as those of hash_features"
        )
    if widest > MOST_FEATURES:
        raise DataError(
            f"a group has {widest:,} features, '{task}' takes at most {MOST_FEATURES:,}: "
            "expected ids below this, such as those of hash_features, or option 'store' for "
            "sparse rows in which no more different ids occur"
        )


def alike(groups: NDArray[np.void]) -> Iterator[NDArray[np.intp]]:
    """Places of the groups of one width, kind of storage and extras."""
    shape = np.stack([groups["dim"], groups["kind"], groups["extras"]])
    _, number = np.unique(shape, axis=1, return_inverse=True)
    for one in range(int(number.max()) + 1):
        yield np.flatnonzero(number == one)


def train_alike(
    groups: NDArray[np.void],
    places: NDArray[np.intp],
    request: Request[PathTask, PathOptions],
    memory: int,
    ids: NDArray[np.int64] | None,
) -> Iterator[Models]:
    """Trains groups of one shape; places: their indices in the request; ids: as in `train`."""
    began = time.monotonic()
    options = request.options
    note_plan(plan_of(request))
    rows = pass_of(groups, request)
    labels = rows.labels()
    check_classes(request.task, options, labels)
    lone = np.zeros(len(groups), np.bool_)
    if request.task.loss == LOGISTIC:
        lone = labels["low"] == labels["high"]
        rows = replace(rows, positive=positive_class(options, labels))
    if lone.any():
        which = np.flatnonzero(lone)
        yield one_class_models(groups[which], labels[which], request).renumber(which)
    which = np.flatnonzero(~lone)
    if not len(which):
        return
    rows = rows.of(which)
    free = find_unpenalized(rows, places[which], request)
    block = blocks_of(rows, places[which], request)
    rules = rules_of(request)
    shares = shares_of(labels[which], request)
    points, weights = fit(rows, rules, free, memory, block, stretches(rows, request), shares)
    events.tell_trained(rows.groups)
    plan = plans_of(needs_sums(rows, rules, block), request)
    fitted = PathFits(points, weights, shares[:, 0])
    models = replace(models_of(rows, labels[which], fitted, request, ids), plan=plan)
    yield replace(models, seconds=seconds_by_group(rows.groups, began)).renumber(which)


def pass_of(groups: NDArray[np.void], request: Request[PathTask, PathOptions]) -> Pass:
    """The rows of groups of one shape, with the limits of the call."""
    rows = pass_until(groups, request.task.loss, request.options, time.monotonic())
    return replace(rows, fit_intercept=request.options.fit_intercept)


def rules_of(request: Request[PathTask, PathOptions]) -> Rules:
    """The options as the kernels have them."""
    options = request.options
    path, how = path_of(options), make_held_out(request)
    return Rules(
        loss=request.task.loss,
        length=path.length,
        alpha=options.alpha,
        tolerance=options.tol,
        max_epochs=options.epochs,
        ratio=path.ratio,
        folds=0 if how is None else len(how.sets),
        positive=options.positive,
        standardize=options.standardize,
        seed=options.seed,
        penalties=path.values,
        roles=None if how is None else roles_of(how),
    )


def shares_of(
    labels: NDArray[np.void], request: Request[PathTask, PathOptions]
) -> NDArray[np.float64]:
    """The shares of the penalty that are L1 and L2, alpha and 1 - alpha of each group, and the
    share by which the largest penalty is computed, (G, 3).

    If the path chooses its penalties itself, option `alpha` is the share for labels whose
    deviation is 1. A weight is in units of labels, so its square is divided by their deviation:
    the model is equivariant to the units. The largest penalty of tiny shares would leave only the
    constant on the whole path.
    """
    alpha = request.options.alpha
    size = np.ones(len(labels))
    if request.task.loss == SQUARED and path_of(request.options).values is None:
        size = np.sqrt(labels["variance"])
        size[~(np.isfinite(size) & (size > 0))] = 1.0
    first, second = np.full(len(labels), alpha), (1 - alpha) / size
    parts = np.stack([first, second, np.maximum(first, LEAST_ALPHA)], axis=1)
    return np.ascontiguousarray(parts / (first + second)[:, None])


def make_held_out(request: Request[PathTask, PathOptions]) -> HeldOut | None:
    """The held-out rows that choose the penalty; None without any."""
    options, how = request.options, request.held_out or HeldOut()
    if not options.holds_out:
        return None
    return how if how.together else replace(how, folds=path_of(options).times)


def roles_of(how: HeldOut) -> NDArray[np.uint8] | None:
    """The role of each stretch of rows in each fold; None if each is held out once, and trained on
    in all other folds.
    """
    if not (how.in_time or how.together):
        return None
    roles = np.full((len(how.sets), how.stretches), LEFT_OUT, np.uint8)
    for role, out in zip(roles, how.sets, strict=True):
        role[list(how.training_stretches(out))] = TRAINED_ON
        role[list(out)] = HELD_OUT
    return roles


def stretches(rows: Pass, request: Request[PathTask, PathOptions]) -> NDArray[np.int32] | None:
    """The stretch of each row; None where none is held out."""
    how = make_held_out(request)
    if how is None:
        return None
    by_label = request.task.classifies
    return how.stretch_of(rows.groups, request.options.seed, rows.threads, by_label)


def path_of(options: PathOptions) -> Path:
    """The penalties to fit: the one in the options, or a path."""
    if options.penalty is not None:
        return Path(length=1, values=(options.penalty,), folds=0)
    return options.path or Path()


def find_unpenalized(
    rows: Pass, places: NDArray[np.intp], request: Request[PathTask, PathOptions]
) -> NDArray[np.uint8] | None:
    """Tests which features have no penalty, (G, d), of those that a group has; None: all have
    one.
    """
    given = request.options.unpenalized
    if given is None:
        return None
    free = np.zeros((rows.n_groups, rows.n_features), np.uint8)
    for group, place in enumerate(places.tolist()):
        names = names_of(place, request)
        at = (find_feature(one, names, rows.n_features) for one in given)
        free[group, [one for one in at if one is not None]] = 1
    return free
