"""The epochs of a stored model on one working store, until it converges or stops early, and the
result.
"""

import math
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.stored.chunks import Keys, Widths
from tuskml.kernels.stored.training import Model, Training
from tuskml.kvstore import Frames, ModelStore
from tuskml.learners import events
from tuskml.learners.linear.operators import LEAST_SIZE
from tuskml.learners.linear.request import LinearOptions, Plan
from tuskml.learners.linear.result import plan_line
from tuskml.learners.linear.stored.estimate import StoreUse
from tuskml.learners.linear.tasks import LinearTask
from tuskml.learners.stored.progress import Clock, Counters, Facts, Progress
from tuskml.learners.validation import PATIENCE

if TYPE_CHECKING:
    from tuskml.kvstore.routes import Routes


class Divergence(Exception):
    """Weights or losses are not finite: the step was too long."""


class AboveStart(Divergence):
    """The last training ended above the objective of its start.

    status: of the model that the start is; history: mean losses of the epochs.
    """

    def __init__(self, status: str, history: list[float]) -> None:
        super().__init__()
        self.status, self.history = status, history


@dataclass(frozen=True)
class SealedResult:
    """A model whose weights are in a sealed version, `reference`. step: the chosen one."""

    reference: str
    dimension: int
    intercept: float
    objective: float
    history: list[float]
    epochs: int
    converged: bool
    status: str
    step: float
    description: str
    counters: Counters
    estimate: StoreUse | None = None


def refuse_infinite(store: ModelStore) -> None:
    """Raises Divergence if weights are not finite: losses may be, as that of the hinge is for
    NaN.
    """
    for _, _, weights in store.scan():
        if not np.isfinite(weights).all():
            raise Divergence


def metadata_of(
    task: LinearTask, labels: NDArray[np.void], n_rows: int, progress: Progress, objective: float
) -> dict[str, Any]:
    """The metadata of the sealed file; it suffices to predict if the model's value is lost."""
    low, high = float(labels["low"][0]), float(labels["high"][0])
    return {
        "task": task.name,
        "intercept": progress.model.intercept,
        "classes": [low, high] if task.classifies else None,
        "n_rows": n_rows,
        "loss": objective,
        "epochs": progress.epoch,
    }


def describe_plan(plan: Plan, where: str, unasked: str | None) -> str:
    """One line for the model's `plan`.

    where: the layout of the weights; unasked: why the model is in a store without the option.
    """
    why = f", in a store: {unasked}" if unasked else ""
    return f"{plan_line(plan)}, {where}{why}"


LEAST_GAIN = 1e-6
"""The decrease that counts as better, as a share of the best loss so far."""


@dataclass
class HeldOut:
    """The held-out rows of one group, in chunks of the same store.

    training: of these rows, with the frames of the other rows' training; loss: their mean loss
    when it was last measured, without penalties; best: the lowest so far; since: epochs without a
    gain.
    """

    training: Training
    n_rows: int
    loss: float = math.inf
    best: float = math.inf
    since: int = 0
    passes: int = field(default=0, init=False)

    @property
    def has_stopped(self) -> bool:
        """Returns whether the training ends, at the weights that did best."""
        return self.since >= PATIENCE

    def measure(self, model: Model) -> None:
        """Computes the loss of a model."""
        self.loss = self.training.loss(model).loss / self.n_rows
        self.passes += 1

    def improves(self) -> bool:
        """Returns whether the loss is the lowest so far."""
        better = self.loss < self.best * (1 - LEAST_GAIN)
        self.since = 0 if better else self.since + 1
        self.best = self.loss if better else self.best
        return better


# The number of threads for the epochs of a stored model: all, or one where that is faster.
#
# If all weights fit into a core's cache, threads that write to the same lines may be slower
# together than one alone (Niu, Recht, Re, Wright, Hogwild!, NIPS 2011, section 6, reports the same
# for dense data). Short epochs are tried both ways, as no rule holds on every machine: by one
# thread, by all, and once more by one if all were faster, as the first epoch starts with empty
# caches. So where threads obstruct each other, only one epoch is slower for the trial.

MOST_ENTRIES = 1 << 24
"""Entries of the rows up to which an epoch is tried on one thread, so that trials cost little."""
LONGEST = 0.25
"""Seconds of an epoch on one thread beyond which no other trial follows."""
LEAST_EPOCHS = 8
"""The fewest epochs of a training for which the faster way is worth trials."""
LEAST_ALONE = 2
"""Epochs by one thread before all threads are said to be faster."""


