"""The models of trained nets, with their statuses."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.nets.training import (
    ACTIVATIONS,
    DIVERGED,
    LATE,
    LOGISTIC,
    OUT_OF_RANGE,
    PATIENCE,
    SOFTMAX,
    SQUARED,
    WORSE,
    NetResult,
)
from tuskml.kernels.passes import Floats, Pass
from tuskml.learners.classes import (
    class_fields,
    classes_in,
    margin_of_one_class,
    squares_vanish,
    within_doubles,
)
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
from tuskml.learners.nets.layers import Tables, class_weights, head_of, log_odds_of
from tuskml.learners.nets.options import OPTIONS, NetOptions
from tuskml.learners.tasks import Task

STATUSES = (
    "ok",
    "rounded feature",
    "not converged",
    "early stop",
    "worse than start",
    "time limit",
    "diverged",
    "too few rows",
    "out of range",
    "one class",
)
FAR = 1e14
"""Deviations from zero beyond which doubles hardly tell features apart."""
CONSTANT = ("not converged", "diverged", "too few rows", "out of range", "one class")
"""Statuses of constant models."""
ABOVE, FAR_ABOVE = 1 + 1e-6, 1.1
"""Times the loss of the best constant, above which a training is no better than that constant, and
above which it has diverged."""
UNTOLD = ("format", "feature_names", "histogram", "warm_start")
"""Options that are not about the training."""


@dataclass(frozen=True)
class Alike:
    """Groups that train in one call.

    which: their indices among all (G,); loss: the kernels' number; classes, counts: of more than
    two classes each group's labels, rising, and the rows of each, (G, K); tables: of embedded
    categories.
    """

    which: NDArray[np.intp]
    loss: int
    classes: Floats | None = None
    counts: Floats | None = None
    tables: Tables = ()

    @property
    def many(self) -> tuple[Floats, Floats] | None:
        """Labels and rows of more than two classes."""
        if self.classes is None or self.counts is None:
            return None
        return self.classes, self.counts


def models_of(
    rows: Pass,
    labels: NDArray[np.void],
    alike: Alike,
    found: NetResult,
    request: Request[Task, NetOptions],
) -> Models:
    """Makes the models of groups from their labels (LABELS) and nets."""
    options, n = request.options, len(labels)
    status = statuses(labels, found, alike)
    status = np.where((status == "ok") & far_from_zero(rows, FAR), "rounded feature", status)
    constant = np.isin(status, CONSTANT) | np.isnan(found.weights).any(axis=1)
    margin, loss = constants(labels, found.about, alike, options)
    loss = np.where(constant, loss, found.about["loss"])
    history = np.where(constant[:, None], np.nan, found.history)
    return Models.build(
        rows.groups,
        request.task.name,
        coef=numbers_of(rows, options, found, constant, alike),
        intercept=np.where(constant | (alike.loss == SOFTMAX), margin, 0.0),
        **(
            class_fields(classes_in(labels, options, alike.classes))
            if alike.loss != SQUARED
            else {}
        ),
        loss=np.where(np.isfinite(loss) & (status != "out of range"), loss, np.nan),
        history=thin_history(list(history.T), n),
        iterations=np.where(constant, 0, found.about["kept"]),
        converged=np.asarray(~constant & (status != "worse than start"), np.uint8),
        status=Strings.of(status, STATUSES),
        plan=plan_of(options),
        options=options_json(options),
    )


def statuses(labels: NDArray[np.void], found: NetResult, alike: Alike) -> NDArray[np.str_]:
    """The status of each group, (G,)."""
    about = found.about
    lone = (labels["low"] == labels["high"]) & (alike.loss == LOGISTIC)
    least = np.finfo(np.float32).tiny
    # A net that has not learned the shares of rare classes yet says that all are as likely.
    start = np.maximum(about["base_loss"], uninformed_loss(alike))
    worse = ~(about["loss"] <= FAR_ABOVE * start + least)  # true for NaN too
    above = about["loss"] > ABOVE * about["base_loss"] + least
    finite = np.isfinite(found.weights).all(axis=1)
    return np.select(
        [
            lone,
            labels["n_rows"] < 2,
            (about["ending"] == OUT_OF_RANGE) | ((alike.loss == SQUARED) & squares_vanish(labels)),
            (about["ending"] == LATE) & (worse | ~finite) & (about["kept"] == 0),
            (about["ending"] == DIVERGED) | worse | ~finite,
            about["ending"] == LATE,
            above,
            about["ending"] == WORSE,
            (about["ending"] == PATIENCE) | (about["kept"] < about["epochs"]),
        ],
        [
            "one class",
            "too few rows",
            "out of range",
            "time limit",
            "diverged",
            "time limit",
            "not converged",
            "worse than start",
            "early stop",
        ],
        "ok",
    )


def uninformed_loss(alike: Alike) -> float:
    """The loss of classes that are all as likely; 0 where labels are numbers."""
    if alike.loss == SQUARED:
        return 0.0
    return float(np.log(2 if alike.classes is None else alike.classes.shape[1]))


def constants(
    labels: NDArray[np.void], about: NDArray[np.void], alike: Alike, options: NetOptions
) -> tuple[Floats, Floats]:
    """The margins and the losses of the best constants, (G,); NaN margins of several classes."""
    if alike.loss == SQUARED:
        return within_doubles(labels["mean"], labels), about["base_loss"]
    if alike.loss == SOFTMAX:
        return np.full(len(labels), np.nan), about["base_loss"]
    lone = labels["low"] == labels["high"]
    with np.errstate(divide="ignore"):
        odds = np.log(labels["weight_high"] / (labels["weight"] - labels["weight_high"]))
    odds = odds + log_odds_of(class_weights(options, labels, alike.loss, None))
    margin = np.where(lone, margin_of_one_class(options, labels), odds)
    return margin, np.where(lone, 0.0, about["base_loss"])


def numbers_of(
    rows: Pass, options: NetOptions, found: NetResult, constant: NDArray[np.bool_], alike: Alike
) -> Lists:
    """The nets as numbers; none of a constant model, but of several classes a net that says the
    shares of the classes."""
    head = head_of_net(rows, options, alike)
    lists = [
        np.concatenate([head, weights]) if not flat else np.empty(0)
        for weights, flat in zip(found.weights, constant, strict=True)
    ]
    if alike.many is not None and alike.counts is not None:
        weight = class_weights(options, None, alike.loss, alike.many)
        for place in np.flatnonzero(constant).tolist():
            share = alike.counts[place] * (1.0 if weight is None else weight[place])
            share /= share.sum()
            lists[place] = shares_of(rows.n_features, share)
    return Lists.of_parts(lists)


def head_of_net(rows: Pass, options: NetOptions, alike: Alike) -> Floats:
    """The head of the nets' coefficients."""
    outputs = 1 if alike.classes is None else alike.classes.shape[1]
    activation = ACTIVATIONS.index(options.activation)
    return head_of(rows.n_features, (*options.layers, outputs), activation, alike.tables)


def shares_of(inputs: int, share: Floats) -> Floats:
    """A net of one layer whose margins are the logarithms of shares (K,)."""
    table = np.zeros((len(share), inputs + 1))
    table[:, 0] = np.log(share)
    return np.concatenate([head_of(inputs, (len(share),), 0), table.ravel()])


def plan_of(options: NetOptions) -> str:
    """Describes the training in one line."""
    layers = "-".join(map(str, options.layers))
    return (
        f"{options.algorithm}, {options.objective} loss, hidden layers {layers} of "
        f"{options.activation}, {options.epochs} epochs of batches of {options.batch_size}, "
        f"{threads_text(options)}"
    )


def options_json(options: NetOptions) -> str:
    """The options in force, as JSON that starts with the version of the format."""
    names = (name for name in OPTIONS.by_name if name not in UNTOLD)
    return options_text(options, names, learning_rate=options.rate)
