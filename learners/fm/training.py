"""The task `fm`: a batch of groups in, a batch of factorization machines out.

The objective and its sources are in `kernels/native/fm/api.h`, the layout of a model's `coef` in
`options.py`.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.fm import (
    ALGORITHMS,
    DIVERGED,
    LATE,
    LOGISTIC,
    OUT_OF_RANGE,
    PATIENCE,
    SQUARED,
    MachineResult,
    Rules,
    train_machines,
)
from tuskml.kernels.library import Charges
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.rows.renumber import Renumbering, renumber
from tuskml.learners import events, list_size
from tuskml.learners.classes import (
    check_classes,
    class_fields,
    classes_in,
    margin_of_one_class,
    positive_class,
    squares_vanish,
    within_doubles,
)
from tuskml.learners.fm.options import HEAD, OPTIONS, USUAL_ENTRIES, MachineOptions, write_head
from tuskml.learners.learner import Request, refuse_offsets
from tuskml.learners.list_size import MOST, refuse_too_long, restore_lists
from tuskml.learners.models import (
    Lists,
    Models,
    Strings,
    far_from_zero,
    options_text,
    seconds_by_group,
    thin_history,
    threads_text,
)
from tuskml.learners.tasks import Task
from tuskml.learners.validation import apart, pass_until, renumber_parts
from tuskml.schedule import shares
from tuskml.schedule.budget import look_at_limits

STATUSES = (
    "ok",
    "rounded feature",
    "not converged",
    "early stop",
    "time limit",
    "diverged",
    "too few rows",
    "out of range",
    "one class",
)
CONSTANT = ("not converged", "diverged", "too few rows", "out of range", "one class")
"""Statuses of constant models."""
FAR = 1e5
"""Deviations from zero beyond which products of features lose half of the digits."""
ABOVE, WORSE = 1 + 1e-6, 1.1
"""Times the loss of the best constant, above which a training is no better than that constant, and
above which it has diverged."""
UNTOLD = ("format", "feature_names", "histogram")
"""Options that are not about the training."""


def models_of(
    rows: Pass,
    labels: NDArray[np.void],
    left_out: NDArray[np.bool_],
    found: MachineResult,
    request: Request[Task, MachineOptions],
) -> Models:
    """Makes the models of groups from their labels (LABELS) and trained machines; left_out:
    (G,).
    """
    options, n = request.options, len(labels)
    status = statuses(labels, left_out, found, options)
    status = np.where((status == "ok") & far_from_zero(rows, FAR), "rounded feature", status)
    flat = np.isin(status, CONSTANT)
    margin, loss = constants(labels, options)
    loss = np.where(flat, loss, found.about["loss"])
    coef = [
        np.empty(0) if constant or len(one) == HEAD else write_head(one, found.rank)
        for one, constant in zip(found.coef, flat, strict=True)
    ]
    history = np.where(flat[:, None], np.nan, found.history[:, : found.about["epochs"].max()])
    return Models.build(
        rows.groups,
        request.task.name,
        coef=Lists.of_parts(coef),
        intercept=np.where(flat, margin, found.about["intercept"]),
        **(class_fields(classes_in(labels, options, None)) if options.classifies else {}),
        loss=np.where(np.isfinite(loss) & (status != "out of range"), loss, np.nan),
        history=thin_history(list(history.T), n),
        iterations=np.where(flat, 0, found.about["kept"]),
        converged=np.asarray(~flat, np.uint8),
        status=Strings.of(status, STATUSES),
        plan=plan_of(options),
        options=options_json(options),
    )


def statuses(
    labels: NDArray[np.void],
    left_out: NDArray[np.bool_],
    found: MachineResult,
    options: MachineOptions,
) -> NDArray[np.str_]:
    """The status of each group, (G,)."""
    about = found.about
    lone = (labels["low"] == labels["high"]) & options.classifies
    least = np.finfo(np.float32).tiny
    worse = ~(about["loss"] <= WORSE * about["base_loss"] + least)  # true for NaN too
    above = about["loss"] > ABOVE * about["base_loss"] + least
    tiny = squares_vanish(labels) & (not options.classifies)
    finite = np.array([bool(np.isfinite(one).all()) for one in found.numbers])
    finite &= np.isfinite(about["intercept"])
    return np.select(
        [
            lone,
            left_out,
            (about["ending"] == OUT_OF_RANGE) | tiny,
            (about["ending"] == DIVERGED) | worse | ~finite,
            about["ending"] == LATE,
            above,
            (about["ending"] == PATIENCE) | (about["kept"] < about["epochs"]),
        ],
        [
            "one class",
            "too few rows",
            "out of range",
            "diverged",
            "time limit",
            "not converged",
            "early stop",
        ],
        "ok",
    )


def constants(labels: NDArray[np.void], options: MachineOptions) -> tuple[Floats, Floats]:
    """The margins and the losses of the best constants, (G,)."""
    if not options.classifies:
        return within_doubles(labels["mean"], labels), labels["variance"] / 2
    lone = labels["low"] == labels["high"]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = labels["weight_high"] / labels["weight"]
        odds = np.log(share) - np.log1p(-share)
        entropy = -share * np.log(share) - (1 - share) * np.log1p(-share)
    margin = np.where(lone, margin_of_one_class(options, labels), odds)
    return margin, np.where(lone, 0.0, entropy)


def plan_of(options: MachineOptions) -> str:
    """Describes the training in one line."""
    how = "in order" if options.keeps_order else "sharing the weights of large sparse groups"
    return (
        f"{options.algorithm}, {options.objective} loss, vectors of {options.rank}, "
        f"{options.epochs} epoch{'s' if options.epochs > 1 else ''}, "
        f"{threads_text(options)} {how}"
    )


def options_json(options: MachineOptions) -> str:
    """The options in force, as JSON that starts with the version of the format."""
    names = (name for name in OPTIONS.by_name if name not in UNTOLD)
    return options_text(options, names, learning_rate=options.rate)


def train(
    groups: NDArray[np.void], request: Request[Task, MachineOptions], memory: int
) -> Iterator[Models]:
    """Trains each of the groups; models carry their groups' indices in `groups`.

    In sparse groups with few but large ids, only ids that occur take memory.
    """
    refuse_rows(groups, request)
    mark = passes.cancel_mark()
    with (
        renumber(groups, memory, mark, bool(request.options.validation)) as seen,
        renumber_parts(request, seen, memory) as asked,
        passes.watching_sigint(),
    ):
        for places in together(seen.groups, asked.options):
            models = train_together(seen.groups[places], asked, memory)
            models = models.renumber(places[models.group])
            yield from restore_lists(models, seen, groups, memory, longer)


def longer(model: Models, seen: Renumbering, width: int, memory: int) -> Models:
    """A machine with numbers for each id below the width: 0 for those that do not occur."""
    widths, ids = np.array([width], np.int64), seen.ids[int(model.group[0])]
    if not len(model.coef.values):  # a constant
        return replace(model, n_features=widths)
    each = (len(model.coef.values) - HEAD) // len(ids)
    seen.listed += width * each
    refuse_too_long(width * each, len(ids), seen.listed, memory, ", or a lower 'rank'")
    coef = Charges(memory).empty(HEAD + width * each)
    coef[HEAD:] = 0.0
    coef[HEAD:].reshape(width, each)[ids] = model.coef.values[HEAD:].reshape(len(ids), each)
    listed = Lists(write_head(coef, each - 1), np.array([0, len(coef)], np.int64))
    return replace(model, coef=listed, n_features=widths)


def refuse_rows(groups: NDArray[np.void], request: Request[Task, MachineOptions]) -> None:
    """Raises DataError for rows that a machine cannot have, OptionError for offsets."""
    refuse_offsets(groups, request.task.name)
    most, each = int(groups["dim"].max()), request.options.rank + 1
    if most * each > MOST:
        raise DataError(
            f"a group has {most:,} features, which make {most * each:,} numbers of a model with "
            f"rank {request.options.rank}, '{request.task.name}' takes at most {MOST:,}: expected "
            "a lower 'rank', or fewer ids, as hash_features makes"
        )


def together(groups: NDArray[np.void], options: MachineOptions) -> Iterator[NDArray[np.intp]]:
    """Places of the groups that train in one call."""
    numbers = groups["dim"].astype(np.int64) * (options.rank + 1) + options.epochs
    return list_size.together(groups, numbers)


def train_together(
    groups: NDArray[np.void], request: Request[Task, MachineOptions], memory: int
) -> Models:
    """Trains groups of one kind of rows."""
    began = time.monotonic()
    options = request.options
    shares.note_plan(plan_of(options))
    look_at_limits(memory)
    rows = pass_until(groups, LOGISTIC if options.classifies else SQUARED, options, began)
    labels = rows.labels()
    check_classes(replace(request.task, classifies=options.classifies), options, labels)
    left_out = constant(rows, labels, options)
    found = fit(rows, labels, left_out, request, memory)
    models = models_of(rows, labels, left_out, found, request)
    events.tell_trained(groups, int(found.about["epochs"].max()))
    return replace(models, seconds=seconds_by_group(groups, began))


def constant(rows: Pass, labels: NDArray[np.void], options: MachineOptions) -> NDArray[np.bool_]:
    """Tests which groups are not trained, as they have one class or a single row, (G,)."""
    one_class = (labels["low"] == labels["high"]) & options.classifies
    return np.asarray(one_class | (rows.groups["n_rows"] < 2), np.bool_)


def fit(
    rows: Pass,
    labels: NDArray[np.void],
    left_out: NDArray[np.bool_],
    request: Request[Task, MachineOptions],
    memory: int,
) -> MachineResult:
    """The machines of groups, from copies of rows in an order that depends on their content
    alone."""
    options = request.options
    with apart(rows, request, memory) as (kept, held):
        return train_machines(
            replace(kept, positive=positive_class(options, labels)),
            rules_of(options),
            memory,
            held,
            np.ascontiguousarray(left_out, np.uint8),
            HEAD,
        )


def rules_of(options: MachineOptions) -> Rules:
    """The options as the kernels have them."""
    return Rules(
        loss=LOGISTIC if options.classifies else SQUARED,
        algorithm=ALGORITHMS.index(options.algorithm),
        rank=options.rank,
        epochs=options.epochs,
        patience=options.patience,
        lock_free=not options.keeps_order,
        learning_rate=options.rate,
        entries=0.0 if options.learning_rate else USUAL_ENTRIES,
        l2=options.l2,
        l2_factors=options.l2_factors,
        init=options.init,
        seed=options.seed,
    )
