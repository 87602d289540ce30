"""A net that hops from part to part of the rows of its group.

The weights and the algorithm's means travel. Each epoch visits all parts in an order of its own,
and each part its rows, in batches that end with the part. The units are those of all parts, by
sums; so are the losses of the rows held out, of which each part has its own share.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2, sequential.
"""

import math
import time
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tuskml.kernels.nets.structures import TRAINED
from tuskml.kernels.nets.training import (
    ABOVE,
    DIVERGED,
    DONE,
    LATE,
    OUT_OF_RANGE,
    PATIENCE,
    SOFTMAX,
    SQUARED,
    WORSE,
    NetResult,
    Rules,
)
from tuskml.kernels.nets.visits import State, centre_levels, initial_state, weights_of
from tuskml.kernels.parts.hopping import order_of
from tuskml.kernels.parts.merging import merge_moments
from tuskml.kernels.parts.sharded import ShardedPass, add_arrays
from tuskml.kernels.passes import Floats, once
from tuskml.learners.classes import positive_class
from tuskml.learners.nets.layers import (
    class_weights,
    classes_by_options,
    warm_start,
)
from tuskml.learners.nets.options import NetOptions
from tuskml.learners.nets.outcome import Alike, head_of_net
from tuskml.learners.nets.training import SPARSE, refuse_weights, rules_of

CONSTANT = 1e-13
"""Relative to the mean: a deviation below it is rounding, as in `kernels/native/nets/inputs.cpp`.
"""
HELD_OUT, TRAINING = (0,), (1,)
"""The folds of rows of which some are held out (`kernels/parts/dealing.py`)."""


