"""Centres of clusters as a learner, the task `kmeans`: groups in, models out.

The objective and its sources are in `kernels/native/clusters/api.h`. A model's `coef`
(`udas/scalars/clusters/clusters.h`) is the number of features d; the number of centres k; 1 where
features are standardized, else 0; in the first case the factor of each feature, (d,); and then for
each centre the weight of its rows and its coordinates, (k, 1 + d).
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.clusters import (
    ALGORITHMS,
    FEW,
    ITERATIONS,
    LATE,
    MOST_CLUSTERS,
    OUT_OF_RANGE,
    POINTS,
    ClusterResult,
    Rules,
    train_centres,
)
from tuskml.kernels.library import Charges
from tuskml.kernels.passes import Floats
from tuskml.kernels.rows.renumber import Renumbering, renumber
from tuskml.learners import events
from tuskml.learners.clusters.options import OPTIONS, ClusterOptions
from tuskml.learners.explaining import Document, document, format_explanation
from tuskml.learners.learner import (
    Facts,
    Groups,
    Learner,
    Request,
    Trials,
    refuse_offsets,
)
from tuskml.learners.list_size import MOST, refuse_too_long, restore_lists, together
from tuskml.learners.models import (
    Lists,
    Models,
    Strings,
    options_text,
    seconds_by_group,
    thin_history,
    threads_text,
)
from tuskml.learners.tasks import Task, built_in, in_table
from tuskml.learners.validation import pass_until
from tuskml.schedule import shares
from tuskml.schedule.budget import look_at_limits

HEAD = 3
"""Numbers before those of features and centres."""
STATUSES = ("ok", "not converged", "time limit", "out of range", "fewer centres")
BY_ENDING = {
    ITERATIONS: "not converged",
    LATE: "time limit",
    OUT_OF_RANGE: "out of range",
    FEW: "fewer centres",
}
"""The status of a training by how it ended; of others it is `ok`."""
UNTOLD = ("format", "feature_names", "histogram")
"""Options that are not about the training."""


def head_of(n_features: int, centres: int, standardized: bool) -> list[float]:
    """The numbers before those of features and centres."""
    return [float(n_features), float(centres), float(standardized)]


def centres_in(coef: Floats) -> tuple[Floats | None, Floats]:
    """Returns the factors of standardized features, (d,) or None, and the centres, (k, 1 + d), as
    views.
    """
    d, k, standardized = (int(one) for one in coef[:HEAD])
    first = HEAD + d * standardized
    return coef[HEAD:first] if standardized else None, coef[first:].reshape(k, d + 1)


def widen_centres(coef: Floats, n_features: int) -> Floats:
    """Returns the same centres with the coordinate 0 for features beyond the last one."""
    factors, centres = centres_in(coef)
    more = n_features - (centres.shape[1] - 1)
    parts: list[Floats | list[float]] = [head_of(n_features, len(centres), factors is not None)]
    if factors is not None:
        parts.append(np.pad(factors, (0, more)))
    return np.concatenate([*parts, np.pad(centres, ((0, 0), (0, more))).ravel()])


def models_of(
    groups: NDArray[np.void], found: ClusterResult, request: Request[Task, ClusterOptions]
) -> Models:
    """Makes the models of groups from their trained centres."""
    options, about, n = request.options, found.about, len(groups)
    status = [BY_ENDING.get(ending, "ok") for ending in about["ending"].tolist()]
    lost = about["ending"] == OUT_OF_RANGE
    coef = []
    for numbers, d, k in zip(
        found.numbers, groups["dim"].tolist(), about["centres"].tolist(), strict=True
    ):
        used = numbers[: d * options.standardize + k * (d + 1)]
        coef.append(np.concatenate([head_of(d, k, options.standardize), used]) if k else used)
    return Models.build(
        groups,
        request.task.name,
        coef=Lists.of_parts(coef),
        intercept=np.full(n, np.nan),
        loss=np.where(lost, np.nan, about["loss"]),
        history=thin_history(list(found.history.T), n),
        iterations=about["iterations"].copy(),
        converged=np.array([one in ("ok", "fewer centres") for one in status], np.uint8),
        status=Strings.of(status, STATUSES),
        plan=plans_of(about, options),
        options=options_json(options),
    )


def plans_of(about: NDArray[np.void], options: ClusterOptions) -> Strings:
    """The plan text of each group."""
    kinds, code = np.unique(about[["algorithm", "centres"]], return_inverse=True)
    texts = tuple(
        plan_of(options, ALGORITHMS[algorithm], centres) for algorithm, centres in kinds.tolist()
    )
    return Strings(texts, code.reshape(-1).astype(np.int32))


def plan_of(options: ClusterOptions, algorithm: str, centres: int) -> str:
    """Describes the training in one line."""
    how = {
        "auto": "Lloyd's iterations, in large groups after mini-batches",
        "lloyd": "Lloyd's iterations",
        "minibatch": f"mini-batches of {options.batch_size} rows, then Lloyd's iterations",
    }[algorithm]
    units = ", standardized features" if options.standardize else ""
    return (
        f"{algorithm}, {how}, {centres} centre{'s' if centres != 1 else ''}, the best of "
        f"{options.starts} start{'s' if options.starts > 1 else ''} by k-means++{units}, "
        f"{threads_text(options)}"
    )


def options_json(options: ClusterOptions) -> str:
    """The options in force, as JSON that starts with the version of the format."""
    names = (name for name in OPTIONS.by_name if name not in UNTOLD)
    return options_text(options, names, max_iter=options.iterations)


def explain(group: NDArray[np.void], request: Request[Task, ClusterOptions]) -> Document:
    """Explains the training of one group."""
    options = request.options
    asked = "algorithm" in options.given
    return document(
        group,
        request.task.name,
        f"mean {request.task.formula}",
        request.reading,
        plan={
            "algorithm": options.algorithm,
            "description": plan_of(options, options.algorithm, options.clusters),
            "because": "asked for" if asked else "the default of the option `algorithm`",
            "order": "by a seeded hash of the rows' content; equal rows are one",
            "threads": options.threads,
            "max_iter": options.iterations,
            "epsilon": options.epsilon or 0.0,
            "converge": "loss",
            "time": options.time,
        },
    )


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


TASKS = built_in(Task(**in_table("kmeans")))


class ClusterTrials(Trials):
    def complexity(self, options: ClusterOptions) -> float:
        return float(options.clusters)


class Clusters(Learner):
    """Centres of clusters, to which the squared distances of rows are least."""

    tasks = TASKS
    options = OPTIONS
    facts = Facts(
        weighs=True,
        orders=True,
        sizes=(
            ("`clusters` of `kmeans`", f"{MOST_CLUSTERS:,}"),
            ("numbers of a model of `kmeans`, features times `clusters`", f"{MOST:,}"),
        ),
    )

    trials = ClusterTrials()

    def train(
        self, groups: Groups, request: Request[Task, ClusterOptions], memory: int
    ) -> Iterator[Models]:
        return train(groups, request, memory)

    def explain(
        self, groups: Groups, request: Request[Task, ClusterOptions], memory: int = 0
    ) -> Iterator[str]:
        refuse_offsets(groups, request.task.name)
        refuse_wide(groups, rules_of(request.options))
        for group in np.split(groups, len(groups)):
            yield format_explanation(explain(group, request), request.options.format)


LEARNERS = (Clusters(),)
