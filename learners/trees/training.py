"""The task `gbdt`: a batch of groups in, a batch of boosted trees out.

The objective and its sources are in `kernels/native/trees/api.h`, the layout of a model's `coef`
in `forest.py`. A model's `intercept` is the margin before the first tree, and its `classes` are
those of the logistic objective. With more than two classes, `coef` has the margins.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError, RowsError
from tuskml.kernels import passes
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.softmax import classes_of as labels_of
from tuskml.kernels.structures import OFFSETS
from tuskml.kernels.trees.boosting import Forest, Rows, Targets, boost
from tuskml.learners import events
from tuskml.learners.classes import (
    check_classes,
    class_fields,
    classes_in,
    margin_of_one_class,
    positive_class,
    refuse_large,
    refuse_no_classes,
    squares_vanish,
    within_doubles,
)
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.models import (
    Lists,
    Models,
    Strings,
    join_models,
    options_text,
    seconds_by_group,
    thin_history,
    threads_text,
)
from tuskml.learners.tasks import Task
from tuskml.learners.trees.constraints import (
    list_bounds,
    list_signs,
    refuse_signed,
    together_of,
    without_names,
)
from tuskml.learners.trees.forest import OBJECTIVES, as_numbers, response_of
from tuskml.learners.trees.options import (
    FOREST_OPTIONS,
    OPTIONS,
    ForestOptions,
    TreeOptions,
    child_rows,
    classifies,
    forest_rules,
    rules_of,
)
from tuskml.learners.trees.warm_start import by_numbering, join_trees, refuse_start, start_forest
from tuskml.learners.validation import apart
from tuskml.schedule import budget, shares

MOST_ROWS = 2**32 - 1
"""Rows of a group, whose numbers have 32 bits."""
MOST_CLASSES = 1000
"""Classes of a group; `TUSK_MOST_OUTPUTS` of `udas/scalars/models/score.h`."""
MOST_TOGETHER = 1 << 24
"""Cells of the groups that train in one call, unless one of them has more."""
GROUPS_TOGETHER = 256
"""Groups that train in one call. Their trees are in memory several times."""
LEAST_WEIGHT = 1e-270
"""Mean weight of rows below which sums over them are too small for doubles."""
CONSTANT = ("out of range", "one class")
"""Statuses of models whose trees are left out."""
STATUSES = (
    "ok",
    "early stop",
    "no split",
    "diverged",
    "too few rows",
    "out of range",
    "one class",
)


def train(
    groups: NDArray[np.void], request: Request[Task, TreeOptions], memory: int
) -> Iterator[Models]:
    """Trains each of the groups; models carry their groups' indices in `groups`."""
    refuse_rows(groups, request.task.name)
    with passes.watching_sigint():
        for alike, chosen in without_names(groups, request):
            for places in together(groups[alike]):
                refuse_start(alike[places], chosen)
                for own, numbered in by_numbering(alike[places], chosen):
                    by_level = categories_of(groups[own], own, request)
                    refuse_signed(by_level, list_signs(chosen.options.monotone))
                    models = train_together(groups[own], numbered, memory, by_level)
                    yield models.renumber(own[models.group])


def categories_of(
    groups: NDArray[np.void], places: NDArray[np.intp], request: Request[Task, TreeOptions]
) -> NDArray[np.uint8] | None:
    """Tests which features of groups of one width are categories, (G, d); None: none.

    places: indices of these groups in the request.
    """
    width, listed = int(groups["dim"][0]), request.options.categorical
    if request.by_level is not None:
        flags = b"".join(request.by_level[place] for place in places)
        return np.frombuffer(flags, np.uint8).reshape(len(groups), width)
    if not listed:
        return None
    if listed[-1] > width:
        raise DataError(
            f"option 'categorical' lists feature {listed[-1]} and rows have {width} features, "
            f"expected places from 1 to {width}"
        )
    found = np.zeros((len(groups), width), np.uint8)
    found[:, np.array(listed) - 1] = 1
    return found


def refuse_rows(groups: NDArray[np.void], task: str) -> None:
    """Raises DataError for rows that trees cannot have, OptionError for offsets."""
    if (groups["kind"] >= 2).any():
        raise DataError(f"features of '{task}' are a list, got sparse(...)")
    if task == "random_forest":
        refuse_offsets(groups, task)
    most = int(groups["n_rows"].max())
    if most > MOST_ROWS:
        raise DataError(f"a group has {most:,} rows, '{task}' takes at most {MOST_ROWS:,}")


