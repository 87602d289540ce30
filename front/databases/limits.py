"""Limits of tuskml's resources by DuckDB's current settings.

Rows are packed outside DuckDB's own accounts, and its C interface reads no settings: a statement
that packs much calls the functions here, every 0.1 s at most; one that uses a store asks whether
it may.
"""

import ctypes
import os
import re
import threading
import weakref
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb

from tuskml.kvstore import access
from tuskml.schedule import budget

SIZE = re.compile(r"([0-9.]+) *(bytes?|[KMGTPE]iB)")
UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
NO_LIMIT = (1 << 63) - 1
READ = """
SELECT current_setting('memory_limit'), current_setting('temp_directory'),
       current_setting('threads')
"""
FILES = """
SELECT current_setting('enable_external_access'), current_setting('allowed_directories'),
       current_setting('lock_configuration')
"""


class Limits:
    """One database's settings: their last values, and the connections that can read them."""

    def __init__(self, account: int, library: ctypes.CDLL) -> None:
        self.account, self.library = account, library
        self.memory = _memory_of(account)
        self.connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self.reported: list[str] | None = None
        self.files: tuple[bool, list[str], bool] = (True, [], False)
        self.clusters: set[str] = set()

    def look(self) -> None:
        """Tells the packer when the settings have changed."""
        for cursor in self.cursors():
            self.compare(cursor)

    def cursors(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of the first connection that is still open; none if all are closed."""
        for connection in list(self.connections):
            try:
                cursor = connection.cursor()
            except duckdb.Error:  # it is closed
                self.connections.discard(connection)
                continue
            with cursor:
                yield cursor
            return

    def read_files(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Stores the settings for the time when no connection is left."""
        external, allowed, locked = connection.execute(FILES).fetchall()[0]
        self.files = bool(external), list(allowed or ()), bool(locked)

    def reason_to_refuse(self, path: str, move: bool) -> str | None:
        """Says why a statement may not use a directory, or make it that of stores or spilled
        rows.
        """
        for cursor in self.cursors():
            self.read_files(cursor)
        external, allowed, locked = self.files
        if move and locked:
            return (
                "the configuration is locked, expected lock_configuration to be false, or what "
                "tuskml.connect(...), its store_root and the environment say when the database "
                "is opened"
            )
        if external or not path or any(is_below(path, folder) for folder in allowed):
            return None
        return (
            f"the directory is {path[:300]}, which the database may not use: "
            "enable_external_access is false, expected a folder below allowed_directories"
        )

    def compare(self, connection: duckdb.DuckDBPyConnection) -> None:
        *now, threads = connection.execute(READ).fetchall()[0]
        budget.tell(_memory_of(self.account), int(threads))
        if now != self.reported:  # else a limit of the packer's own stays
            if not self.library.tusk_tell_limits(
                ctypes.c_int64(self.account),
                ctypes.c_int64(bytes_of(now[0])),
                os.fsencode(now[1] or ""),
            ):
                raise MemoryError
            self.reported = now


def bytes_of(setting: str) -> int:
    """A size as DuckDB writes it, `1.8 GiB`; without a limit it is thousands of PiB."""
    found = SIZE.fullmatch(setting)
    if found is None:
        return NO_LIMIT
    power = UNITS.index(found[2]) + 1 if found[2] in UNITS else 0
    return min(int(float(found[1]) * 1024**power), NO_LIMIT)


def is_below(path: str, folder: str) -> bool:
    """Returns whether a path, wherever links lead it, is a folder or lies below it."""
    return Path(path).resolve().is_relative_to(Path(folder).resolve())


LOOK = ctypes.CFUNCTYPE(None, ctypes.c_int64)
RULE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char)
)
SENTENCE = 512  # FILES_SENTENCE of udas/duckdb/database.h

_databases: dict[int, Limits] = {}
_lock = threading.RLock()


def _forget() -> None:
    """Forgets all databases: a forked process has copies of its parent's, which must not be
    used.
    """
    for account in list(_databases):
        _drop(account)
    _lock.release()


def _drop(account: int) -> None:
    """Forgets a database: another one may be allocated at its addresses."""
    budget.forget(_databases.pop(account).memory)


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget)


def _look(account: int) -> None:
    """Called by the packer. Errors leave the limits unchanged; the packer itself checks for a
    Ctrl-C that arrives here.
    """
    limits = _databases.get(account)
    if limits is not None:
        with suppress(BaseException):
            limits.look()


_callback = LOOK(_look)


@contextmanager
def cursor_of(account: int) -> Iterator[duckdb.DuckDBPyConnection | None]:
    """A new connection to the database with this account; None if all are closed."""
    limits = _databases.get(account)
    found = limits.cursors() if limits is not None else iter(())
    yield next(found, None)
    found.close() if isinstance(found, Generator) else None


def own_cluster(connection: duckdb.DuckDBPyConnection, place: str) -> None:
    """Lets statements of the connection's database train on a cluster: "ray" or an address."""
    account = connection.execute("SELECT _tusk_account()").fetchall()[0][0]
    _databases[account].clusters.add(place)


def is_own_cluster(account: int, place: str) -> bool:
    """Returns whether the program has opened the database for this cluster."""
    limits = _databases.get(account)
    return limits is not None and place in limits.clusters


def usual_cluster(account: int) -> str | None:
    """The cluster that the program has opened the database for, if it is one alone."""
    limits = _databases.get(account)
    return (
        next(iter(limits.clusters)) if limits is not None and len(limits.clusters) == 1 else None
    )


def external_access(connection: duckdb.DuckDBPyConnection) -> bool:
    """Returns whether statements may use any file, and the network."""
    query = "SELECT current_setting('enable_external_access')"
    return bool(connection.execute(query).fetchall()[0][0])


def refusal_of(account: int, path: str, move: bool = False) -> str | None:
    """Says why a statement of this database may not use a directory; None where it may."""
    limits = _databases.get(account)
    return limits.reason_to_refuse(path, move) if limits is not None else None


def _ask(account: int, path: bytes, move: int, sentence: Any) -> int:
    """Called by the extension. If the settings cannot be read, the answer is no."""
    try:
        text = refusal_of(account, os.fsdecode(path), bool(move))
    except BaseException:
        text = "the database's settings cannot be read, so it is unclear whether it may use files"
    if text is None:
        return 1
    kept = text.encode(errors="replace")[: SENTENCE - 1].decode(errors="ignore").encode()
    ctypes.memmove(sentence, kept + b"\0", len(kept) + 1)
    return 0


_rule = RULE(_ask)


def share_limits(connection: duckdb.DuckDBPyConnection, library: ctypes.CDLL) -> None:
    """Reports the packer's limits, now and whenever the settings change."""
    account = connection.execute("SELECT _tusk_account()").fetchall()[0][0]
    library.tusk_set_limits_reader(_callback)
    library.tusk_set_files_rule(_rule)
    access.follow_rule(refusal_of)
    limits = Limits(account, library)
    limits.compare(connection)
    limits.read_files(connection)
    with _lock:
        known = _databases.get(account)
        if known is not None:
            limits.connections |= known.connections
            if any(True for _ in known.cursors()):  # else it was of a database that is closed
                limits.clusters |= known.clusters
        limits.connections.add(connection)
        _databases[account] = limits
        for other in [a for a, seen in _databases.items() if not seen.connections]:
            _drop(other)
        budget.readers[limits.memory] = limits.look


def _memory_of(account: int) -> int:
    """The address of the rows' memory, the first field of a database's account (`struct
    database`).
    """
    return ctypes.c_void_p.from_address(account).value or 0
