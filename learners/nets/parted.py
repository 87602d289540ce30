"""The task `mlp` for a group whose rows lie in parts: the net hops from part to part.

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

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.nets.structures import TRAINED
from tuskml.kernels.nets.training import (
    DIVERGED,
    DONE,
    LATE,
    OUT_OF_RANGE,
    PATIENCE,
    SOFTMAX,
    SQUARED,
    Rules,
    Trained,
)
from tuskml.kernels.nets.visits import State, begun, centred, ended
from tuskml.kernels.parts.dealing import holding_of
from tuskml.kernels.parts.hopping import order_of
from tuskml.kernels.parts.merging import merged_moments
from tuskml.kernels.parts.sharded import Parts, ShardedPass, added, of_parts
from tuskml.kernels.passes import Floats
from tuskml.kernels.rows.once import once
from tuskml.learners.held_out import held_out_counts
from tuskml.learners.learner import Request
from tuskml.learners.models import Models
from tuskml.learners.nets.options import OPTIONS, NetOptions
from tuskml.learners.nets.outcome import Alike, head_of_net, models_of
from tuskml.learners.nets.tables import tables_of
from tuskml.learners.nets.training import (
    SPARSE,
    classifies,
    kinds_of,
    refuse_weights,
    rules_of,
)
from tuskml.learners.nets.weights import (
    class_weights,
    two_classes,
    warm_start,
)
from tuskml.learners.offsets import refuse_offsets
from tuskml.learners.options.acting import needs_one_place
from tuskml.learners.tasks import Task
from tuskml.schedule import budget

CONSTANT = 1e-13
"""Of the mean: a deviation below it is rounding, as in `kernels/native/nets/inputs.cpp`."""
HELD_OUT, TRAINING = (0,), (1,)
"""The folds of rows of which some are held out (`kernels/parts/dealing.py`)."""


def whole(request: Request[Task, NetOptions]) -> str | None:
    """Why a group's rows have to be in one place; None where they need not."""
    return needs_one_place(OPTIONS.by_name, request.options)


def train_by_parts(parts: Parts, request: Request[Task, NetOptions]) -> Models | None:
    """The model of the group; None where it has no usable row."""
    began = time.monotonic()
    options = request.options
    groups = of_parts(parts)
    if groups is None:
        return None
    refuse_offsets(groups, request.task.name)
    if request.categories is None and (groups["kind"] >= SPARSE).any():
        raise DataError("features of 'mlp' are a list, got sparse(...)")
    mark, threads = passes.cancel_mark(), options.threads or budget.threads()
    rows = ShardedPass(
        groups, int(classifies(options)), None, None, True, threads,
        cancel_mark=mark, parts=parts, classifies=classifies(options),
    )  # fmt: skip
    if held := int(held_out_counts(groups["n_rows"], options.validation)[0]):
        parts.deal(holding_of(rows, options.seed, held).told)
    else:
        options = replace(options, validation=0.0)
    labels = rows.labels()
    (kind,) = kinds_of(rows, labels, request)
    alike = replace(kind, tables=tables_of(request, 0))
    with np.errstate(all="ignore"):  # what is not finite is looked for at the end
        found = leading_of(parts)(rows, labels, alike, options).trained(began)
    models = models_of(rows, labels, alike, found, request)
    return replace(models, seconds=np.array([time.monotonic() - began]))


