"""Shared by all executors: units of work that are named by a key, and their outcomes.

An executor knows nothing of tables, groups or models. A unit's payload and its answer are bytes,
so nothing of ours is pickled between processes. A key names the same work wherever it runs: an
executor may run a unit again after a worker died, and yields one outcome per key.

A worker may be silent, and its work may last, for a limited time. It is polled repeatedly, and
answers while it computes. A process that is stopped, or whose machine hangs, does not answer. Time
in which this process itself is suspended, such as on a sleeping laptop, does not count. The
current work of all executors is listed for a waiting person, and for logs.
"""

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tuskml.errors import ExtensionError, OptionError, RowsError, TuskError
from tuskml.schedule.pool import hold_in_forks

Work = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Unit:
    """key: its identity; size: the amount of work, in rows; payload: the input; name: for people.

    pin: data that should stay on the worker, for the next unit with the same pin, such as a shard
    in memory; None: nothing. Any worker can run it all the same. work: `module:function` that
    replaces the run's. copied: whether another worker may run it too, if its own is slow.
    together: the work that answers several such units of one ask, whose number is `ask`; members:
    these units, of a unit that stands for them.
    """

    key: str
    size: float
    payload: bytes
    name: str = ""
    pin: str | None = None
    work: str | None = None
    together: str | None = None
    copied: bool = True
    ask: int = 0
    members: tuple["Unit", ...] = ()

    @property
    def each(self) -> tuple["Unit", ...]:
        """The units that it stands for, or itself."""
        return self.members or (self,)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a unit: its answer, or one sentence on why there is none."""

    key: str
    answer: bytes | None
    error: str | None = None


@dataclass
class Tally:
    """What workers ran. units: those of whole groups; pins: the data of others, by worker;
    n_bytes: of all inputs and answers.
    """

    units: int = 0
    pins: dict[str, set[str]] = field(default_factory=dict)
    n_bytes: int = 0

    def note(self, worker: str, unit: Unit, answer: bytes) -> None:
        """Adds a unit that a worker answered."""
        pins = self.pins.setdefault(worker, set())
        pins.update(one.pin for one in unit.each if one.pin is not None)
        self.units += unit.pin is None
        self.n_bytes += len(unit.payload) + len(answer)


ANSWERED, FAILED = b"+", b"-"
ROWS = "invalid rows: "
"""The start of a unit's sentence about its rows."""
LENGTH = 8


def encode_outcome(outcome: Outcome) -> bytes:
    """The answer after ANSWERED, or a sentence after FAILED."""
    if outcome.answer is None:
        return FAILED + (outcome.error or "").encode(errors="replace")
    return ANSWERED + outcome.answer


def decode_outcome(key: str, data: bytes) -> Outcome:
    """The outcome of the unit with this key."""
    if data[:1] == ANSWERED:
        return Outcome(key, data[1:])
    return Outcome(key, None, data[1:].decode())


def several(parts: Sequence[bytes]) -> bytes:
    """Packs several payloads or answers into one."""
    lengths = [len(one).to_bytes(LENGTH, "little") for one in parts]
    return b"".join(piece for pair in zip(lengths, parts, strict=True) for piece in pair)


def each_of(data: bytes) -> list[bytes]:
    """Unpacks the parts of `several`."""
    found, at = [], 0
    while at < len(data):
        end = at + LENGTH + int.from_bytes(data[at : at + LENGTH], "little")
        found.append(data[at + LENGTH : end])
        at = end
    return found


def bundle(units: Sequence[Unit]) -> Unit:
    """A unit that stands for several, which one worker runs one after another."""
    first = units[0]
    if len(units) == 1:
        return first
    return replace(
        first,
        key=" ".join(one.key for one in units),
        size=sum(one.size for one in units),
        payload=several([one.payload for one in units]),
        work=first.together,
        members=tuple(units),
    )


def outcomes_of(unit: Unit, data: bytes) -> list[Outcome]:
    """Splits the answer of a worker into the outcomes of the units that one unit stands for."""
    whole = decode_outcome(unit.key, data)
    if not unit.members:
        return [whole]
    if whole.answer is None:
        return [replace(whole, key=one.key) for one in unit.members]
    answers = each_of(whole.answer)
    return [decode_outcome(one.key, its) for one, its in zip(unit.members, answers, strict=True)]


