"""The task `mlp`: a batch of groups in, a batch of neural nets out.

The objective and its sources are in `kernels/native/nets/api.h`, the layout of a model's `coef`
in `layers.py`. A model's `intercept` is 0, or the margin of a constant model, which has no `coef`.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.gpu import cuda, placement
from tuskml.kernels.gpu.cuda import unless_it_fails
from tuskml.kernels.gpu.nets.training import train_on_device
from tuskml.kernels.nets.training import (
    ACTIVATIONS,
    ALGORITHMS,
    LOGISTIC,
    SCHEDULES,
    SOFTMAX,
    SQUARED,
    ByGroup,
    NetResult,
    Rules,
    train_nets,
)
from tuskml.kernels.passes import Pass
from tuskml.kernels.softmax import classes_of
from tuskml.learners import events
from tuskml.learners.classes import check_classes, positive_class, refuse_large, refuse_no_classes
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.models import Models
from tuskml.learners.nets.layers import Tables, by_shape, class_weights, sparse_steps, warm_start
from tuskml.learners.nets.options import NetOptions
from tuskml.learners.nets.outcome import Alike, head_of_net, models_of, plan_of
from tuskml.learners.tasks import Task
from tuskml.learners.validation import apart
from tuskml.schedule import budget, shares
from tuskml.schedule.devices import gpu_in_turn

MOST_ROWS = 2**32 - 1
"""Rows of a group, whose numbers have 32 bits."""
MOST_CLASSES = 1000
MOST_WEIGHTS = 1 << 24
"""Weights of a net."""
SPARSE = 2
"""The first kind of groups whose rows are sparse."""
MOST_TOGETHER = 1 << 24
"""Numbers of the groups that train in one call, unless one of them has more."""


def train(
    groups: NDArray[np.void], request: Request[Task, NetOptions], memory: int
) -> Iterator[Models]:
    """Trains each of the groups; models carry their groups' indices in `groups`."""
    refuse_rows(groups, request)
    with passes.watching_sigint():
        for places, tables in together(groups, request):
            some = groups[places]
            for models in train_together(some, request, memory, tables):
                yield models.renumber(places[models.group])


def refuse_rows(groups: NDArray[np.void], request: Request[Task, NetOptions]) -> None:
    """Raises DataError for rows that nets cannot have, OptionError for offsets."""
    refuse_offsets(groups, request.task.name)
    if request.categories is None and (groups["kind"] >= SPARSE).any():
        raise DataError("features of 'mlp' are a list, got sparse(...)")
    most = int(groups["n_rows"].max())
    if most > MOST_ROWS:
        raise DataError(f"a group has {most:,} rows, 'mlp' takes at most {MOST_ROWS:,}")


