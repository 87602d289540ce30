"""Trains trees of a group whose rows are split over workers.

The trees are those of all rows in one process (`kernels/trees/parted/boosting.py`, `bagging.py`).

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2, sampling.
"""

import math
import time
from dataclasses import replace

import numpy as np

from tuskml.errors import OptionError
from tuskml.kernels import passes
from tuskml.kernels.parts.dealing import holding_of
from tuskml.kernels.parts.sharded import Parts, ShardedPass, of_parts
from tuskml.kernels.structures import OFFSETS
from tuskml.kernels.trees.boosting import NODE, SIDE, Rows, Targets
from tuskml.kernels.trees.parted.bagging import ADDEND, bag_by_parts, branch_rows
from tuskml.kernels.trees.parted.boosting import boost_by_parts
from tuskml.kernels.trees.parted.holding import Hold
from tuskml.kernels.trees.parted.ranks import ROUNDS
from tuskml.learners.classes import positive_class
from tuskml.learners.held_out import count_held_out
from tuskml.learners.learner import Request
from tuskml.learners.models import Models, Strings, join_models
from tuskml.learners.tasks import Task
from tuskml.learners.trees import training
from tuskml.learners.trees.constraints import (
    list_bounds,
    list_signs,
    refuse_signed,
    together_of,
    without_names,
)
from tuskml.learners.trees.options import (
    NO_LIMIT,
    ForestOptions,
    TreeOptions,
    child_rows,
    classifies,
    forest_rules,
    in_units_of,
    row_fraction,
    rules_of,
)
from tuskml.learners.trees.warm_start import by_numbering, refuse_start, start_forest
from tuskml.schedule import budget

CELL = 24
"""Bytes of a bin's sums."""


def exchanges(options: TreeOptions, trees: int, n_features: int) -> tuple[int, float]:
    """The number of requests to parts, and the mean bytes of their answers, if all leaves are
    split: for each tree its losses, its root, and then several leaves at once.
    """
    leaves, rounds = 1, 2
    while leaves < options.num_leaves:
        leaves += min(leaves, (options.num_leaves - leaves + 1) // 2)
        rounds += 1
    if options.objective == "quantile":  # of each leaf
        rounds += len(ROUNDS) + 1
    if options.goss:  # sizes, and chances
        rounds += 2 * len(ROUNDS)
    sums = leaves / rounds
    return max(trees, 1) * rounds, CELL * options.max_bins * n_features * sums


def exchanges_of_forest(
    options: TreeOptions, trees: int, n_features: int, rows: int
) -> tuple[int, float]:
    """As `exchanges`, for a random forest on `rows` rows, an approximate upper bound.

    Without a limit of leaves, leaves of many rows are split by sums, and the rows of the others
    are sent, and then the tree. Otherwise two leaves are split in a round, as the random features
    make the next gain hard to predict: a tree of 64 leaves takes 34 rounds.
    """
    sums = CELL * options.max_bins * n_features
    if options.num_leaves < NO_LIMIT:
        rounds = 2 + math.ceil(options.num_leaves / 2)
        return max(trees, 1) * rounds, sums * options.num_leaves / rounds
    drawn = math.ceil(row_fraction(options, rows) * rows)
    branches = math.ceil(drawn / branch_rows(n_features))
    rounds, splits = 2 + 3 * branches, 2 * branches
    nodes = 2 * drawn / child_rows(options, drawn)
    sent = drawn * (n_features + ADDEND) + nodes * (NODE.itemsize + SIDE.itemsize)
    return max(trees, 1) * rounds, (sums * splits + sent) / rounds


def train_by_parts(parts: Parts, request: Request[Task, TreeOptions]) -> Models | None:
    """The model of the group; None where it has no usable row."""
    groups = of_parts(parts)
    if groups is None:
        return None
    training.refuse_rows(groups, request.task.name)
    if (groups["extras"] & OFFSETS).any():
        raise OptionError(
            f"offset of task '{request.task.name}' needs all rows of a group in one place, "
            "expected groups that are not split over workers"
        )
    ((places, request),) = without_names(groups, request)
    refuse_start(places, request)
    ((places, request),) = by_numbering(places, request)
    by_level = training.categories_of(groups, places, request)
    refuse_signed(by_level, list_signs(request.options.monotone))
    options = request.options
    by_class = classifies(options)
    rows = ShardedPass(
        groups, int(by_class), threads=budget.threads(options.threads),
        cancel_mark=passes.cancel_mark(), parts=parts, classifies=by_class,
    )  # fmt: skip
    given = Rows(groups, rows, rows.labels(), by_level=by_level)
    training.refuse_labels(given, request)
    models = [
        grown(given.of(which, classes), request)
        for which, classes in training.by_classes(given, options)
    ]
    return models[0] if len(models) == 1 else join_models(models)


def grown(given: Rows, request: Request[Task, TreeOptions]) -> Models:
    """The model of the group, whose classes are known."""
    began = time.monotonic()
    options, rows = request.options, given.rows
    assert isinstance(rows, ShardedPass)
    signs, width = list_signs(options.monotone), int(given.groups["dim"][0])
    monotone = None if signs is None else np.array(signs, np.int8)
    bounds = list_bounds(options.bounds, width, given.by_level)
    before = start_forest(given, options, classifies(options))
    together = together_of(options.interaction_constraints, width)
    targets = Targets(given.classes, monotone, given.by_level, before, bounds, together)
    positive = positive_class(options, given.labels)
    rows_in_all = int(given.groups["n_rows"][0])
    n = int(count_held_out(given.groups["n_rows"], options.validation or 0.0)[0])
    rules = rules_of(options, given.classes is not None)
    rules = in_units_of(rules, given.labels[0], rows_in_all - n)
    hold = Hold(holding_of(rows, options.seed, n), n) if n else None
    rows = replace(rows, positive=positive)
    if isinstance(options, ForestOptions):
        forest = bag_by_parts(rows, forest_rules(rules, options, width), targets)
    else:
        forest = boost_by_parts(rows, rules, targets, hold)
    models = training.as_models(given, [forest], request, began)
    if before is not None:
        models = training.extended_models(models, given.groups, before, [forest])
    plan = training.plan_of(options).rpartition(", ")[0]  # without threads, which are the workers'
    return replace(models, plan=Strings.same(f"{plan}, by sums over parts", 1))
