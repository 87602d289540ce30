"""How many threads a computation may use. Every place that starts threads asks here.

The least of the limits counts: the processors that the process may run on, the quota of its
control groups, and what the database that calls allows its statements. A number that the user
gives, as the option `threads`, is taken as it is. The control groups' memory is read here too.

The build reads this file too, before anything is installed: it imports the standard library alone.
"""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

HERE = Path("/")
INF = math.inf
NO_LIMIT = 1 << 60
"""Bytes; version 1 reports this number less a page where there is no limit."""
MOUNTED = {"cpu": ("cpu,cpuacct", "cpuacct,cpu")}
"""Alternative directory names of controllers of version 1."""
MEMORY_FILES = {
    2: (("memory.max", "memory.high"), "memory.current", ""),
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_"),
}
"""By version of the control groups: files of limits, file of the usage, and the prefix of the
statistics that include child groups.
"""
LOOK_EVERY = 1.0
"""Seconds for which a quota is cached."""

_host: ContextVar[int] = ContextVar("tuskml threads of the host", default=0)
_databases: dict[int, int] = {}
readers: dict[int, Callable[[], None]] = {}
"""Functions that re-read a database's memory limit, by the address of its row memory."""
_looked: dict[int, int] = {}
"""The last statement at which the limits of a database were read."""
_seen: list[tuple[float, float]] = []


def threads(asked: int | None = None) -> int:
    """Threads for a computation; asked: what the user said, None or 0 for nothing."""
    if asked:
        return asked
    limit = _host.get()
    return min(processors(), limit) if limit else processors()


@contextmanager
def within(limit: int) -> Iterator[None]:
    """Limits the computations of the calling thread to `limit` threads; 0 means no limit."""
    token = _host.set(limit)
    try:
        yield
    finally:
        _host.reset(token)


def tell(account: int, limit: int) -> None:
    """Sets the thread limit of a database, which is known by the address of its row memory."""
    _databases[account] = limit


def forget(account: int) -> None:
    """Forgets a closed database, because another may get the same address."""
    _databases.pop(account, None)
    readers.pop(account, None)
    _looked.pop(account, None)


def look_at_limits(account: int) -> None:
    """Updates the limits before a large allocation: they may have changed since the last look."""
    with suppress(Exception):
        readers.get(account, lambda: None)()


def look_once(account: int, statement: int) -> None:
    """Updates the limits once per statement; `statement` 0 is unknown and always updates."""
    if not statement or _looked.get(account) != statement:
        look_at_limits(account)
        if account in readers:
            _looked[account] = statement


def of_database(account: int) -> int:
    """Returns the thread limit last set for a database; 0 if there is none."""
    return _databases.get(account, 0)


def processors() -> int:
    """Number of processors that this process may use at the same time, at least 1."""
    now = time.monotonic()
    if not _seen or now - _seen[0][0] > LOOK_EVERY:
        _seen[:] = [(now, quota(HERE))]
    return max(1, math.ceil(min(count_processors(), _seen[0][1])))


def count_processors() -> int:
    """Number of processors on which the system lets this process run."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def quota(root: Path) -> float:
    """Processor seconds per second that the control groups allow; infinite without a limit.

    root: the directory that holds `proc` and `sys`.
    """
    read = {2: version_2, 1: version_1}
    return min((read[number](group) for group, number in control_groups(root, "cpu")), default=INF)


def memory_left(root: Path) -> float:
    """Bytes that the control groups still allow, page cache included; infinite without a limit.

    root: the directory that holds `proc` and `sys`.
    """
    groups = control_groups(root, "memory")
    return min((free_bytes(group, number) for group, number in groups), default=INF)


def control_groups(root: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """Directories of the groups that this process belongs to, and their interface's version.

    A group's limit holds for all groups below it. Within a container the path may be that of the
    host, which does not exist here; the container's own group is then at the top.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            tops, version = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"], 2
        elif controller in controllers.split(","):
            names = dict.fromkeys([controllers, controller, *MOUNTED.get(controller, ())])
            tops, version = [root / "sys/fs/cgroup" / name for name in names], 1
        else:
            continue
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for top in tops:
            for depth in range(len(parts) + 1):
                yield top.joinpath(*parts[:depth]), version


def version_2(group: Path) -> float:
    """Quota of one group from its `cpu.max`, which holds microseconds (or `max`) and the
    period.
    """
    try:
        most, period = (group / "cpu.max").read_text().split()
        return math.inf if most == "max" else int(most) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def version_1(group: Path) -> float:
    """Quota of one group from `cpu.cfs_quota_us`, where -1 means no limit."""
    try:
        most = int((group / "cpu.cfs_quota_us").read_text())
        return most / int((group / "cpu.cfs_period_us").read_text()) if most > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf


def free_bytes(group: Path, version: int) -> float:
    """Bytes that one group may still allocate, counting its page cache as free."""
    limits, used, total = MEMORY_FILES[version]
    try:
        least = min(limit_of(group / name) for name in limits)
        if least == INF:
            return INF
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        cached = sum(int(stat[f"{total}{name}_file"]) for name in ("active", "inactive"))
        return max(least - int((group / used).read_text()) + cached, 0.0)
    except (OSError, ValueError, KeyError):
        return INF


def limit_of(file: Path) -> float:
    """Reads a limit in bytes; infinite if it is `max` or larger than any machine's memory."""
    text = file.read_text().strip() if file.exists() else "max"
    return INF if text == "max" or int(text) >= NO_LIMIT else float(text)
