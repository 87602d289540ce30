"""Durations of the phases of a training; measured only inside `measured`."""

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Clock(threading.local):
    """The phases of this thread's training; `seconds` is None outside `measured`."""

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
