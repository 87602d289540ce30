"""The task `ordinal`: a batch of groups in, a batch of models out.

A model's `coef` has the K - 1 thresholds of its K levels, then a coefficient for each feature;
`std_err` is alike.
"""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, RowsError
from tuskml.kernels import passes
from tuskml.kernels.library import Charges
from tuskml.kernels.ordinal import LINKS, Levels
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.rows.renumber import Renumbering, renumber
from tuskml.kernels.softmax import classes_of
from tuskml.learners import events
from tuskml.learners.learner import Request
from tuskml.learners.list_size import refuse_too_long, restore_lists
from tuskml.learners.models import Lists, Models, join_models, seconds_by_group
from tuskml.learners.ordinal.descent import Problem, State, descend, separable
from tuskml.learners.ordinal.options import OrdinalOptions
from tuskml.learners.ordinal.outcome import Ended, models_of, one_level
from tuskml.learners.tasks import Task
from tuskml.learners.validation import apart, pass_until
from tuskml.schedule.budget import look_at_limits

OrdinalRequest = Request[Task, OrdinalOptions]
MOST_LEVELS = 1000
MOST_WEIGHTS = 2048
"""Thresholds and coefficients, in systems of equations."""
ENTRIES = 1 << 21
"""Entries of curvatures that are processed at once."""


def train(groups: NDArray[np.void], request: OrdinalRequest, memory: int) -> Iterator[Models]:
    """Trains each of the groups; models carry their groups' indices in `groups`.

    In sparse groups with few but large ids, only ids that occur take memory.
    """
    look_at_limits(memory)
    with renumber(groups, memory, passes.cancel_mark()) as seen, passes.watching_sigint():
        for places in alike(seen.groups):
            models = train_alike(seen.groups[places], request, memory)
            models = models.renumber(places[models.group])
            yield from restore_lists(models, seen, groups, memory, longer)