class Pace:
    """The threads of the next epoch, by the seconds of those before."""

    def __init__(self, most: int, epochs: int, entries: int = 0) -> None:
        """most: threads, 1 at least; epochs: that the training may take; entries: of its rows."""
        self.most = most
        self._seconds: dict[int, list[float]] = {most: [], 1: []}
        tried = most > 1 and epochs >= LEAST_EPOCHS and entries <= MOST_ENTRIES
        self._chosen = None if tried else most

    @property
    def threads(self) -> int:
        """Number of threads of the next epoch."""
        if self._chosen is not None:
            return self._chosen
        return self.most if len(self._seconds[1]) > len(self._seconds[self.most]) else 1

    @property
    def description(self) -> str:
        """Describes the pace for the model's `plan`."""
        alone = self.most > 1 and self._chosen == 1
        return f", by 1 of {self.most} threads, which is faster" if alone else ""

    def took(self, seconds: float) -> None:
        """Records the seconds of an epoch on `threads`."""
        if self._chosen is not None:
            return
        self._seconds[self.threads].append(seconds)
        alone, together = self._seconds[1], self._seconds[self.most]
        if min(alone) > LONGEST:
            self._chosen = self.most
        elif together:
            faster = min(together) < min(alone)
            if not faster or len(alone) == LEAST_ALONE:
                self._chosen = self.most if faster else 1


ABOVE, ROUNDING, FAR_ABOVE = 0.01, 1e-6, 0.1
"""The rise of the objective over the start that counts as worse, as a share: on a sample of the
rows, on all rows, and for a divergence, as in memory.
"""
RUNAWAY = 4.0
"""Times that objective, above which the first epoch's loss tells that the step is too long."""


@dataclass(frozen=True)
class Setting:
    """The settings of a run's epochs.

    share: bytes of the cache for each thread; deadline: by `time.monotonic`; last: a training that
    diverges is not restarted; gave_up: the model is the start, and takes no epochs.
    """

    options: LinearOptions
    plan: Plan
    n_rows: int
    n_entries: int
    facts: Facts
    share: int
    clock: Clock
    deadline: float
    checkpoint_seconds: float
    last: bool
    gave_up: bool


