"""The current work of this process's executors, for a waiting person, and for logs."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tuskml.groups.execution.executor import Unit
from tuskml.schedule.pool import hold_in_forks

log = logging.getLogger("tuskml.cluster")
_lock = hold_in_forks(threading.Lock())
_running: dict[object, tuple[Unit, str, float]] = {}


@dataclass(frozen=True)
class Activity:
    """groups: which ones, such as "country = 'de' and 3 more"; rows: how many they have; worker:
    where they are trained, "host (process 123)" or "this process"; seconds: since they began."""

    groups: str
    rows: int
    worker: str
    seconds: float


def activity() -> list[Activity]:
    """The units that trainings with `executor` of this process train at the moment, oldest first.

    To be called from another thread than the one that trains.

    >>> activity()
    []
    """
    now = time.monotonic()
    with _lock:
        found = sorted(_running.values(), key=lambda one: one[2])
    return [
        Activity(unit.name, int(unit.size), where, now - since) for unit, where, since in found
    ]


Heard = Callable[[Unit, str, float], None]
"""Hears of a unit, how it ended and after how many seconds."""
hearers: list[Heard] = []
"""Listeners for finished units, such as the metrics of a cluster."""


def begin(unit: Unit, where: str) -> object:
    """Notes that a worker has started; returns the argument of `end`."""
    mark = object()
    with _lock:
        _running[mark] = (unit, where, time.monotonic())
    log.info("%s, %d rows: begun by %s", unit.name, unit.size, where)
    return mark


def end(mark: object, how: str) -> None:
    """Notes that it has ended, or was abandoned; how: for the log."""
    with _lock:
        found = _running.pop(mark, None)
    if found is not None:
        unit, where, began = found
        seconds = time.monotonic() - began
        log.info("%s: %s after %.2f s by %s", unit.name, how, seconds, where)
        for hear in list(hearers):
            hear(unit, how, seconds)


@contextmanager
def note_work(unit: Unit, where: str) -> Iterator[None]:
    """Notes the start and end of the work inside."""
    mark = begin(unit, where)
    try:
        yield
    finally:
        end(mark, "ended")
