"""The epochs of one matrix factorization: how many there are, and how they went."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np

from tuskml.kernels.factorization import Factorization
from tuskml.kernels.passes import Floats, Pass
from tuskml.learners import events
from tuskml.learners.factorization.settings import AnySettings, Settings
from tuskml.learners.validation import PATIENCE

ATTEMPTS = 12
"""Descents, each with a quarter of the step of the one before, while they run away."""
RUNAWAY = 100.0
"""Times the first epoch's objective: the step was too large."""


class Factors(Protocol):
    """Ratings and vectors in training: `udas.factorization.Factorization`, or those on a GPU."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def start(self) -> None: ...

    def keep(self) -> None: ...

    def restore(self) -> None: ...

    def epoch(self, number: int, step: float, lock_free: bool = False) -> float: ...

    def objective(self) -> float: ...

    def loss(self, rows: Pass) -> float: ...

    def vectors(self) -> tuple[float, Floats]: ...


class Epochs:
    """Runs descents, one after another, for vectors in memory, in a store or on a GPU.

    visit: trains each rating once, given the epoch's number and step, and returns the objective.
    """

    def __init__(
        self, visit: Callable[[int, float], float], settings: AnySettings, began: float
    ) -> None:
        self.visit = visit
        self.settings = settings
        self.deadline = None if settings.time is None else began + settings.time
        self.history: list[float] = []
        self.converged = False
        self.status = "ok"
        self.n_rows = 0

    def epochs(self, step: float, before: Sequence[float] = ()) -> None:
        """Runs one descent from the start, or continues after the epochs whose objectives are
        `before`.
        """
        settings, pace = self.settings, events.Pace(1, self.n_rows)
        self.history, self.status, self.converged = list(before), "ok", False
        for epoch in range(len(before), settings.max_iter):
            self.history.append(self.visit(epoch, settings.step_of(epoch, step)))
            pace.epochs(epoch + 1, settings.max_iter)
            if events.anyone():
                events.tell(events.Event(0, 0, epoch + 1, self.history[-1]))
            if self.ran_away() or self.has_settled() or self.overfits() or self.out_of_time():
                return
        if settings.epsilon > 0:
            self.status = "not converged"

    def ran_away(self) -> bool:
        """Returns whether the objective grew out of all bounds."""
        last = self.history[-1]
        return not last <= RUNAWAY * max(self.history[0], 1e-300) or not np.isfinite(last)

    def has_settled(self) -> bool:
        """Returns whether the objective changed by no more than epsilon of itself."""
        if self.settings.epsilon > 0 and len(self.history) > 1:
            before, now = self.history[-2:]
            self.converged = abs(before - now) <= self.settings.epsilon * abs(before)
        return self.converged

    def overfits(self) -> bool:
        """Returns whether held-out rows have not gained for some epochs; there may be none."""
        return False

    def out_of_time(self) -> bool:
        """Returns whether the option 'time' is over."""
        if self.deadline is None or time.monotonic() < self.deadline:
            return False
        self.status = "time limit"
        return True


class Run(Epochs):
    """The epochs of one group whose vectors are in memory."""

    def __init__(
        self, model: Factors, held: Pass | None, settings: Settings, began: float
    ) -> None:
        super().__init__(self.visit_all, settings, began)
        self.model = model
        self.made = settings
        self.solves = settings.first_solved
        self.held = held
        self.best = float("inf")
        self.since = 0

    def descend(self) -> None:
        """Runs all epochs; where they run away, again from the start with a quarter of the step.

        Ratings far from all others can do that whatever their scale.
        """
        step = self.made.step
        for _ in range(ATTEMPTS):
            self.best, self.since = float("inf"), 0
            self.solves = self.made.first_solved
            self.epochs(step)
            if not self.ran_away():
                break
            step /= 4
            self.model.start()
        if self.ran_away():
            self.status = "diverged"
        elif self.since:
            self.model.restore()

    def visit_all(self, epoch: int, step: float) -> float:
        """An epoch of steps, or of `als` in the end one that solves for each vector."""
        if epoch >= self.solves and isinstance(self.model, Factorization):
            return self.model.solve(self.made.relax(epoch))
        return self.model.epoch(epoch, step, self.made.lock_free)

    def has_settled(self) -> bool:
        """As in `Epochs`; `als` starts to solve for vectors when steps gain no more."""
        done = len(self.history)
        if super().has_settled() and self.made.method.solves and done <= self.solves:
            self.solves, self.converged = done, False
        return self.converged

    def overfits(self) -> bool:
        """Returns whether held-out rows have not gained for some epochs; keeps the best
        vectors.
        """
        if self.held is None:
            return False
        loss = self.model.loss(self.held)
        if loss < self.best * (1 - 1e-6):
            self.best, self.since = loss, 0
            self.model.keep()
        else:
            self.since += 1
        if self.since < PATIENCE:
            return False
        self.status = "early stop"
        return True
