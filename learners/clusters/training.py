"""The task `kmeans`: a batch of groups in, a batch of centres out.

The objective and its sources are in `kernels/native/clusters/api.h`, the layout of a model's
`coef` in `outcome.py`.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.charged import Charges
from tuskml.kernels.clusters import ALGORITHMS, POINTS, Rules, train_centres
from tuskml.kernels.rows.renumber import Renumbering, renumber
from tuskml.learners import events
from tuskml.learners.clusters.options import ClusterOptions
from tuskml.learners.clusters.outcome import centres_in, head_of, models_of, plan_of
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.list_size import MOST, refuse_too_long, restore_lists, together
from tuskml.learners.models import Lists, Models, seconds_by_group
from tuskml.learners.tasks import Task
from tuskml.learners.validation import pass_until
from tuskml.schedule import shares
from tuskml.schedule.budget import look_at_limits

FEWER = ", or fewer 'clusters'"


def train(
    groups: NDArray[np.void], request: Request[Task, ClusterOptions], memory: int
) -> Iterator[Models]:
    """Trains each of the groups; models carry their groups' indices in `groups`.

    In sparse groups with few but large ids, only ids that occur take memory.
    """
    refuse_offsets(groups, request.task.name)
    rules = rules_of(request.options)
    mark = passes.cancel_mark()
    with renumber(groups, memory, mark) as seen, passes.watching_sigint():
        refuse_long(groups, rules, seen, memory)
        refuse_wide(groups, rules)
        numbers = rules.numbers(seen.groups["dim"].astype(np.int64)) + POINTS
        for places in together(seen.groups, numbers):
            models = train_together(seen.groups[places], request, rules, memory)
            models = models.renumber(places[models.group])
            yield from restore_lists(models, seen, groups, memory, wider)


def refuse_long(groups: NDArray[np.void], rules: Rules, seen: Renumbering, memory: int) -> None:
    """Raises MemoryError where the centres of a group exceed the size of a model.

    A training takes several times that memory, so this is checked before it starts.
    """
    size, widest = most_numbers(groups, rules)
    width = int(groups["dim"][widest])
    refuse_too_long(size, len(seen.ids.get(widest, range(width))), size, memory, FEWER)


def refuse_wide(groups: NDArray[np.void], rules: Rules) -> None:
    """Raises DataError if the centres of a group are too many numbers for SQL."""
    size, widest = most_numbers(groups, rules)
    if size > MOST:
        raise DataError(
            f"a group has {groups['dim'][widest]:,} features, whose centres have {size:,} "
            f"numbers, 'kmeans' takes at most {MOST:,}: expected fewer 'clusters', "
            "or fewer ids, as hash_features makes"
        )


def most_numbers(groups: NDArray[np.void], rules: Rules) -> tuple[int, int]:
    """The largest number of coefficients of a group, and that group's index."""
    sizes = rules.numbers(groups["dim"].astype(np.int64), groups["n_rows"].astype(np.int64))
    widest = int(sizes.argmax())
    return int(sizes[widest]), widest


def rules_of(options: ClusterOptions) -> Rules:
    """The options as the kernels have them."""
    return Rules(
        clusters=options.clusters,
        starts=options.starts,
        algorithm=ALGORITHMS.index(options.algorithm),
        max_iter=options.iterations,
        batch_size=options.batch_size,
        standardize=options.standardize,
        epsilon=-1.0 if options.epsilon is None else options.epsilon,
        seed=options.seed,
    )


def train_together(
    groups: NDArray[np.void], request: Request[Task, ClusterOptions], rules: Rules, memory: int
) -> Models:
    """Trains groups of one kind of rows."""
    began, options = time.monotonic(), request.options
    shares.note_plan(plan_of(options, options.algorithm, options.clusters))
    look_at_limits(memory)
    found = train_centres(pass_until(groups, 0, request.options, began), rules, memory)
    models = models_of(groups, found, request)
    events.tell_trained(groups, int(found.about["iterations"].max()))
    return replace(models, seconds=seconds_by_group(groups, began))


def wider(model: Models, seen: Renumbering, width: int, memory: int) -> Models:
    """Centres with a coordinate for each id below the width: 0 for those that do not occur."""
    widths, ids = np.array([width], np.int64), seen.ids[int(model.group[0])]
    if not len(model.coef.values):
        return replace(model, n_features=widths)
    scale, centres = centres_in(model.coef.values)
    head = head_of(width, len(centres), scale is not None)
    size = len(head) + (scale is not None) * width + len(centres) * (width + 1)
    seen.listed += size
    refuse_too_long(size, len(ids), seen.listed, memory, FEWER)
    coef = Charges(memory).empty(size)
    coef[:] = 0.0
    coef[: len(head)] = head
    if scale is not None:
        coef[len(head) : len(head) + width] = 1.0
        coef[len(head) + ids] = scale
    table = coef[size - len(centres) * (width + 1) :].reshape(len(centres), width + 1)
    table[:, 0] = centres[:, 0]
    table[:, 1 + ids] = centres[:, 1:]
    listed = Lists(coef, np.array([0, size], np.int64))
    return replace(model, coef=listed, n_features=widths)
