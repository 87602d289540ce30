"""What executors of this process do at the moment, for a person who waits, and for logs."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tuskml.groups.execution.executor import Unit
from tuskml.schedule.forks import held_in_forks

log = logging.getLogger("tuskml.cluster")
_lock = held_in_forks(threading.Lock())
_running: dict[object, tuple[str, int, str, float]] = {}


@dataclass(frozen=True)
class Activity:
    """groups: which ones, such as "country = 'de' and 3 more"; rows: how many they have; worker:
    where they are trained, "host (process 123)" or "this process"; seconds: since they began."""

    groups: str
    rows: int
    worker: str
    seconds: float


def activity() -> list[Activity]:
    """What the trainings with `executor` of this process train at the moment, oldest first.

    To be called from another thread than the one that trains.

    >>> activity()
    []
    """
    now = time.monotonic()
    with _lock:
        found = sorted(_running.values(), key=lambda one: one[3])
    return [Activity(name, rows, where, now - began) for name, rows, where, began in found]


def begin(unit: Unit, where: str) -> object:
    """Notes that a worker has begun; returns what `end` takes."""
    mark = object()
    with _lock:
        _running[mark] = (unit.name, int(unit.size), where, time.monotonic())
    log.info("%s, %d rows: begun by %s", unit.name, unit.size, where)
    return mark


def end(mark: object, how: str) -> None:
    """Notes that it has ended, or that nobody waits for it any more; how: for the log."""
    with _lock:
        found = _running.pop(mark, None)
    if found is not None:
        name, _, where, began = found
        log.info("%s: %s after %.2f s by %s", name, how, time.monotonic() - began, where)


@contextmanager
def noted(unit: Unit, where: str) -> Iterator[None]:
    """The same for work that is done inside."""
    mark = begin(unit, where)
    try:
        yield
    finally:
        end(mark, "ended")