@dataclass
class Hopping:
    """A net on its way over the parts of a group.

    rows: all of them; labels: LABELS of these, (1,).
    """

    rows: ShardedPass
    labels: Any
    alike: Alike
    options: NetOptions
    steps: int = 0
    late: bool = False
    until: float = math.inf
    about: Any = field(default_factory=lambda: np.zeros(1, TRAINED))

    @once
    def training(self) -> ShardedPass:
        """The rows that are trained on."""
        positive = positive_class(self.options, self.labels)
        folds = TRAINING if self.options.validation else None
        return replace(self.rows, positive=positive, folds=folds)

    @once
    def held_out_rows(self) -> ShardedPass | None:
        """The rows that are held out."""
        return replace(self.training, folds=HELD_OUT) if self.options.validation else None

    @once
    def rules(self) -> Rules:
        classes = self.alike.classes
        outputs = 1 if classes is None else classes.shape[1]
        return rules_of(self.options, self.alike.loss, outputs, self.alike.tables)

    @once
    def weights(self) -> Floats | None:
        """The weights of the classes, (1, K)."""
        return class_weights(self.options, self.labels, self.alike.loss, self.alike.many)

    @once
    def units(self) -> Floats:
        """As in `kernels/nets/visits.py`, by sums over the training rows."""
        labels = self.training.labels()
        mean, deviation, _ = self.moments
        label = [0.0, 1.0]
        if self.alike.loss == SQUARED:
            shift, scale = labels["mean"][0], math.sqrt(labels["variance"][0])
            label = [shift, scale if inverse(np.array(scale), np.array(shift)) != 0 else 0.0]
        return np.concatenate([mean, inverse(deviation, mean), label, [self.factor(labels)]])

    @once
    def moments(self) -> tuple[Floats, Floats, Floats]:
        """As in `kernels/nets/visits.py`, of all training rows."""
        if not self.sparse:
            mean, deviation = (one[0] for one in self.training.feature_moments(1))
            return mean, deviation, np.zeros(0)
        found = self.training.ask("net_moments", rules=asdict(self.rules))
        weight = np.array([one["weight"][0] for one in self.training.label_parts])
        means, deviations, counts = (np.stack(each) for each in zip(*found, strict=True))
        merged = merge_moments(weight, means[:, None], deviations[:, None])
        return merged[0][0], merged[1][0], add_arrays(list(counts))

    @property
    def sparse(self) -> bool:
        """Returns whether some features are not plain numbers."""
        return bool(self.alike.tables) or bool((self.rows.groups["kind"] >= SPARSE).any())

    def factor(self, labels: Any) -> float:
        """The factor that makes the mean weight of the training rows 1."""
        total = labels["weight"][0]
        if self.weights is not None:
            total = (self.weights * self.shares(labels)).sum()
        return float(labels["n_rows"][0] / total)

    def shares(self, labels: Any) -> Floats:
        """The weights of the training rows of each class, (1, K)."""
        if self.alike.loss != SOFTMAX:
            high = labels["high"] == self.training.positive
            labels = labels.copy()
            labels["weight_high"] = np.where(high, labels["weight_high"], 0.0)
            return classes_by_options(self.options, labels)[1]
        from tuskml.kernels.softmax import classes_of

        assert self.alike.classes is not None
        found, count, _ = classes_of(self.training, self.alike.classes.shape[1])
        out = np.zeros_like(self.alike.classes)
        out[0, np.searchsorted(self.alike.classes[0], found[0])] = count[0]
        return out

    def train(self, began: float) -> NetResult:
        """The net after its epochs, or the reason why there is none."""
        rules, about, n = self.rules, self.about[0], self.rows.n_features
        refuse_weights(rules.weights(n), n)
        for name in ("base_loss", "loss", "held_loss"):
            about[name] = np.nan
        weights = np.full((1, rules.weights(n)), np.nan)
        history = np.full((1, rules.epochs), np.nan)
        lone = self.labels["low"][0] == self.labels["high"][0] and self.alike.loss != SQUARED
        if lone:
            return NetResult(weights, history, self.about)
        about["base_loss"] = self.constant_loss()
        if not np.isfinite(self.units).all():
            about["ending"] = OUT_OF_RANGE
            return NetResult(weights, history, self.about)
        self.until = began + rules.seconds if rules.seconds else math.inf
        state = self.epochs(history)
        if self.steps:
            if rules.tables:
                state = centre_levels(rules, self.units, self.moments[2], state)
            about["loss"] = self.mean_loss(self.training, state)
            weights = weights_of(rules, self.units, state)
        return NetResult(self.or_start(weights), history, self.about)

    @once
    def start(self) -> Floats | None:
        """The weights to start from, (1, weights)."""
        head = head_of_net(self.rows, self.options, self.alike)
        return warm_start(self.options, head, 1, self.alike.classes)

    def or_start(self, weights: Floats) -> Floats:
        """The weights (1, weights), or those of the start where the end is worse by the rows that
        judge it.
        """
        if self.start is None:
            return weights
        about, state = self.about[0], initial_state(self.rules, self.units, self.start)
        loss, held = self.loss_of(self.training, state), math.nan
        if self.held_out_rows is not None:
            held = self.loss_of(self.held_out_rows, state)
        judged = not math.isnan(held)
        end, start = (about["held_loss"], held) if judged else (about["loss"], loss)
        if end <= ABOVE * start:
            if about["ending"] == DIVERGED:
                about["ending"] = PATIENCE  # the best weights are from before
            return weights
        about["loss"], about["held_loss"], about["kept"] = loss, held, 0
        if about["ending"] != LATE:
            about["ending"] = PATIENCE if judged else WORSE
        return self.start

    def epochs(self, history: Floats) -> State:
        """Fills the history; the state of the result."""
        rules, about = self.rules, self.about[0]
        state = best = initial_state(rules, self.units, self.start)
        counts = self.training.counts()
        about["ending"] = DONE
        for epoch in range(rules.epochs):
            state, loss = self.epoch(epoch, state, counts)
            if not self.late:
                history[0, epoch] = self.loss_in_units(loss / counts.sum())
                about["epochs"] += 1
            finite = np.isfinite(state[0]).all() and math.isfinite(loss)
            if finite and (not self.late or self.steps):
                best = self.judge(state, best)
            elif not self.late:
                about["ending"] = DIVERGED
            if self.late:
                about["ending"] = LATE
            if about["ending"] != DONE:
                break
        return best if self.held_out_rows is not None and about["kept"] else state

    def epoch(self, epoch: int, state: State, counts: Any) -> tuple[State, float]:
        """A visit to each part that has rows; the state, and the sum of the losses."""
        total, visited = 0.0, 0
        for place in order_of(self.options.seed, epoch, len(counts), self.rules.shuffle):
            if not counts[place] or self.late:
                continue
            where = {"epoch": epoch, "part": int(place), "rows_before": visited}
            sent = self.message(state, where | {"steps": self.steps})
            state, found = self.training.ask_part(place, "net_steps", *sent[0], **sent[1])
            loss, _, steps, late = found.tolist()
            self.steps, self.late = int(steps), bool(late)
            total += loss
            visited += int(counts[place])
        return state, total

    def message(self, state: State, where: dict[str, int]) -> tuple[list[Any], dict[str, Any]]:
        """Arrays and numbers of a visit; the time left is in its rules."""
        left = max(self.until - time.monotonic(), 1e-9) if math.isfinite(self.until) else 0.0
        rules = asdict(replace(self.rules, seconds=left))
        arrays = [self.alike.classes, self.weights, self.units, state]
        return arrays, {"rules": rules, "where": where}

    def judge(self, state: State, best: State) -> State:
        """The best state so far, by the rows held out if there are any."""
        about = self.about[0]
        if self.held_out_rows is None:
            about["kept"] = about["epochs"]
            return state
        loss = self.mean_loss(self.held_out_rows, state)
        if math.isnan(loss):  # no row is held out
            about["kept"] = about["epochs"]
            return state
        if math.isnan(about["held_loss"]) or loss < about["held_loss"]:
            about["held_loss"], about["kept"] = loss, about["epochs"]
            return state
        if about["epochs"] - about["kept"] >= self.rules.patience:
            about["ending"] = PATIENCE
        return best

    def mean_loss(self, rows: ShardedPass, state: State) -> float:
        """The mean loss of rows at the result or on the way to it; NaN of no rows."""
        return self.loss_of(rows, state)

    def loss_of(self, rows: ShardedPass, state: State) -> float:
        """The mean loss of rows, added over the parts in their order; NaN of none."""
        sent = self.message(state, {"steps": self.steps})
        sums = [one[1] for one in rows.ask("net_losses", *sent[0], **sent[1])]
        if not sums:
            return math.nan
        loss, weight = sum(one[0] for one in sums), sum(one[1] for one in sums)
        return self.loss_in_units(loss / weight)

    def loss_in_units(self, loss: float) -> float:
        """A loss in the units of the labels."""
        return float(loss * self.units[-2] ** 2)

    def constant_loss(self) -> float:
        """The mean training loss of the best constant."""
        labels = self.training.labels()
        if self.alike.loss == SQUARED:
            return float(labels["variance"][0]) / 2
        share = self.shares(labels) * (1.0 if self.weights is None else self.weights)
        share = share[share > 0] / share.sum()
        return float(-(share * np.log(share)).sum())


def inverse(deviation: Floats, mean: Floats) -> Floats:
    """1 / deviation, 0 for constant features, and NaN for NaN."""
    with np.errstate(divide="ignore"):
        found = np.where(deviation > CONSTANT * np.abs(mean), 1 / deviation, 0.0)
    return np.where(np.isfinite(deviation), found, np.nan)
