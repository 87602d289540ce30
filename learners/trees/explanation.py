"""The expected cost of training trees, from a few timed trees."""

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.passes import LARGE, Floats, Pass
from tuskml.kernels.segments import SLAB, charged_bytes, dense_charged, dense_row_bytes, value_size
from tuskml.kernels.trees.boosting import Rows, Targets, boost
from tuskml.learners.classes import positive_class
from tuskml.learners.explaining import Document, document, sole_candidate
from tuskml.learners.held_out import count_held_out
from tuskml.learners.learner import Request
from tuskml.learners.tasks import Task
from tuskml.learners.trees import training
from tuskml.learners.trees.forest import OBJECTIVES
from tuskml.learners.trees.options import (
    ForestOptions,
    TreeOptions,
    bin_rows,
    child_rows,
    classifies,
    forest_rules,
    row_fraction,
    rules_of,
)
from tuskml.schedule import budget

SAMPLE = 1 << 22
"""Cells of the rows that are tried, at most: enough that all threads work."""
SAMPLE_OF_WHOLE_TREES = LARGE + (1 << 12)
"""The same for trees without a limit of leaves, which take as long as many small ones."""
FEW, MORE, MOST = 2, 6, 50
"""Iterations of the trials: one has FEW, another at least MORE, of small groups up to MOST."""
LARGE_FOREST = 1, 3
"""The same for whole trees of a sample."""
TIMES = 3
"""Runs of a trial, the shortest of which counts: other programs may use the machine. Whole trees
of large groups have one."""


def explain(group: NDArray[np.void], request: Request[Task, TreeOptions], memory: int) -> Document:
    """Explains the training of one group, with its expected seconds and memory."""
    return document(
        group,
        request.task.name,
        f"mean {OBJECTIVES[request.options.objective].formula}, m = b + the sum of the trees",
        request.reading,
        plan=plan(request),
        candidates=[candidate(group, request, memory)],
    )


def plan(request: Request[Task, TreeOptions]) -> dict[str, object]:
    """Describes the growth of the trees."""
    options = request.options
    return {
        "algorithm": request.task.name,
        "description": training.plan_of(options),
        "because": "trees have one algorithm",
        "order": "rows as they come, which changes no bit",
        "threads": options.threads,
        "max_iter": options.trees,
        "epsilon": 0.0,
        "converge": "loss",
        "time": None,
    }


@dataclass(frozen=True)
class Seconds:
    """Seconds of one group: before the first tree, and per iteration; outputs: trees of an
    iteration.
    """

    start: float
    each: float
    outputs: int


def candidate(
    group: NDArray[np.void], request: Request[Task, TreeOptions], memory: int
) -> dict[str, Any]:
    """The one plan as `explain_training` lists candidates."""
    options = request.options
    taken = measure_training(group, request, memory)
    most = float(options.trees)
    least = min(options.patience + 1.0, most) if options.validation else most
    needed = most_bytes(group, options, taken.outputs)
    return sole_candidate(request.task.name, least, most, taken.start, taken.each, needed)


def grows_whole(options: TreeOptions, n: int) -> bool:
    """Returns whether trees of n rows grow until their leaves have too few rows."""
    return not options.max_depth and options.num_leaves >= n


def growth(options: TreeOptions, n: int, tried: int) -> float:
    """The ratio of the time of a tree of n rows to that of `tried` rows: each level of a tree
    reads all rows, and whole trees get deeper with them.
    """
    levels = math.log(n) / math.log(tried) if grows_whole(options, n) and tried > 2 else 1.0
    return n / tried * levels


