"""The files of a closed LevelDB database.

The directory may also have files of a compaction that was running at the close. Their numbers are
not reserved: LevelDB reuses them and overwrites the files. So they must not be linked into a
checkpoint. LevelDB's `doc/log_format.md` describes the records of a MANIFEST, `db/version_edit.cc`
their contents.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

from tuskml.errors import StoreError
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
        if _masked(crc32c(bytes([kind]) + body)) != crc:
            raise ValueError("the checksum of a record is wrong")
        parts = body if kind in (FULL, FIRST) else parts + body
        if kind in (FULL, LAST):
            yield parts
        place += HEADER.size + length


def _masked(crc: int) -> int:
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
