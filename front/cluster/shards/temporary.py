"""Shards that last as long as a training: the rows of a table or a query, for its workers.

A killed process cannot remove its folder, so the next one that makes a folder there removes it. A
file in each folder is locked by the process that made it, and the system releases the lock with
that process. A lock may not be visible from another host, so folders of other hosts are left
alone.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from tuskml.cluster.shards.splitting import SHARD_BYTES, sort_table
from tuskml.cluster.shards.writing import Writing
from tuskml.databases.duckdb import DuckDB
from tuskml.errors import DataError

FOLDER = "TUSKML_CLUSTER_FOLDER"
"""The setting that says where they are written: a folder that all workers see at this path."""
PREFIX = "tuskml-shards-"
LOCK = ".lock"
"""The file that is locked. It has the identity of the host since its start."""
HOST = Path("/proc/sys/kernel/random/boot_id")


@contextmanager
def temporary_shards(database: DuckDB, query: str, keys: Sequence[str]) -> Iterator[str | None]:
    """Writes a query's rows as shards by these of its columns, and removes them at the end.

    Yields the argument of `read_parquet`, or None for a query without rows. Raises DataError if
    the shards cannot be written.
    """
    with temporary_folder(os.environ.get(FOLDER) or None) as folder:
        yield write_shards(database, query, keys, folder)


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[Path]:
    """A new folder, which is removed at the end, by default in the temporary folder of this
    machine. Raises DataError if it cannot be made.
    """
    remove_left(Path(parent or gettempdir()))
    try:
        made = TemporaryDirectory(prefix=PREFIX, dir=parent, ignore_cleanup_errors=True)
    except OSError as error:
        where = parent or "the folder of temporary files"
        raise DataError(
            f"rows cannot be written to {where} for the workers: {error.strerror}; the setting "
            f"{FOLDER} names a folder that all workers see"
        ) from error
    with made as name, lock_folder(Path(name)):
        yield Path(name)


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Holds the folder's lock, if the file system has locks; otherwise no other process
    removes it.
    """
    new, held = folder / f"{LOCK}-new", -1
    with suppress(OSError):
        held = os.open(new, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.write(held, HOST.read_bytes())
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.rename(folder / LOCK)  # now that it is locked
    try:
        yield
    finally:
        if held >= 0:
            os.close(held)


def remove_left(parent: Path) -> None:
    """Removes this user's folders in this one whose processes have ended on this host."""
    with suppress(OSError):
        for folder in list(parent.glob(f"{PREFIX}*")):
            with suppress(OSError):
                remove_if_left(folder)


def remove_if_left(folder: Path) -> None:
    """Removes one of them. Raises OSError if it is another's, or its process lives."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return
    held = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.read(held, 64) == HOST.read_bytes():
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
    finally:
        os.close(held)


def write_shards(database: DuckDB, query: str, keys: Sequence[str], folder: Path) -> str | None:
    """The glob of the shards; None for a query without rows."""
    with sort_table(database, query, keys) as table:
        if not database.fetch(f"SELECT 1 FROM {table} LIMIT 1"):
            return None
        manifest = Writing(database, table, keys, folder, SHARD_BYTES).manifest()
        manifest.write()
        return manifest.source


def is_temporary(path: str) -> bool:
    """Returns whether a shard is one of these."""
    return Path(path).parent.name.startswith(PREFIX)
