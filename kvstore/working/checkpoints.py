"""Checkpoints of a LevelDB directory: exact, made of links, checked to the byte before use.

LevelDB writes a file once, then only deletes it: the files that a closed database consists of will
never change. A checkpoint links them into a directory of its own beside a record of their sizes
and CRCs, and becomes valid by one rename. (With LevelDB's own checks alone a flipped byte in a
MANIFEST makes most keys vanish without an error.)
"""

import errno
import os
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore.files.files import (
    Record,
    file_crc,
    make_directory,
    read_record,
    sync_directory,
    write_record,
)
from tuskml.kvstore.working.manifest import live_files

KIND = "checkpoint"
RECORD = "record"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint: its number, from 1 on, and the metadata given with it."""

    number: int
    metadata: Record
    path: Path
    files: dict[str, tuple[int, int]] = field(repr=False)
    """CRC-32C and size of each file."""


def latest(folder: Path, store: str) -> Checkpoint | None:
    """Newest checkpoint of the named store. Raises StoreError if its record is damaged."""
    numbers = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    if not numbers:
        return None
    path = folder / str(max(numbers))
    record, _ = read_record(path / RECORD, KIND)
    if record["store"] != store or record["number"] != max(numbers):
        raise StoreError(f"{path} is a checkpoint of another store or number")
    files = {name: (int(crc), int(size)) for name, (crc, size) in record["files"].items()}
    return Checkpoint(max(numbers), record["metadata"], path, files)


def write(
    folder: Path, store: str, database: Path, metadata: Record, before: Checkpoint | None
) -> Checkpoint:
    """Makes a checkpoint of a closed database durable, then removes the older ones."""
    number = before.number + 1 if before else 1
    new = folder / f".new-{secrets.token_hex(8)}"
    new.mkdir(mode=0o700)
    try:
        files = _link_all(database, new, before.files if before else {})
        record = {"kind": KIND, "store": store, "number": number, "metadata": metadata}
        write_record(new / RECORD, record | {"files": files})
        path = folder / str(number)
        new.rename(path)
        sync_directory(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    remove_others(folder, number)
    return Checkpoint(number, metadata, path, files)


def restore(checkpoint: Checkpoint, database: Path) -> None:
    """Replaces the database by the checkpoint. Raises StoreError if any of its bytes changed."""
    verify(checkpoint)
    if database.exists() or database.is_symlink():
        shutil.rmtree(database)
    make_directory(database)
    for name in checkpoint.files:
        _link(checkpoint.path / name, database / name)
    sync_directory(database)


def verify(checkpoint: Checkpoint) -> None:
    """Raises StoreError unless each file has the recorded size and CRC."""
    for name, expected in checkpoint.files.items():
        path = checkpoint.path / name
        if Path(name).name != name or file_crc(path) != expected:
            raise StoreError(f"{path} is damaged: it is not as the checkpoint wrote it")


def remove_others(folder: Path, number: int) -> None:
    """Removes older checkpoints and remains of incomplete ones."""
    for path in folder.iterdir():
        if path.name != str(number):
            shutil.rmtree(path, ignore_errors=True)


def _link_all(
    database: Path, folder: Path, known: dict[str, tuple[int, int]]
) -> dict[str, tuple[int, int]]:
    """Links a closed database's files, each after an fsync; tables are read only once."""
    files = {}
    for name in live_files(database):
        source = database / name
        table = name.endswith((".ldb", ".sst")) and name in known
        files[name] = known[name] if table else file_crc(source, sync=True)
        _link(source, folder / name)
    return files


def _link(source: Path, target: Path) -> None:
    """Links, or copies if the file system has no links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copyfile(source, target, follow_symlinks=False)
        file_crc(target, sync=True)