def together(groups: NDArray[np.void]) -> Iterator[NDArray[np.intp]]:
    """Places of the groups of one width and kind, in parts that fit into memory side by side."""
    _, shape = np.unique(np.stack([groups["dim"], groups["kind"]]), axis=1, return_inverse=True)
    for number in range(int(shape.max()) + 1):
        places = np.flatnonzero(shape == number)
        cells = np.cumsum(groups["n_rows"][places] * groups["dim"][places])
        calls = cells // MOST_TOGETHER + np.arange(len(places)) // GROUPS_TOGETHER
        yield from np.split(places, np.flatnonzero(np.diff(calls)) + 1)


def train_together(
    groups: NDArray[np.void],
    request: Request[Task, TreeOptions],
    memory: int,
    by_level: NDArray[np.uint8] | None,
) -> Models:
    """Trains groups of one width and kind."""
    options = request.options
    shares.note_plan(plan_of(options))
    threads, mark = budget.threads(options.threads), passes.cancel_mark()
    rows = Pass(groups, int(classifies(options)), threads=threads, cancel_mark=mark)
    given = Rows(groups, rows, rows.labels(), by_level=by_level)
    refuse_labels(given, request)
    parts = []
    for which, classes in by_classes(given, options):
        parts.append(grow(given.of(which, classes), request, memory).renumber(which))
    return parts[0] if len(parts) == 1 else join_models(parts)


def refuse_labels(given: Rows, request: Request[Task, TreeOptions]) -> None:
    """Raises DataError for labels that the objective does not have."""
    options, labels = request.options, given.labels
    monotone = list_signs(options.monotone)
    width = int(given.groups["dim"][0])
    if monotone is not None and len(monotone) != width:
        raise DataError(
            f"option 'monotone' has {len(monotone)} signs and rows have {width} features, "
            "expected a sign for each"
        )
    allowed = OBJECTIVES[options.objective].allowed
    if allowed is not None and not allowed.holds(labels["low"]).all():
        raise RowsError(allowed.refusal(float(labels["low"].min())))
    if not classifies(options):
        return
    if options.classes is not None:
        check_classes(replace(request.task, classifies=True), options, labels)
    refuse_large(request.task, labels)


def by_classes(
    given: Rows, options: TreeOptions
) -> Iterator[tuple[NDArray[np.intp], Floats | None]]:
    """Places of groups with one margin, then of those with as many classes, and these labels."""
    many = given.labels["third_row"] > 0
    if not classifies(options) or not many.any():
        yield np.arange(len(given.groups)), None
        return
    if (given.groups["extras"] & OFFSETS).any():
        raise OptionError(
            "offset is not available with more than two classes, whose margins would all have it, "
            "expected two classes"
        )
    if any(list_signs(options.monotone) or ()):
        raise DataError(
            "option 'monotone' is for numbers and two classes, and label has more than two, whose "
            "probabilities cannot all rise with a feature: leave it out, or train a model of each "
            "class against the others"
        )
    if not many.all():
        yield np.flatnonzero(~many), None
    places = np.flatnonzero(many)
    found, _, sizes = labels_of(given.rows.of(places), MOST_CLASSES)
    refuse_no_classes(found, sizes, MOST_CLASSES, "objective 'squared'")
    for size in sorted(set(sizes)):
        which = [i for i, one in enumerate(sizes) if one == size]
        yield places[which], np.ascontiguousarray([found[i] for i in which])


def grow(given: Rows, request: Request[Task, TreeOptions], memory: int) -> Models:
    """The models of groups with as many classes."""
    began = time.monotonic()
    options, rows = request.options, given.rows
    several = given.classes is not None
    signs, width = list_signs(options.monotone), int(given.groups["dim"][0])
    monotone = None if signs is None else np.array(signs, np.int8)
    with ExitStack() as stack:
        kept, held = rows, None
        if options.validation:
            kept, held = stack.enter_context(apart(rows, request, memory))
            if request.last:
                rows.spend()
        kept = replace(kept, positive=positive_class(options, given.labels))
        rules = replace(rules_of(options, several), spends=int(request.last or held is not None))
        if isinstance(options, ForestOptions):
            rules = forest_rules(rules, options, width)
        before = start_forest(given, options, classifies(options))
        bounds = list_bounds(options.bounds, width, given.by_level)
        together = together_of(options.interaction_constraints, width)
        targets = Targets(given.classes, monotone, given.by_level, before, bounds, together)
        forests = boost(kept, rules, memory, held, targets, before is None)
    events.tell_trained(given.groups)
    models = as_models(given, forests, request, began)
    return models if before is None else extended_models(models, given.groups, before, forests)


def extended_models(
    models: Models, groups: NDArray[np.void], before: Forest, forests: list[Forest]
) -> Models:
    """The models of trees that went on from others, which they have first."""
    whole = [join_trees(before, forest) for forest in forests]
    found = [models.status.pool[code] for code in models.status.code]
    return replace(models, coef=numbers_of(groups, whole, found))