def measure_training(
    group: NDArray[np.void], request: Request[Task, TreeOptions], memory: int
) -> Seconds:
    """Seconds of the training of one group: those of a sample, times the rows beyond it."""
    options = request.options
    threads, mark = budget.threads(options.threads), passes.cancel_mark()
    rows = Pass(group, int(classifies(options)), threads=threads, cancel_mark=mark)
    n, width = int(group["n_rows"][0]), int(group["dim"][0])
    whole = grows_whole(options, n)
    tried = min(n, max((SAMPLE_OF_WHOLE_TREES if whole else SAMPLE) // width, 1))
    given = Rows(group, rows, rows.labels())
    training.refuse_labels(given, request)
    _, labels = next(training.by_classes(given, options))
    positive = positive_class(options, given.labels)
    with ExitStack() as stack:
        if tried < n:
            made, out = rows.shuffle(memory, options.seed, np.array([n - tried]))
            rows = replace(rows, groups=stack.enter_context(made))
            stack.enter_context(out)
        rows = replace(rows, positive=positive)
        longer = min(max(NEAR // (tried * width + 1), MORE), MOST)
        trees = LARGE_FOREST if whole and tried * width > NEAR else (FEW, longer)
        times = 1 if trees == LARGE_FOREST else TIMES
        few, more = (seconds_of(rows, labels, options, memory, some, times) for some in trees)
    each = max(more - few, 0.0) / (trees[1] - trees[0])
    start = max(few - trees[0] * each, 0.0)
    outputs = 1 if labels is None else labels.shape[1]
    return Seconds(start * n / tried, each * growth(options, n, tried), outputs)


def seconds_of(
    rows: Pass,
    classes: Floats | None,
    options: TreeOptions,
    memory: int,
    trees: int,
    times: int,
) -> float:
    """Seconds of `trees` iterations, the least of some runs."""
    rules = rules_of(options, classes is not None)
    if isinstance(options, ForestOptions):
        rules = forest_rules(rules, options, int(rows.groups["dim"][0]))
    rules = replace(rules, trees=trees)
    signs = None if options.monotone is None else np.array(options.monotone, np.int8)
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        boost(rows, rules, memory, None, Targets(classes, signs))
        taken.append(time.perf_counter() - began)
    return min(taken)


# The memory that a training of trees takes, as `explain_training` tells it.


NEAR, NARROW = 1 << 18, 1 << 16
"""Cells of a group whose rows have the numbers of their histogram cells, and rows of one whose
histograms are narrow, as `kernels/native/trees` has them."""
SMALL_ROWS, SMALL_FEATURES = 1023, 256
"""Rows and features of a group that grows in `kernels/native/trees/near`, at most."""


@dataclass(frozen=True)
class Shape:
    """The shape of one group: rows, held-out rows, features, and bytes of a feature and of a
    row.
    """

    rows: int
    held: int
    features: int
    value: int
    row: int

    @classmethod
    def of(cls, group: NDArray[np.void], options: TreeOptions) -> "Shape":
        n, d, kind, extras = (int(group[name][0]) for name in ("n_rows", "dim", "kind", "extras"))
        share = options.validation or 0.0
        held = int(count_held_out(group["n_rows"], share)[0])
        return cls(n, held, d, value_size(kind), int(dense_row_bytes(d, kind, extras)))

    @property
    def large(self) -> bool:
        """Returns whether several threads train it, and whether it gives its features back."""
        return self.rows * self.features >= LARGE


def most_bytes(group: NDArray[np.void], options: TreeOptions, outputs: int) -> int:
    """Peak bytes that the account counts while one group trains, its packed rows included.

    A large float32 group has the most while its rows are put in bins: afterwards its features are
    freed. outputs: trees of an iteration.
    """
    shape = Shape.of(group, options)
    packed, features = dense_charged(group[0])
    copies = sum(
        charged_bytes(n * shape.row) for n in (shape.rows - shape.held, shape.held) if shape.held
    )
    rest = packed - features * shape.large * bool(copies)
    in_bins = copies - shape.rows * shape.features * shape.value * shape.large * bool(copies)
    codes = charged_bytes(shape.rows * shape.features)
    grown = rest - features * shape.large * (not copies) + in_bins + codes
    for size in per_row(shape, options):
        grown += charged_bytes((shape.rows - shape.held) * size)
    grown += charged_bytes(8 * outputs * shape.rows) + charged_bytes(
        12 * (outputs > 1) * shape.rows
    )
    return max(packed + copies, rest + copies + codes, grown + histograms(shape, options))


def per_row(shape: Shape, options: TreeOptions) -> list[int]:
    """Bytes of arrays for each row that trees grow on, besides its bins and margins: gradients,
    orders, labels, draws, and its bins in other forms.
    """
    d = shape.features
    if isinstance(options, ForestOptions):
        return [16, 4, 4, 4, 4, 4, 8, 8, 8]
    forms = d if shape.large else 8 + 3 * d if grows_near(shape) else 2 * d
    if NEAR < shape.rows * d < LARGE:
        forms = 0
    drawn = 12 * (row_fraction(options, shape.rows - shape.held) < 1 or options.goss)
    return [16, 4, 4, drawn, forms, *[8, 8] * (options.objective == "quantile")]


def grows_near(shape: Shape) -> bool:
    """Returns whether the group is as small as those that grow from sets of bits."""
    return shape.rows <= SMALL_ROWS and shape.features <= SMALL_FEATURES


def histograms(shape: Shape, options: TreeOptions) -> int:
    """Bytes of the histograms of the leaves that may still be split."""
    n = shape.rows - shape.held
    of_feature = min(options.max_bins + 1, n // bin_rows(options, n) + 2)
    leaves = min(options.num_leaves, n // child_rows(options, n) + 1)
    if isinstance(options, ForestOptions):  # leaf by leaf, down to those of few rows
        leaves = min(leaves, 2 * max(n // (2 * of_feature), 1).bit_length() + 2)
    elif grows_near(shape):
        return leaves * 8 * (shape.features + 15) // 16 * 16 * of_feature
    cell = 16 if not shape.large and n <= NARROW else 24
    size = (shape.features * of_feature + 8) * cell
    together = min(max(SLAB // size, 1), leaves)
    return -(-leaves // together) * charged_bytes(together * size)