def together(
    groups: NDArray[np.void], request: Request[Task, NetOptions]
) -> Iterator[tuple[NDArray[np.intp], Tables]]:
    """Places of the groups of one width, kind and tables, in parts that fit into memory side by
    side."""
    options = request.options
    for places, tables in by_shape(groups, request):
        width = int(groups["dim"][places[0]])
        rules = rules_of(options, SQUARED, 1, tables)
        inputs = width - sum(levels - 1 for _, levels, _ in tables)
        each = rules.weights(width) + options.epochs
        numbers = np.cumsum(groups["n_rows"][places] * inputs + each)
        for some in np.split(places, np.flatnonzero(np.diff(numbers // MOST_TOGETHER)) + 1):
            yield some, tables


def train_together(
    groups: NDArray[np.void], request: Request[Task, NetOptions], memory: int, tables: Tables = ()
) -> Iterator[Models]:
    """Trains groups of one width, kind and tables."""
    began = time.monotonic()
    options = request.options
    shares.note_plan(plan_of(options))
    threads, mark = budget.threads(options.threads), passes.cancel_mark()
    rows = Pass(groups, int(classifies(options)), threads=threads, cancel_mark=mark)
    labels = rows.labels()
    for kind in kinds_of(rows, labels, request):
        alike = replace(kind, tables=tables)
        some = rows.of(alike.which)
        found, own = fit(some, labels[alike.which], alike, request, memory)
        events.tell_trained(some.groups)
        models = models_of(some, own, alike, found, request)
        seconds = time.monotonic() - began
        share = some.groups["n_rows"] / max(int(groups["n_rows"].sum()), 1)
        yield replace(models, seconds=seconds * share).renumber(alike.which)


def kinds_of(
    rows: Pass, labels: NDArray[np.void], request: Request[Task, NetOptions]
) -> Iterator[Alike]:
    """The groups by their loss and number of classes. Raises DataError for labels that are no
    classes.
    """
    options, everyone = request.options, np.arange(rows.n_groups)
    if not classifies(options):
        yield Alike(everyone, SQUARED)
        return
    refuse_large(request.task, labels)
    many = (labels["third_row"] > 0) & (options.classes is None)
    two = everyone[~many]
    if len(two):
        check_classes(replace(request.task, classifies=True), options, labels[two])
        yield Alike(two, LOGISTIC)
    if not many.any():
        return
    several = everyone[many]
    found, counts, sizes = classes_of(rows.of(several), MOST_CLASSES)
    refuse_no_classes(found, sizes, MOST_CLASSES, "objective 'squared'")
    for size in sorted(set(sizes)):
        which = np.flatnonzero(np.array(sizes) == size)
        label, count = (np.array([one[g] for g in which.tolist()]) for one in (found, counts))
        yield Alike(several[which], SOFTMAX, label, count)


def fit(
    rows: Pass,
    labels: NDArray[np.void],
    alike: Alike,
    request: Request[Task, NetOptions],
    memory: int,
) -> tuple[NetResult, NDArray[np.void]]:
    """The nets of groups with the same loss and number of outputs, from rows in an order that
    depends on their content alone; and the labels, whose mean is the sum in that order."""
    options = request.options
    with apart(rows, request, memory) as (kept, held):
        if alike.loss == SQUARED:
            labels = labels.copy()
            labels["mean"] = kept.labels()["mean"]
        return fit_in_order(kept, labels, alike, options, memory, held), labels


def fit_in_order(
    rows: Pass,
    labels: NDArray[np.void],
    alike: Alike,
    options: NetOptions,
    memory: int,
    held: Pass | None = None,
) -> NetResult:
    """Trains from rows in their current order."""
    outputs = 1 if alike.classes is None else alike.classes.shape[1]
    rules = rules_of(options, alike.loss, outputs, alike.tables)
    refuse_weights(rules.weights(rows.n_features), rows.n_features)
    one = (labels["low"] == labels["high"]) & (alike.loss != SQUARED)
    left_out = np.ascontiguousarray(one, np.uint8)
    given = ByGroup(
        held,
        alike.classes,
        warm_start(options, head_of_net(rows, options, alike), len(labels), alike.classes),
        left_out,
        class_weights(options, labels, alike.loss, alike.many),
    )
    rows = replace(rows, positive=positive_class(options, labels))
    return train_somewhere(rows, rules, memory, given, options)


def refuse_weights(weights: int, inputs: int) -> None:
    """Raises DataError for a net that is too large."""
    if weights > MOST_WEIGHTS:
        raise DataError(
            f"the net has {weights:,} weights with {inputs:,} features, 'mlp' takes at most "
            f"{MOST_WEIGHTS:,}: expected smaller 'layers' or fewer features"
        )


def classifies(options: NetOptions) -> bool:
    """Returns whether labels are classes."""
    return options.objective == "logistic"


def rules_of(options: NetOptions, loss: int, outputs: int, tables: Tables = ()) -> Rules:
    """The options as the kernels have them."""
    return Rules(
        loss=loss,
        activation=ACTIVATIONS.index(options.activation),
        algorithm=ALGORITHMS.index(options.algorithm),
        schedule=SCHEDULES.index(options.schedule),
        outputs=outputs,
        hidden=options.layers,
        epochs=options.epochs,
        batch=options.batch_size,
        patience=options.patience,
        decay_every=options.decay_epochs,
        learning_rate=options.rate,
        decay=options.decay,
        momentum=options.momentum,
        weight_decay=options.weight_decay,
        dropout=options.dropout,
        seed=options.seed,
        tables=tables,
        seconds=options.time or 0.0,
        sparse=sparse_steps(options, tables),
    )


def train_somewhere(
    rows: Pass, rules: Rules, memory: int, given: ByGroup, options: NetOptions
) -> NetResult:
    """Trains the net of each group. Raises OptionError if 'gpu' is required and impossible."""
    what = "a net of rows with weights" if rows.has_weights else without_arrays(options, rules)
    if what is not None:
        found = placement.without_kernels(what)
    else:
        found = placement.answer(options.device, rows.groups)

    def there() -> NetResult:
        with gpu_in_turn(rows.cancel_mark), cuda.failures():
            return train_on_device(cuda.device(), rows, rules, given)

    def here() -> NetResult:
        return train_nets(rows, rules, memory, given)

    return unless_it_fails(options.device, there, here) if found.is_gpu(options.device) else here()


def without_arrays(options: NetOptions, rules: Rules) -> str | None:
    """The part of a request that only the CPU supports, as a sentence's subject."""
    for name in ("dropout", "validation", "time"):
        if getattr(options, name):
            return f"a net with option '{name}'"
    return "a net with embedded categories" if rules.tables else None
