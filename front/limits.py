"""What DuckDB's settings let the packer use, seen as they are now.

Rows are packed outside DuckDB's own accounts, and its C interface reads no settings: a statement
that packs much asks here, every 0.1 s at most.
"""

import ctypes
import os
import threading
import weakref
from contextlib import suppress

import duckdb

from tuskml.udas import charged

TELL = """
SELECT tuskml_set_memory(
    (regexp_extract(setting, '([0-9.]+)', 1)::DOUBLE
     * CASE regexp_extract(setting, '[A-Za-z]+')
           WHEN 'bytes' THEN 1 WHEN 'byte' THEN 1
           WHEN 'KiB' THEN 1024 WHEN 'MiB' THEN 1048576
           WHEN 'GiB' THEN 1073741824 WHEN 'TiB' THEN 1099511627776
           ELSE 1 END)::BIGINT,
    directory)
FROM (SELECT $1 AS setting, $2 AS directory)
"""
READ = "SELECT current_setting('memory_limit'), current_setting('temp_directory')"


class Limits:
    """One database's settings: what they were, and who can be asked what they are."""

    def __init__(self) -> None:
        self.connections: weakref.WeakSet[duckdb.DuckDBPyConnection] = weakref.WeakSet()
        self.told: tuple[str, str] | None = None

    def look(self) -> None:
        """Tells the packer when the settings have changed, by a cursor of the first connection
        that is still open."""
        for connection in list(self.connections):
            try:
                cursor = connection.cursor()
            except duckdb.Error:  # it is closed
                self.connections.discard(connection)
                continue
            with cursor:
                self.compare(cursor)
            return

    def compare(self, connection: duckdb.DuckDBPyConnection) -> None:
        now = connection.execute(READ).fetchall()[0]
        if now != self.told:  # else a limit of the packer's own stays
            connection.execute(TELL, now).fetchall()
            self.told = now


LOOK = ctypes.CFUNCTYPE(None, ctypes.c_int64)

_databases: dict[int, Limits] = {}
_lock = threading.RLock()


def _forget() -> None:
    """A forked process has copies of its parent's databases, which are not to be asked."""
    _databases.clear()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_forget)


def _look(account: int) -> None:
    """Called by the packer. What goes wrong leaves the limits as they were; a Ctrl-C that comes
    here ends the statement by the packer's own look at it."""
    limits = _databases.get(account)
    if limits is not None:
        with suppress(BaseException):
            limits.look()


_callback = LOOK(_look)


def share_limits(connection: duckdb.DuckDBPyConnection, library: ctypes.CDLL) -> None:
    """Tells the packer what it may use, now and whenever the settings change."""
    account = connection.execute("SELECT _tusk_account()").fetchall()[0][0]
    library.tusk_set_limits_reader(_callback)
    limits = Limits()
    limits.compare(connection)
    with _lock:
        known = _databases.get(account)
        if known is not None:
            limits.connections |= known.connections
        limits.connections.add(connection)
        _databases[account] = limits
        charged.LIMITS[_memory_of(account)] = limits.look
        for other in [a for a, seen in _databases.items() if not seen.connections]:
            del _databases[other]


def _memory_of(account: int) -> int:
    """Address of the rows' memory, with which a database's account begins (`struct door`)."""
    return ctypes.c_void_p.from_address(account).value or 0
