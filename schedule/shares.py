"""Shares of the host's cores between trainings of all processes: the table of `native/shares.h`.

Who trains asks nobody. A training has an entry once it is 20 ms old, and its threads look between
two tasks whether the entries of others leave them fewer cores, or more. The tasks stay the same,
so numbers that do not depend on the order of tasks do not depend on shares. The table is a file in
memory, one an account of the system; `TUSKML_SHARES` names another file, or is `off`.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tuskml.errors import TuskError
from tuskml.schedule import budget, pool

SETTING, WEIGHT = "TUSKML_SHARES", "TUSKML_WEIGHT"
OFF = "off"
MOST_ENTRIES = 512


class Entry(ctypes.Structure):
    """`ts_entry`."""

    _fields_ = [
        ("pid", ctypes.c_int64),
        ("wanted", ctypes.c_int32),
        ("share", ctypes.c_int32),
        ("weight", ctypes.c_double),
        ("seconds", ctypes.c_double),
        ("groups", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("task", ctypes.c_char * 32),
        ("plan", ctypes.c_char * 96),
    ]


@dataclass(frozen=True)
class Running:
    """A training that runs on this host.

    wanted, share: threads; seconds: since it began; groups: of it, and done: those of them that
    have a model; plan: the algorithm of the groups that train now, empty where nobody said.
    """

    pid: int
    task: str
    plan: str
    wanted: int
    share: int
    weight: float
    seconds: float
    groups: int
    done: int


@contextmanager
def training(task: bytes, groups: int) -> Iterator[None]:
    """The calling thread trains so many groups; it has its share of the cores meanwhile."""
    if open_table():  # there is none, which is no reason to fail
        yield
        return
    library = pool.library()
    library.ts_training_begin(task, groups, budget.processors())
    try:
        yield
    finally:
        library.ts_training_end()


@contextmanager
def split(parts: int) -> Iterator[int | None]:
    """The calling thread's training goes on in so many threads, each of which is `within` it.

    They have its share in equal parts. None where the calling thread does not train.
    """
    training: int | None = pool.library().ts_training_split(parts)
    try:
        yield training
    finally:
        pool.library().ts_training_split(1)


@contextmanager
def within(training: int | None) -> Iterator[None]:
    """The calling thread trains a part of a training that another one has `split`."""
    pool.library().ts_training_join(training)
    try:
        yield
    finally:
        pool.library().ts_training_join(None)


def note_plan(plan: str) -> None:
    """What trains the groups now; nothing where the calling thread does not train."""
    pool.library().ts_training_plan(plan.encode())


def progress(groups: int) -> None:
    """So many more groups have models; nothing where the calling thread does not train."""
    pool.library().ts_training_progress(groups)


def activity() -> list[Running]:
    """The trainings of this account that run on the host, the oldest first.

    TuskError where there is no table of them.
    """
    problem = open_table()
    if problem:
        raise TuskError(problem)
    entries = (Entry * MOST_ENTRIES)()
    n = pool.library().ts_shares_list(entries, MOST_ENTRIES, budget.processors())
    return [running(entry) for entry in entries[:n]]


def running(entry: Entry) -> Running:
    """The entry with its texts decoded."""
    given = {name: getattr(entry, name) for name, *_ in entry._fields_}
    texts = {name: given[name].decode(errors="replace") for name in ("task", "plan")}
    return Running(**given | texts)


def max_min(wanted: ArrayLike, weight: ArrayLike, cores: int) -> NDArray[np.int32]:
    """Max-min shares in whole threads (n,), each at least 1; the oldest training comes first.

    wanted: threads (n,), at least 1; weight (n,), positive; cores: threads to share.
    """
    asked = np.ascontiguousarray(wanted, np.int32)
    by = np.ascontiguousarray(weight, np.float64)
    share = np.empty(len(asked), np.int32)
    addresses = (ctypes.c_void_p(one.ctypes.data) for one in (asked, by, share))
    wanted_at, weight_at, share_at = addresses
    pool.library().ts_max_min(len(asked), wanted_at, weight_at, cores, share_at)
    return share


def open_table() -> str:
    """A sentence that says why there is no table; empty where there is one."""
    asked = os.environ.get(SETTING, "")
    if asked.lower() == OFF:
        pool.library().ts_shares_close()
        return f"{SETTING} is '{OFF}', so trainings have no entries: unset it"
    path = asked or str(table_path())
    problem: int = pool.library().ts_shares_open(os.fsencode(path), own_weight())
    if problem:
        return f"the table of running trainings, {path}, cannot be opened: {os.strerror(problem)}"
    return ""


def table_path() -> Path:
    """The account's table, in memory where the system has such a folder."""
    memory = Path("/dev/shm")
    folder = memory if memory.is_dir() else Path("/tmp")
    return folder / f"tuskml-shares-{os.geteuid()}"


def own_weight() -> float:
    """Of this process's trainings, beside 1 of others; from the setting, 1 unless it is a number
    between 0.01 and 100."""
    try:
        weight = float(os.environ.get(WEIGHT, "1"))
    except ValueError:
        return 1.0
    return weight if 0.01 <= weight <= 100 else 1.0