def status_of(forest: Forest, label: np.void, vanish: bool, options: TreeOptions) -> str:
    """The status of one group; vanish: whether squares of its labels do."""
    if classifies(options) and label["low"] == label["high"]:
        return "one class"
    if vanish or not (np.isfinite(forest.base_loss) and np.isfinite(forest.base).all()):
        return "out of range"
    boosts = not isinstance(options, ForestOptions)  # a forest's losses are out of bag
    if boosts and forest.has_diverged(options.patience if options.validation else 0):
        return "diverged"
    light = label["weight"] < LEAST_WEIGHT * label["n_rows"]
    if not np.isfinite(forest.loss).all() or (light and not forest.trees):
        return "out of range"
    if not forest.trees:
        rows = int(label["n_rows"])
        few = rows < 2 * child_rows(options, rows)
        return "too few rows" if few else "no split"
    return "early stop" if forest.iterations < len(forest.loss) else "ok"


def as_models(
    given: Rows, forests: list[Forest], request: Request[Task, TreeOptions], began: float
) -> Models:
    """The models of groups."""
    options, groups, labels = request.options, given.groups, given.labels
    vanish = squares_vanish(labels) & (options.objective in ("squared", "huber"))
    each = zip(forests, labels, vanish, strict=True)
    found = [status_of(forest, label, gone, options) for forest, label, gone in each]
    base, loss = constants(forests, np.array(found) == "one class", labels, options)
    loss[np.array(found) == "out of range"] = np.nan
    return Models.build(
        groups,
        request.task.name,
        coef=numbers_of(groups, forests, found),
        intercept=base,
        **(
            class_fields(classes_in(labels, options, given.classes)) if classifies(options) else {}
        ),
        loss=loss,
        history=history_of(forests),
        iterations=np.array([f.iterations for f in forests]) * ~np.isin(found, CONSTANT),
        converged=np.array([status in ("ok", "early stop") for status in found], np.uint8),
        status=Strings.of(found, STATUSES),
        plan=plan_of(options),
        seconds=seconds_by_group(groups, began),
        options=options_json(options),
    )


def constants(
    forests: list[Forest],
    lone: NDArray[np.bool_],
    labels: NDArray[np.void],
    options: TreeOptions,
) -> tuple[Floats, Floats]:
    """The margins before the first tree and the losses after the last one, (G,).

    A margin is NaN with more than two classes, whose margins are in `coef`. lone: which groups
    have a single class, of which they are certain.
    """
    base = np.array([f.base[0] if len(f.base) == 1 else np.nan for f in forests])
    if not classifies(options):
        link = np.log if response_of(options.objective) == "exp" else None
        base = within_doubles(base, labels, link)
    loss = np.array([f.loss[f.iterations - 1] if f.iterations else f.base_loss for f in forests])
    if lone.any():
        odds = margin_of_one_class(options, labels)
        shares = options.objective == "gini"
        base = np.where(lone, np.sign(odds) / 2 if shares else odds, base)
        loss = np.where(lone, 0.0, loss)
    return base, np.where(np.isfinite(loss), loss, np.nan)


def numbers_of(groups: NDArray[np.void], forests: list[Forest], statuses: list[str]) -> Lists:
    """The trees of each group as numbers; for a constant model none, except the margins of more
    than two classes.
    """
    lists = [
        np.empty(0)
        if status in CONSTANT and len(forest.base) == 1
        else as_numbers(forest, int(width))
        for forest, status, width in zip(forests, statuses, groups["dim"], strict=True)
    ]
    return Lists.of_parts(lists)


def history_of(forests: list[Forest]) -> Lists:
    """The mean training loss of each group after each of its trees."""
    table = np.full((max(len(forest.loss) for forest in forests), len(forests)), np.nan)
    for place, forest in enumerate(forests):
        table[: len(forest.loss), place] = np.where(np.isfinite(forest.loss), forest.loss, np.nan)
    return thin_history(list(table), len(forests))


def plan_of(options: TreeOptions) -> str:
    """Describes the training in one line."""
    behind = threads_text(options)
    if isinstance(options, ForestOptions):
        return f"random forest, {options.objective} loss, {options.trees} trees, {behind}"
    return (
        f"histogram boosting, {options.objective} loss, {options.trees} trees of at most "
        f"{options.num_leaves} leaves, {behind}"
    )


def options_json(options: TreeOptions) -> str:
    """The options in force, as JSON that starts with the version of the format."""
    table = FOREST_OPTIONS if isinstance(options, ForestOptions) else OPTIONS
    return options_text(options, (name for name in table.by_name if name not in UNTOLD))


UNTOLD = ("format", "feature_names", "histogram", "warm_start", "bounds")
"""Options that are not about the training, or are long."""
