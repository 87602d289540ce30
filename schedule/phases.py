"""How long each phase of a training takes, for who asks; nothing is measured where nobody does."""

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Clock(threading.local):
    """The phases of this thread's training; `seconds` is None where nobody asks."""

    seconds: dict[str, float] | None = None
    within: str | None = None


_clock = Clock()


@contextmanager
def measured(seconds: dict[str, float]) -> Iterator[None]:
    """Adds up in `seconds`, by name, what this thread spends in each phase meanwhile."""
    before, _clock.seconds = _clock.seconds, seconds
    try:
        yield
    finally:
        _clock.seconds = before


@contextmanager
def phase(name: str) -> Iterator[None]:
    """A phase of the training in work. A phase within another is a part of that one."""
    seconds = _clock.seconds
    if seconds is None or _clock.within is not None:
        yield
        return
    began, _clock.within = time.perf_counter(), name
    try:
        yield
    finally:
        _clock.within = None
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - began


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
