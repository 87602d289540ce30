"""The models of trained factorization machines, with their statuses."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.fm import DIVERGED, LATE, OUT_OF_RANGE, PATIENCE, MachineResult
from tuskml.kernels.passes import Floats, Pass
from tuskml.learners.classes import (
    class_fields,
    classes_in,
    margin_of_one_class,
    squares_vanish,
    within_doubles,
)
from tuskml.learners.fm.options import HEAD, OPTIONS, MachineOptions, write_head
from tuskml.learners.learner import Request
from tuskml.learners.models import (
    Lists,
    Models,
    Strings,
    far_from_zero,
    options_text,
    thin_history,
    threads_text,
)
from tuskml.learners.tasks import Task

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
