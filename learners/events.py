"""What running trainings report: their progress, and the durations of their phases."""

import functools
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule import devices, shares


@dataclass(frozen=True)
class Event:
    """groups: finished just now (0 within a training); rows: of those; iteration: of the batch."""

    groups: int
    rows: int
    iteration: int
    objective: float


Listener = Callable[[Event], None]
_listeners: list[Listener] = []


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Calls listener with each event while the context lasts, from whatever thread trains."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def anyone() -> bool:
    """Returns whether someone listens."""
    return bool(_listeners)


def tell(event: Event) -> None:
    """Hands the event to all listeners."""
    for listener in tuple(_listeners):
        listener(event)


def tell_trained(groups: NDArray[np.void], iteration: int = 0) -> None:
    """Tells all listeners that groups (GROUP) are trained."""
    tell(Event(len(groups), int(groups["n_rows"].sum()), iteration, math.nan))


FIRST, EVERY = 0.02, 0.05
"""Least seconds before the first report and between reports, so that short trainings pay nothing.
"""


@dataclass
class Pace:
    """Limits how often a batch of groups reports its progress.

    rows: of all groups; read: how many of them were read.
    """

    groups: int
    rows: int
    read: float = 0.0
    next: float = field(default_factory=lambda: time.monotonic() + FIRST)

    def is_due(self) -> bool:
        """Returns whether it is time to tell."""
        return time.monotonic() >= self.next

    def tell(self, part: float, passes: float) -> None:
        """part: of the work, 0 to 1, NaN where nothing tells; passes: over the rows until now."""
        self.next = time.monotonic() + EVERY
        read = self.rows * passes
        shares.step(part, self.groups, round(max(read - self.read, 0.0)))
        self.read = read
        devices.pass_on()

    def epochs(self, done: int, of_all: int) -> None:
        """Tells it, where it is time, by epochs that read all rows."""
        if self.is_due():
            self.tell(done / of_all if of_all else math.nan, done)


# Durations of the phases of a training, measured only inside `measure_phases`.

P = ParamSpec("P")
R = TypeVar("R")


class Clock(threading.local):
    """The phases of this thread's training; `seconds` is None outside `measure_phases`."""

    seconds: dict[str, float] | None = None
    intervals: list[tuple[str, float, float]] | None = None
    within: str | None = None


_clock = Clock()


@contextmanager
def measure_phases(
    seconds: dict[str, float], intervals: list[tuple[str, float, float]] | None = None
) -> Iterator[None]:
    """Adds up in `seconds`, by name, the seconds that this thread spends in each phase.

    intervals: gets each phase with its start and end by `time.perf_counter`, unless it is None.
    """
    before = _clock.seconds, _clock.intervals
    _clock.seconds, _clock.intervals = seconds, intervals
    try:
        yield
    finally:
        _clock.seconds, _clock.intervals = before


@contextmanager
def phase(name: str) -> Iterator[None]:
    """A phase of the current training. A nested phase is a part of the outer one."""
    seconds = _clock.seconds
    if seconds is None or _clock.within is not None:
        yield
        return
    began, _clock.within = time.perf_counter(), name
    try:
        yield
    finally:
        ended, _clock.within = time.perf_counter(), None
        seconds[name] = seconds.get(name, 0.0) + ended - began
        if _clock.intervals is not None:
            _clock.intervals.append((name, began, ended))


def is_phase(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Makes each call of a function a phase."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if _clock.seconds is None:
                return function(*args, **kwargs)
            with phase(name):
                return function(*args, **kwargs)

        return call

    return decorated