class Online:
    """Epochs on one working store."""

    def __init__(
        self,
        setting: Setting,
        training: Training,
        held: HeldOut | None,
        store: ModelStore,
        frames: "Frames | Routes",
        progress: Progress,
    ) -> None:
        self.setting, self.training, self.held = setting, training, held
        self.store, self.frames, self.progress = store, frames, progress
        plan = setting.plan
        self.penalised = bool(setting.options.l1 or setting.options.l2)
        self.pace = Pace(plan.threads, plan.max_iter, setting.n_entries)
        self.passes = 0
        self.converged, self.status = False, "not converged" if plan.epsilon else "ok"
        self.checkpointed = time.monotonic()
        self._keys: tuple[Keys, Widths] | None = None

    def run(self) -> None:
        """Epochs until the loss stops falling, they are done, or the time is over."""
        progress, setting = self.progress, self.setting
        if setting.gave_up:
            return
        if progress.continued and not progress.epoch:
            progress.begun = self._start_objective()
        reported = events.Pace(1, setting.n_rows)
        if self.held is not None and progress.epoch:  # resumed at the best weights so far
            self._look(self.held)
            self._judge(self.held)
        while progress.epoch < setting.plan.max_iter:
            if time.monotonic() >= setting.deadline:
                self.status = "time limit"
                break
            loss = self._epoch()
            progress.history.append(loss)
            progress.epoch += 1
            reported.epochs(progress.epoch, setting.plan.max_iter + 1)  # the last for the loss
            events.tell(events.Event(0, 0, progress.epoch, loss))
            if self._has_settled():
                self.converged, self.status = True, "ok"
                break
            if self.held is not None:
                self._judge(self.held)
                if self.has_stopped:
                    break
            elif time.monotonic() - self.checkpointed > setting.checkpoint_seconds:
                self._checkpoint()

    def _judge(self, held: HeldOut) -> None:
        """Keeps the weights if they are the best so far on held-out rows."""
        if held.improves():
            self._keep()
        elif held.has_stopped:
            self.status = "early stop"

    def _keep(self) -> None:
        """Keeps the weights: the last checkpoint has them."""
        self._checkpoint()

    @property
    def has_stopped(self) -> bool:
        """Returns whether it ended early, at weights that were kept."""
        return self.status == "early stop"

    def read(self, frames: Frames) -> None:
        """Goes on with the store's weights in other frames."""
        self.frames, self.training = frames, replace(self.training, access=frames.access)

    def _epoch(self) -> float:
        """The mean loss of the rows, each before its own update."""
        clock = self.setting.clock
        training, began = replace(self.training, threads=self.pace.threads), time.perf_counter()
        done = training.epoch(self.progress.model, float(self.progress.epoch))
        self.pace.took(time.perf_counter() - began)
        self.passes += 1
        for name in ("acquire", "train", "release"):
            clock.add(name, getattr(done, f"{name}_ns") / 1e9)
        loss = done.loss / self.setting.n_rows
        if not math.isfinite(loss + done.model.intercept):
            raise Divergence
        begun = self.progress.begun
        first = begun is not None and not self.setting.last and not self.progress.epoch
        if first and loss > RUNAWAY * (begun or 0.0) + self._rounding():
            raise Divergence
        self.progress.model = done.model
        if self.held is not None:
            self.held.measure(done.model)
        return loss

    def _loss(self) -> float:
        """The mean loss of the rows at the current weights."""
        self.passes += 1
        return self.training.loss(self.progress.model).loss / self.setting.n_rows

    def _look(self, held: HeldOut) -> None:
        """Measures the held-out rows before an epoch."""
        held.measure(self.progress.model)

    def _has_settled(self) -> bool:
        history, epsilon = self.progress.history, self.setting.plan.epsilon
        if not epsilon or len(history) < 2:
            return False
        least = LEAST_SIZE * abs(history[0])
        return abs(history[-2] - history[-1]) <= epsilon * max(abs(history[-1]), least)

    def _checkpoint(self) -> None:
        with self.setting.clock.phase("checkpoint"):
            self._fold()
            self.store.checkpoint(self.progress.as_record(self.setting.facts))
        self.checkpointed = time.monotonic()

    def _fold(self) -> tuple[float, float]:
        """Leaves plain weights in the payloads; sums of their squares and of their sizes."""
        if not self.penalised:
            return 0.0, 0.0
        if self._keys is None:
            self._keys = self._all_keys()
        keys, widths = self._keys
        model, sums = self.training.settle(
            self.progress.model, keys, widths, self.setting.share // 2, fold=True
        )
        self.progress.model = model
        return sums.squares, sums.absolute

    def _all_keys(self) -> tuple[Keys, Widths]:
        """Keys of the chunks, and where there was a warm start all that are in the store."""
        keys, widths = self.training.chunks.keys()
        if not self.progress.continued:
            return keys, widths
        found = [part.astype(np.uint64) for part, _, _ in self.store.scan()]
        keys = np.unique(np.concatenate([keys, *found]))
        return keys, self.store.sizes(keys.astype(np.int64)).astype(np.uint32)

    def judge(self) -> float:
        """The objective. If it is above that of the start, raises Diverged if a restart with a
        shorter step is possible, otherwise AboveStart.
        """
        objective, begun = self.objective(), self.progress.begun
        if begun is None or self.setting.gave_up:
            return objective
        above = objective - begun - self._rounding()
        if above > ABOVE * begun and not self.setting.last:
            raise Divergence
        judged = self.progress.continued and self.held is None
        if above > (ROUNDING if judged else ABOVE) * begun:
            status = "diverged" if above > FAR_ABOVE * begun else "not converged"
            late = self.status == "time limit"
            raise AboveStart(self.status if late else status, self.progress.history)
        return objective

    def _start_objective(self) -> float:
        """The objective at the weights of a warm start."""
        try:
            return self.objective()
        except Divergence:
            return math.inf

    def _rounding(self) -> float:
        """Returns the rounding error of losses, whose margins are sums of 32-bit weights."""
        return 1e-9 * (1 + self.progress.model.intercept * self.progress.model.intercept)

    def objective(self) -> float:
        """Returns the objective at the last weights, which are plain afterwards."""
        options = self.setting.options
        with self.setting.clock.phase("objective"):
            squares, sizes = self._fold()
            loss = self._loss()
        if not math.isfinite(loss):
            raise Divergence
        return loss + options.l2 / 2 * squares + options.l1 * sizes