def leading_of(parts: Parts) -> "type[Hopping]":
    """How the group is trained."""
    if parts.crew is None:
        return Hopping
    from tuskml.learners.nets.exchange.leading import Exchanging

    return Exchanging


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
        positive = self.labels["high"] if self.options.classes is None else self.options.classes[1]
        positive = np.ascontiguousarray(np.broadcast_to(positive, 1), np.float64)
        folds = TRAINING if self.options.validation else None
        return replace(self.rows, positive=positive, folds=folds)

    @once
    def held(self) -> ShardedPass | None:
        """Those that are held out."""
        return replace(self.training, folds=HELD_OUT) if self.options.validation else None

    @once
    def rules(self) -> Rules:
        classes = self.alike.classes
        outputs = 1 if classes is None else classes.shape[1]
        return rules_of(self.options, self.alike.loss, outputs, self.alike.tables)

    @once
    def weights(self) -> Floats | None:
        """Those of the classes, (1, K)."""
        return class_weights(self.options, self.labels, self.alike.loss, self.alike.many)

    @once
    def units(self) -> Floats:
        """As `kernels/nets/visits.py` has them, by sums over the training rows."""
        labels = self.training.labels()
        mean, deviation, _ = self.moments
        label = [0.0, 1.0]
        if self.alike.loss == SQUARED:
            shift, scale = labels["mean"][0], math.sqrt(labels["variance"][0])
            label = [shift, scale if inverse(np.array(scale), np.array(shift)) != 0 else 0.0]
        return np.concatenate([mean, inverse(deviation, mean), label, [self.factor(labels)]])

    @once
    def moments(self) -> tuple[Floats, Floats, Floats]:
        """As `kernels/nets/visits.py` has them, of all training rows."""
        if not self.sparse:
            mean, deviation = (one[0] for one in self.training.feature_moments(1))
            return mean, deviation, np.zeros(0)
        found = self.training.asked("net_moments", rules=asdict(self.rules))
        weight = np.array([one["weight"][0] for one in self.training.label_parts])
        means, deviations, counts = (np.stack(each) for each in zip(*found, strict=True))
        merged = merged_moments(weight, means[:, None], deviations[:, None])
        return merged[0][0], merged[1][0], added(list(counts))

    @property
    def sparse(self) -> bool:
        """Whether some features are not numbers of their own."""
        return bool(self.alike.tables) or bool((self.rows.groups["kind"] >= SPARSE).any())

    def factor(self, labels: Any) -> float:
        """What makes the weights of the training rows 1 on average."""
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
            return two_classes(self.options, labels)[1]
        from tuskml.kernels.softmax import classes_of

        assert self.alike.classes is not None
        found, count, _ = classes_of(self.training, self.alike.classes.shape[1])
        out = np.zeros_like(self.alike.classes)
        out[0, np.searchsorted(self.alike.classes[0], found[0])] = count[0]
        return out

    def trained(self, began: float) -> Trained:
        """The net after its epochs, or why there is none."""
        rules, about, n = self.rules, self.about[0], self.rows.n_features
        refuse_weights(rules.weights(n), n)
        for name in ("base_loss", "loss", "held_loss"):
            about[name] = np.nan
        weights = np.full((1, rules.weights(n)), np.nan)
        history = np.full((1, rules.epochs), np.nan)
        lone = self.labels["low"][0] == self.labels["high"][0] and self.alike.loss != SQUARED
        if lone:
            return Trained(weights, history, self.about)
        about["base_loss"] = self.constant_loss()
        if not np.isfinite(self.units).all():
            about["ending"] = OUT_OF_RANGE
            return Trained(weights, history, self.about)
        self.until = began + rules.seconds if rules.seconds else math.inf
        state = self.epochs(history)
        if self.steps:
            if rules.tables:
                state = centred(rules, self.units, self.moments[2], state)
            about["loss"] = self.mean_loss(self.training, state)
            weights = ended(rules, self.units, state)
        return Trained(weights, history, self.about)

    def epochs(self, history: Floats) -> State:
        """Fills the history; the state of the result."""
        rules, about = self.rules, self.about[0]
        head = head_of_net(self.rows, self.options, self.alike)
        start = warm_start(self.options, head, 1, self.alike.classes)
        state = best = begun(rules, self.units, start)
        counts = self.training.counts()
        about["ending"] = DONE
        for epoch in range(rules.epochs):
            state, loss = self.epoch(epoch, state, counts)
            if not self.late:
                history[0, epoch] = self.unscaled(loss / counts.sum())
                about["epochs"] += 1
            finite = np.isfinite(state[0]).all() and math.isfinite(loss)
            if finite and (not self.late or self.steps):
                best = self.judged(state, best)
            elif not self.late:
                about["ending"] = DIVERGED
            if self.late:
                about["ending"] = LATE
            if about["ending"] != DONE:
                break
        return best if self.held is not None and about["kept"] else state

    def epoch(self, epoch: int, state: State, counts: Any) -> tuple[State, float]:
        """A visit to each part that has rows; the state, and the sum of the losses."""
        total, visited = 0.0, 0
        for place in order_of(self.options.seed, epoch, len(counts), self.rules.shuffle):
            if not counts[place] or self.late:
                continue
            where = {"epoch": epoch, "part": int(place), "rows_before": visited}
            sent = self.message(state, where | {"steps": self.steps})
            state, found = self.training.asked_of(place, "net_steps", *sent[0], **sent[1])
            loss, _, steps, late = found.tolist()
            self.steps, self.late = int(steps), bool(late)
            total += loss
            visited += int(counts[place])
        return state, total

    def message(self, state: State, where: dict[str, int]) -> tuple[list[Any], dict[str, Any]]:
        """Arrays and numbers of a visit; what is left of the time is that of its rules."""
        left = max(self.until - time.monotonic(), 1e-9) if math.isfinite(self.until) else 0.0
        rules = asdict(replace(self.rules, seconds=left))
        arrays = [self.alike.classes, self.weights, self.units, state]
        return arrays, {"rules": rules, "where": where}

    def judged(self, state: State, best: State) -> State:
        """The best state so far, by the rows held out if there are any."""
        about = self.about[0]
        if self.held is None:
            about["kept"] = about["epochs"]
            return state
        loss = self.mean_loss(self.held, state)
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
        """The mean loss of rows, added over the parts in their order; NaN of none."""
        sent = self.message(state, {"steps": self.steps})
        sums = [one[1] for one in rows.asked("net_losses", *sent[0], **sent[1])]
        if not sums:
            return math.nan
        loss, weight = sum(one[0] for one in sums), sum(one[1] for one in sums)
        return self.unscaled(loss / weight)

    def unscaled(self, loss: float) -> float:
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
    """1 / deviation, 0 for what does not vary, and NaN where it is no number."""
    with np.errstate(divide="ignore"):
        found = np.where(deviation > CONSTANT * np.abs(mean), 1 / deviation, 0.0)
    return np.where(np.isfinite(deviation), found, np.nan)
