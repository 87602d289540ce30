"""A limit on a process's memory that its page cache is charged to: a memory cgroup.

    with memory_group.limited(96 << 20) as group:
        subprocess.run([..., str(group.path)])   # which calls memory_group.join(path)

Memory that a process has before it joins stays outside (version 1 leaves it where it was charged),
so a benchmark loads its rows first. Files that it reads or writes afterwards are held to the limit
by the kernel, whatever calls it uses, so contenders need no help to let go of pages.

Linux, Documentation/admin-guide/cgroup-v1/memory.rst and cgroup-v2.rst.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 50
"""Tries to remove a group whose last process is just ending, a tenth of a second apart."""


class NoGroup(Exception):
    """There can be no such group; the message says why."""


@dataclass(frozen=True)
class Group:
    """A group's directory, and the version of its interface: 1 or 2."""

    path: Path
    version: int

    @property
    def limit(self) -> str:
        """The file with the limit."""
        return "memory.limit_in_bytes" if self.version == 1 else "memory.max"

    @property
    def failures(self) -> int:
        """The number of times the limit was reached, so that pages had to be freed."""
        if self.version == 1:
            return int((self.path / "memory.failcnt").read_text())
        lines = (self.path / "memory.events").read_text().splitlines()
        return int(dict(line.split() for line in lines)["max"])

    @property
    def killed(self) -> int:
        """Processes that were killed as they needed more."""
        name = "memory.oom_control" if self.version == 1 else "memory.events"
        lines = (self.path / name).read_text().splitlines()
        return int(dict(line.split() for line in lines).get("oom_kill", 0))


@contextmanager
def limited(size: int) -> Iterator[Group]:
    """A group of `size` bytes without processes, removed at the end. NoGroup: the reason."""
    group = _made(f"tuskml-bench-{os.getpid()}-{secrets.token_hex(3)}")
    try:
        try:
            (group.path / group.limit).write_text(str(size))
        except OSError as error:
            raise NoGroup(f"{group.path / group.limit}: {error.strerror}") from None
        yield group
    finally:
        _remove(group.path)


def join(path: Path) -> None:
    """Moves this process into a group; its current memory is not charged there."""
    ctypes.CDLL(None).malloc_trim(0)  # otherwise freed memory would be reused without a charge
    (path / "cgroup.procs").write_text(str(os.getpid()))


def held(path: Path) -> int:
    """Bytes of a group's processes, without its page cache."""
    lines = (path / "memory.stat").read_text().splitlines()
    stat = dict(line.split() for line in lines)
    return int(stat.get("total_rss", stat.get("anon", 0)))


def _made(name: str) -> Group:
    reasons = []
    for parent, version in _parents():
        path = parent / name
        try:
            path.mkdir()
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            continue
        found = Group(path, version)
        if (path / found.limit).exists():
            return found
        path.rmdir()
        reasons.append(f"{parent}: no memory controller for groups below it")
    raise NoGroup("; ".join(reasons) or "no memory cgroups are mounted")


def _parents() -> Iterator[tuple[Path, int]]:
    """Yields the folders in which groups might be made: at the top, or below this process's
    own.
    """
    try:
        mounts = Path("/proc/self/mounts").read_text().splitlines()
        own = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    paths = {names: path for _, names, path in (line.split(":", 2) for line in own)}
    for line in mounts:
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup" and "memory" in options.split(","):
            yield from ((parent, 1) for parent in _of(place, paths.get("memory", "/")))
        elif kind == "cgroup2":
            yield from ((parent, 2) for parent in _of(place, paths.get("", "/")))


def _of(place: str, path: str) -> list[Path]:
    return list(dict.fromkeys((Path(place), Path(place + path.rstrip("/")))))


def _remove(path: Path) -> None:
    for _ in range(PATIENCE):
        with suppress(OSError):
            path.rmdir()
            return
        time.sleep(0.1)