def alike(groups: NDArray[np.void]) -> Iterator[NDArray[np.intp]]:
    """Yields places of groups that train together: of one kind, and of one width, for sparse ones
    up to the next power of two.
    """
    power = 2 ** np.ceil(np.log2(np.maximum(groups["dim"], 1))).astype(np.int64)
    width = np.where(groups["kind"] >= 2, power, groups["dim"])
    _, bucket = np.unique(np.stack([groups["kind"], width]), axis=1, return_inverse=True)
    for number in range(bucket.max() + 1):
        places = np.flatnonzero(bucket.reshape(-1) == number)
        refuse_wide(int(groups["dim"][places].max()), 2)
        each = int(groups["dim"][places].max() + 1) ** 2
        step = max(1, ENTRIES // each)
        for first in range(0, len(places), step):
            yield places[first : first + step]


def refuse_wide(features: int, levels: int) -> None:
    """Raises DataError for a group with too many weights."""
    if features + levels - 1 > MOST_WEIGHTS:
        raise DataError(
            f"a group has {features:,} features and {levels} levels or more, 'ordinal' takes at "
            f"most {MOST_WEIGHTS:,} thresholds and coefficients: expected fewer features, as "
            "hash_features makes, or task 'logistic'"
        )


def longer(model: Models, seen: Renumbering, width: int, memory: int) -> Models:
    """A model with a coefficient for each id below the width: 0 for those that do not occur."""
    ids, charges = seen.ids[int(model.group[0])], Charges(memory)
    widths = np.array([width], np.int64)
    if not len(model.coef.values):  # of one level
        return replace(model, n_features=widths)
    seen.listed += width
    refuse_too_long(width, len(ids), seen.listed, memory, "")

    def spread(values: Floats, fill: float) -> Lists:
        if not len(values):
            return Lists.none(1)
        cuts = len(values) - len(ids)
        found = charges.empty(cuts + width)
        found[:cuts], found[cuts:] = values[:cuts], fill
        found[cuts:][ids] = values[cuts:]
        return Lists(found, np.array([0, len(found)], np.int64))

    coef, errors = spread(model.coef.values, 0.0), spread(model.std_err.values, np.nan)
    return replace(model, coef=coef, std_err=errors, n_features=widths)


def train_alike(groups: NDArray[np.void], request: OrdinalRequest, memory: int) -> Models:
    """Trains groups of one kind and width."""
    began, widths = time.monotonic(), groups["dim"].astype(np.int64)
    groups = groups.copy()
    groups["dim"] = widths.max()
    rows = pass_until(groups, 0, request.options, began)
    found, counts, sizes = classes_of(rows, MOST_LEVELS)
    if max(sizes) > MOST_LEVELS:
        raise RowsError(
            f"label has more than {MOST_LEVELS:,} distinct values in a group, expected levels: "
            "task 'linear' is for numbers"
        )
    ordered = request.options.keeps_order
    parts = []
    with apart(rows, request, memory) if ordered else nullcontext((rows, None)) as (kept, _):
        for size in np.unique(sizes).tolist():
            which = np.flatnonzero(np.array(sizes) == size)
            label = np.array([found[g] for g in which.tolist()])
            count = np.array([counts[g] for g in which.tolist()])
            models = (
                one_level(groups[which], label, widths[which], request)
                if size == 1
                else fit(kept.of(which), label, count, widths[which], request)
            )
            parts.append(models.renumber(which[models.group]))
    models = parts[0] if len(parts) == 1 else join_models(parts)
    events.tell_trained(groups, int(models.iterations.max()))
    return replace(models, seconds=seconds_by_group(groups[models.group], began))


def fit(
    rows: Pass, label: Floats, count: Floats, widths: NDArray[np.int64], request: OrdinalRequest
) -> Models:
    """The models of groups with equally many levels, label (G, K), of weight count (G, K)."""
    options = request.options
    refuse_wide(int(widths.max()), label.shape[1])
    step = max(1, ENTRIES // (label.shape[1] + int(widths.max())) ** 2)
    parts = []
    for first in range(0, len(widths), step):
        which = np.arange(first, min(first + step, len(widths)))
        some = rows.of(which)
        shift, scale = coordinates(some)
        levels = Levels(label[which], LINKS.index(options.link), shift, scale)
        problem = problem_of(some, levels, count[which], options.l2)
        start = np.concatenate([thresholds(count[which], options.link), 0 * shift], axis=1)
        deadline = some.deadline
        state = descend(problem, start, options.epsilon, options.iterations, deadline)
        parted = np.zeros(len(which), bool)
        if not options.l2:
            parted = separable(problem, state, deadline)
        soften(problem, state, np.flatnonzero(parted), start, options)
        ended = Ended(problem, state, parted, count[which], widths[which])
        models = models_of(ended, request)
        parts.append(models.renumber(which[models.group]))
    return parts[0] if len(parts) == 1 else join_models(parts)


def coordinates(rows: Pass) -> tuple[Floats, Floats]:
    """The shift and the scale of features, (G, d) each; the scale is 0 for those that never vary.

    Dense ones are centred and divided by their standard deviation, sparse ones by their largest
    value.
    """
    if rows.sparse:
        _, largest = rows.feature_counts()
        shift, size = np.zeros_like(largest), largest
    else:
        shift, size = rows.feature_moments(np.iinfo(np.int64).max)
    with np.errstate(divide="ignore"):
        return shift, np.where(size > 0, 1 / size, 0.0)


def problem_of(rows: Pass, levels: Levels, count: Floats, l2: float) -> Problem:
    """The objective; the unit of gradients is four times the least curvature at the start, as of
    two classes.
    """
    weight = count.sum(axis=1)
    below = np.cumsum(count, axis=1)[:, :-1] / weight[:, None]
    penalty = np.zeros((len(weight), levels.cuts + levels.scale.shape[1]))
    penalty[:, levels.cuts :] = l2 * levels.scale**2
    return Problem(rows, levels, penalty, weight, 4 * (below * (1 - below)).min(axis=1))


def thresholds(count: Floats, link: str) -> Floats:
    """The best thresholds without features, (G, K - 1); count (G, K): weights of the levels."""
    below = np.cumsum(count, axis=1)[:, :-1]
    above = np.cumsum(count[:, ::-1], axis=1)[:, -2::-1]
    if link == "logit":
        return np.asarray(np.log(below / above))
    share = below / (below + above)
    if link == "cloglog":
        return np.asarray(np.log(-np.log(above / (below + above))))
    from scipy.special import ndtri  # slow to import, seldom needed

    return np.asarray(np.where(share < 0.5, ndtri(share), -ndtri(above / (below + above))))


def soften(
    problem: Problem,
    state: State,
    parted: NDArray[np.intp],
    start: Floats,
    options: OrdinalOptions,
) -> None:
    """Moves groups without an optimum to that with the ridge of `logistic`: l2 = 1 / n on
    coefficients of features divided by their standard deviation.
    """
    if not len(parted):
        return
    part, cuts = problem.of(parted), problem.levels.cuts
    ridge = part.penalty.copy()
    ridge[:, cuts:] = 1 / part.weight[:, None]
    softer = replace(part, penalty=ridge)
    found = descend(softer, start[parted], options.epsilon or 1e-6, 100, part.rows.deadline)
    state.v[parted] = found.v
    state.found.put(parted, part.evaluate(found.v))