def largest_first(units: Sequence[Unit]) -> list[Unit]:
    """The order that keeps workers busy to the end: the longest processing time first."""
    return sorted(units, key=lambda unit: (-unit.size, unit.key))


def work_named(name: str) -> Work:
    """The function of tuskml that `module:function` names."""
    module, _, function = name.partition(":")
    if not module.startswith("tuskml."):
        raise ValueError(f"{name!r} is not a function of tuskml")
    found: Any = getattr(importlib.import_module(module), function)
    return found  # type: ignore[no-any-return]


def attempt(work: str, unit: Unit) -> Outcome:
    """Runs one unit. A failure of the unit is an outcome and not an exception."""
    try:
        return Outcome(unit.key, work_named(unit.work or work)(unit.payload))
    except RowsError as error:
        return Outcome(unit.key, None, f"{ROWS}{error}")
    except TuskError as error:
        return Outcome(unit.key, None, str(error))
    except Exception as error:
        return Outcome(unit.key, None, f"{type(error).__name__}: {' '.join(str(error).split())}")


def import_package(name: str, executor: str, install: str) -> Any:
    """Imports the package. Raises ExtensionError if it is missing; install: the advice in the
    sentence.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExtensionError(
            f"executor={executor!r} needs the package {error.name or name}, which is not "
            f"installed: {install}"
        ) from error


LOOKS = 4
"""Polls of a worker within the time that it may be silent."""
MOST_STEP = 1.0
"""Seconds between two looks of which no more count."""


class Clock:
    """Seconds in which this process ran."""

    def __init__(self) -> None:
        self.now = 0.0
        self._last = time.monotonic()

    def tick(self) -> float:
        """Looks at the time, and says how much of it counts so far."""
        now = time.monotonic()
        self.now += min(now - self._last, MOST_STEP)
        self._last = now
        return self.now


class Pulses:
    """The pulses of all workers that have work. silent: seconds after which one is given up."""

    def __init__(self, silent: float) -> None:
        self.clock = Clock()
        self.silent = silent
        self._heard: dict[Any, float] = {}
        self._asked: dict[Any, Any] = {}
        """Workers by the reference of the answer that is awaited."""
        self._done: dict[Any, float] = {}
        """Since when answers are there, and not here."""
        self._looked = 0.0

    def begin(self, worker: Any) -> None:
        """Starts the pulse of a worker with new work."""
        self._heard[worker] = self.clock.now

    def end(self, worker: Any) -> None:
        """Records that the worker is idle, or gone."""
        self._heard.pop(worker, None)
        for reference in [ref for ref, one in self._asked.items() if one is worker]:
            del self._asked[reference]

    def ask(self) -> list[Any]:
        """Asks those that are due, and returns the references of all answers that are awaited."""
        now, waiting = self.clock.tick(), set(map(id, self._asked.values()))
        for worker, heard in self._heard.items():
            if id(worker) not in waiting and now >= heard + self.silent / LOOKS:
                self._asked[worker.alive.remote()] = worker
        return list(self._asked)

    def take(self, reference: Any) -> bool:
        """Returns whether this is such an answer. One that is an error is heard of by its work
        too.
        """
        worker = self._asked.pop(reference, None)
        if worker in self._heard:
            self._heard[worker] = self.clock.now
        return worker is not None

    def is_silent(self, worker: Any) -> bool:
        """Returns whether it was last heard of too long ago."""
        return self.clock.now > self._heard.get(worker, self.clock.now) + self.silent

    def find_unfetched(self, ray: Any, references: list[Any]) -> list[Any]:
        """Answers that exist for long and do not come, as where their file on a disk is lost: Ray
        looks for such a file without end.
        """
        now = self.clock.now
        if references and now >= self._looked + MOST_STEP:
            self._looked, n = now, len(references)
            done, _ = ray.wait(references, num_returns=n, timeout=0, fetch_local=False)
            self._done = {one: self._done.get(one, now) for one in done}
        return [one for one in references if now > self._done.get(one, now) + self.silent]


def check_timeout(given: object) -> float | None:
    """The argument `worker_timeout`, in seconds. Raises OptionError."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise OptionError(
            f"worker_timeout is {given!r}, expected a number of seconds above 0, such as 600"
        )
    return float(given)


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
