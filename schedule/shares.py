"""Shares of the host's cores between trainings of all processes: the table of `native/shares.h`.

Trainings need no coordinator. A training has a slot once it is 20 ms old, and its threads check
between two tasks whether the trainings of others leave them fewer cores, or more. Where trainings
want more threads than there are cores, they have them in turns, by weight
(`udas/scalars/activity/turns.c`). The tasks stay the same, so numbers that do not depend on the
order of tasks do not depend on shares.

The table is a file in memory, one per account of the system; `TUSKML_SHARES` names another file,
or is `off`.

`TUSKML_SHARES_REPLAY` names a file whose shares are replayed, for benchmarks and tests. A line has
the seconds since a training began, and its threads from then on. A third number is the memory in
MiB that the system has for files from then on. So the profiles of volatility in Mahajan 2021,
section 2.6.2, can be repeated to the bit.
"""

import ctypes
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import TuskError
from tuskml.schedule import budget, pool

REPLAY = "TUSKML_SHARES_REPLAY"


@dataclass(frozen=True)
class Replay:
    """Shares over time.

    seconds: (n,) since a training began, rising; threads: (n,) from then on; memory: bytes (n,)
    from then on, None for the system's.
    """

    seconds: NDArray[np.float64]
    threads: NDArray[np.int32]
    memory: NDArray[np.float64] | None = None

    def apply_to(self, library: Any) -> None:
        """Sets these shares for the calling thread's training."""
        seconds, threads = self.seconds.ctypes.data, self.threads.ctypes.data
        library.ts_training_replay(len(self.seconds), seconds, threads)

    def memory_at(self, age: float) -> float | None:
        """Bytes of memory at `age` seconds after the start of a training; None for the
        system's.
        """
        if self.memory is None:
            return None
        place = int(np.searchsorted(self.seconds, age, side="right")) - 1
        return float(self.memory[max(place, 0)])


def read_from_environment() -> Replay | None:
    """Reads the replay that the environment names; None without one. Raises TuskError."""
    path = os.environ.get(REPLAY)
    return read(Path(path)) if path else None


def read(path: Path) -> Replay:
    """Reads the shares in a file. Raises TuskError."""
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
        seconds = np.array([float(at) for at, *_ in lines])
        threads = np.array([int(number) for _, number, *_ in lines], np.int32)
        more = np.array([[float(each) for each in line[2:]] for line in lines])
    except (OSError, ValueError) as error:
        raise TuskError(f"{REPLAY} is '{path}', which cannot be read: {error}") from None
    wrong = not len(seconds) or (np.diff(seconds) <= 0).any() or (threads < 1).any()
    if wrong or more.shape[1] > 1 or not (more >= 0).all():
        expected = "expected lines of rising seconds and a number of threads, at least 1"
        raise TuskError(f"{REPLAY} is '{path}', {expected}, and in all lines or none MiB")
    return Replay(seconds, threads, more[:, 0] * 2**20 if more.shape[1] else None)


SETTING, WEIGHT = "TUSKML_SHARES", "TUSKML_WEIGHT"
MOST, SENTENCE = 512, 4352
"""Constants of `table.h`: number of trainings, and bytes of a sentence."""
LEAST_WEIGHT, MOST_WEIGHT = 0.01, 100.0


