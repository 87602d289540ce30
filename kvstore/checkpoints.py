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
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore.files import (
    Record,
    file_crc,
    make_directory,
    read_record,
    sync_directory,
    write_record,
)
from tuskml.kvstore.native import crc32c

BLOCK = 32_768
HEADER = struct.Struct("<IHB")  # masked CRC, length, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4
COMPARATOR, LOG, NEXT_FILE, LAST_SEQUENCE, COMPACT, DELETED, ADDED, PREVIOUS_LOG = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    9,
)


def live_files(database: Path) -> list[str]:
    """Names of the files that opening the database reads. Raises StoreError if they are
    unknown.
    """
    current = (database / "CURRENT").read_bytes()
    name = current.decode(errors="replace").strip()
    if not name.startswith("MANIFEST-") or "/" in name:
        raise StoreError(f"{database / 'CURRENT'} is damaged")
    try:
        tables, log = _replay((database / name).read_bytes())
    except (ValueError, IndexError, struct.error) as error:
        raise StoreError(f"{database / name} is damaged: {error}") from error
    logs = [path.name for path in database.glob("*.log") if int(path.stem) >= log]
    return sorted(["CURRENT", name, *logs, *(_table(database, number) for number in tables)])


def _table(database: Path, number: int) -> str:
    name = f"{number:06d}.ldb"
    return name if (database / name).exists() else f"{number:06d}.sst"


def _replay(manifest: bytes) -> tuple[set[int], int]:
    """Numbers of the live tables, and of the first live log."""
    tables: set[int] = set()
    log = 0
    for record in _records(manifest):
        for tag, number in _edits(record):
            if tag == LOG:
                log = number
            elif tag == ADDED:
                tables.add(number)
            elif tag == DELETED:
                tables.discard(number)
    return tables, log


def _records(data: bytes) -> Iterator[bytes]:
    place, parts = 0, b""
    while place + HEADER.size <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER.size:  # a trailer of zeros
            place += left
            continue
        crc, length, kind = HEADER.unpack_from(data, place)
        body = data[place + HEADER.size : place + HEADER.size + length]
        if len(body) < length or kind not in (FULL, FIRST, MIDDLE, LAST):
            raise ValueError("a record is cut or of an unknown type")
        if _mask(crc32c(bytes([kind]) + body)) != crc:
            raise ValueError("the checksum of a record is wrong")
        parts = body if kind in (FULL, FIRST) else parts + body
        if kind in (FULL, LAST):
            yield parts
        place += HEADER.size + length


def _mask(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _edits(record: bytes) -> Iterator[tuple[int, int]]:
    """Yields (tag, number) of a record; for files their numbers."""
    place = 0
    while place < len(record):
        tag, place = _number(record, place)
        if tag in (COMPACT, DELETED, ADDED):
            _, place = _number(record, place)  # skip the level
        if tag in (COMPARATOR, COMPACT):
            place = _skip_text(record, place)
        elif tag in (LOG, NEXT_FILE, LAST_SEQUENCE, PREVIOUS_LOG, DELETED, ADDED):
            number, place = _number(record, place)
            yield tag, number
        else:
            raise ValueError(f"a record has the unknown tag {tag}")
        if tag == ADDED:
            _, place = _number(record, place)  # skip the size
            place = _skip_text(record, _skip_text(record, place))


def _number(record: bytes, place: int) -> tuple[int, int]:
    """Decodes a base-128 number, lowest bits first; returns it and the index after it."""
    number = shift = 0
    while record[place] & 0x80:
        number |= (record[place] & 0x7F) << shift
        shift, place = shift + 7, place + 1
    return number | record[place] << shift, place + 1


def _skip_text(record: bytes, place: int) -> int:
    length, place = _number(record, place)
    return place + length


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