class Slot(ctypes.Structure):
    """The C structure `tusk_running`."""

    _fields_ = [
        ("pid", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("wanted", ctypes.c_int32),
        ("share", ctypes.c_double),
        ("weight", ctypes.c_double),
        ("seconds", ctypes.c_double),
        ("core_seconds", ctypes.c_double),
        ("groups", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("rows_per_second", ctypes.c_double),
        ("progress", ctypes.c_double),
        ("left", ctypes.c_double),
        ("rho", ctypes.c_double),
        ("device", ctypes.c_int32),
        ("has_device", ctypes.c_int32),
        ("program", ctypes.c_char * 16),
        ("task", ctypes.c_char * 32),
        ("plan", ctypes.c_char * 160),
    ]


class Beginning(ctypes.Structure):
    """The C structure `ts_beginning`."""

    _fields_ = [
        ("program", ctypes.c_char_p),
        ("task", ctypes.c_char_p),
        ("groups", ctypes.c_int64),
        ("cores", ctypes.c_int32),
        ("takes_part", ctypes.c_int32),
        ("weight", ctypes.c_double),
    ]


@dataclass(frozen=True)
class Host:
    """The process of a training: the program's name and its settings of shares.

    shares: whether its trainings take part; weight: None for that of the environment.
    """

    program: bytes = b"python"
    shares: bool = True
    weight: float | None = None


@dataclass(frozen=True)
class Running:
    """A training that runs on this host.

    number: of the training in its process, from 1 on; program: name of the process; wanted:
    threads; share: threads in the mean, below 1 it has one in turns; seconds: since it began;
    core_seconds: threads that it has had, times seconds; groups: total, and done: those of them
    that have a model; plan: the algorithm of the groups that train now, empty if unknown;
    rows_per_second: a row counts once for each pass over it; progress: fraction of the work that
    is done, and left: seconds estimated by it or by the plan, both None if unknown; rho: the
    estimated total time over that with an equal part of the cores, by weight (Mahajan 2021,
    equation 3.1), threads counting alike, None where the time left is unknown; device: the GPU
    that it requests, from 1 on, 0: none; has_device: whether it is its turn.
    """

    pid: int
    number: int
    program: str
    task: str
    plan: str
    wanted: int
    share: float
    weight: float
    seconds: float
    core_seconds: float
    groups: int
    done: int
    rows_per_second: float | None
    progress: float | None
    left: float | None
    rho: float | None
    device: int
    has_device: bool


@contextmanager
def training(task: bytes, groups: int, host: Host | None = None) -> Iterator[None]:
    """Registers the calling thread's training of some groups; it has its share of the cores
    meanwhile.

    Raises TuskError if shares are to be replayed and cannot be read.
    """
    host = host or Host()
    recorded = read_from_environment() if SETTING in os.environ else None
    taking_part = host.shares and pool.library().ts_shares_open() == 0
    if not taking_part and recorded is None:
        yield
        return
    library = pool.library()
    weight = own_weight() if host.weight is None else host.weight
    cores = budget.processors()
    request = Beginning(host.program, task, groups, cores, taking_part, weight)
    library.ts_training_begin(ctypes.byref(request))
    try:
        if recorded is not None:
            recorded.apply_to(library)
        yield
    finally:
        library.ts_training_end()


@contextmanager
def split(parts: int) -> Iterator[int | None]:
    """Splits the calling thread's training into threads, each of which is `within` it.

    They have its share in equal parts. Yields None if the calling thread does not train.
    """
    training: int | None = pool.library().ts_training_split(parts)
    try:
        yield training
    finally:
        pool.library().ts_training_split(1)


@contextmanager
def within(training: int | None) -> Iterator[None]:
    """Joins the calling thread to a training that another thread has `split`."""
    pool.library().ts_training_join(training)
    try:
        yield
    finally:
        pool.library().ts_training_join(None)


def note_plan(plan: str, seconds: float = math.nan) -> None:
    """Reports the algorithm that trains the groups now; no effect if the thread does not train.

    plan: its name, or a model's `plan`, which begins with it; seconds: that it is expected to
    take, NaN if unknown.
    """
    pool.library().ts_training_plan(plan.split(",", 1)[0].encode(), seconds)


def progress(groups: int) -> None:
    """Reports that `groups` more have models, if the calling thread trains."""
    pool.library().ts_training_progress(groups)


def step(part: float, groups: int, rows: int) -> None:
    """Reports the progress of some groups; no effect if the thread does not train.

    part: 0 to 1, NaN if unknown; rows: number read since the last call.
    """
    pool.library().ts_training_step(part, groups, rows)


def note_deadline(at: float) -> None:
    """The calling thread's training does not wait for its turn from `at` of `time.monotonic()` on,
    so that it can end there.
    """
    pool.library().ts_training_deadline(at)


def now(wanted: int) -> int:
    """Threads that the calling thread's training has in the mean, rounded, from 1 to `wanted`."""
    return int(pool.library().ts_training_share(wanted))


def memory() -> float | None:
    """Bytes for files that are replayed for the calling thread's training; None without a
    replay.
    """
    recorded = read_from_environment() if SETTING in os.environ else None
    return None if recorded is None else recorded.memory_at(age())


def age() -> float:
    """Seconds since the calling thread's training began; 0 if it does not train."""
    return float(pool.library().ts_training_age())


def activity() -> list[Running]:
    """The trainings of this account that run on the host, the oldest first. Raises TuskError if
    the table cannot be read.
    """
    slots, sentence = (Slot * MOST)(), ctypes.create_string_buffer(SENTENCE)
    n = pool.library().ts_activity(slots, sentence)
    if n < 0:
        raise TuskError(os.fsdecode(sentence.value))
    return [running(slot) for slot in slots[:n]]


def running(slot: Slot) -> Running:
    """Decodes a slot: texts, and None for unknown numbers."""
    fields = {name: getattr(slot, name) for name, *_ in slot._fields_}
    for name in ("program", "task", "plan"):
        fields[name] = fields[name].decode(errors="replace")
    fields["has_device"] = bool(fields["has_device"])
    for name in ("rows_per_second", "progress", "left", "rho"):
        fields[name] = None if np.isnan(fields[name]) else fields[name]
    return Running(**fields)


def max_min(wanted: ArrayLike, weight: ArrayLike, cores: int) -> NDArray[np.float64]:
    """Max-min shares by weight (n,), in parts of a thread.

    wanted: threads (n,), at least 1; weight (n,), positive; cores: threads to share.
    """
    requested = np.ascontiguousarray(wanted, np.int32)
    by = np.ascontiguousarray(weight, np.float64)
    share = np.empty(len(requested))
    addresses = (ctypes.c_void_p(one.ctypes.data) for one in (requested, by, share))
    wanted_at, weight_at, share_at = addresses
    pool.library().ts_max_min(len(requested), wanted_at, weight_at, cores, share_at)
    return share


def own_weight() -> float:
    """Returns the weight of this process's trainings, from the setting; 1 unless it is a number
    between 0.01 and 100."""
    try:
        weight = float(os.environ.get(WEIGHT, "1"))
    except ValueError:
        return 1.0
    return weight if LEAST_WEIGHT <= weight <= MOST_WEIGHT else 1.0
