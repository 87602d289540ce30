"""Named partitionings in a root for later trainings.

They are records with a checksum (`files.write_record`) in a folder whose name no store can have:
`.partitionings/NAME/VERSION`, the index map their attachment. A version never changes.
"""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuskml.errors import StoreError, nearest
from tuskml.kvstore.files.files import make_directory, read_record, reporting, write_record
from tuskml.kvstore.roots.names import checked_name
from tuskml.kvstore.roots.versions import locked
from tuskml.partitioner import IndexMap

FOLDER, KIND = ".partitionings", "partitioning"
REFERENCE = re.compile(r"(?P<name>[^@]*)(?:@(?P<number>[0-9]{1,9}))?")
Facts = dict[str, Any]


class UnknownPartitioning(StoreError):
    """No partitioning has this name, or this version of it."""

    sqlstate = "42704"


def keep_partitioning(root: Path, name: str, index: IndexMap, facts: Facts) -> str:
    """Writes the next version of a name; returns NAME@VERSION.

    facts: plain values that `list_partitionings` returns.
    """
    with reporting("keeping a partitioning"):
        folder = make_directory(make_directory(root / FOLDER) / checked_name(name))
        with locked(folder):
            number = max(_numbers(folder), default=0) + 1
            created = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            record = {"kind": KIND, "name": name, "version": number, "created": created}
            write_record(folder / str(number), record | {"facts": facts}, index.to_bytes())
    return f"{name}@{number}"


def read_partitioning(root: Path, text: str) -> IndexMap:
    """Reads the index map of NAME, newest version, or of NAME@VERSION.

    Raises UnknownPartitioning with the nearest name, or StoreError if it is damaged.
    """
    name, number = parsed(text)
    folder = root / FOLDER / name
    numbers = _numbers(folder)
    if not numbers:
        raise UnknownPartitioning(
            f"there is no partitioning named {name!r} in {root}"
            f"{nearest(name, _names(root)) or ', expected one that partition_model kept'}"
        )
    if number is not None and number not in numbers:
        raise UnknownPartitioning(
            f"the partitioning {name!r} has no version {number}, expected at most {numbers[-1]}"
        )
    record = folder / str(number or numbers[-1])
    with reporting("reading a partitioning"):
        return IndexMap.from_bytes(read_record(record, KIND)[1])


def list_partitionings(root: Path, name: str | None = None) -> list[Facts]:
    """Lists versions of one name or all as dicts.

    Keys: partitioning, version, created, size in bytes, and the facts of `keep_partitioning`;
    `error` in their place if it cannot be read.
    """
    listed: list[Facts] = []
    for each in [checked_name(name)] if name is not None else _names(root):
        for number in _numbers(root / FOLDER / each):
            path, facts = root / FOLDER / each / str(number), {"partitioning": each}
            try:
                record, _ = read_record(path, KIND)
            except StoreError as error:
                listed.append(facts | {"version": number, "error": str(error)})
                continue
            entry = {"version": number, "created": record["created"]}
            listed.append(facts | entry | {"size": os.path.getsize(path)} | record["facts"])
    return listed


def parsed(text: str) -> tuple[str, int | None]:
    """Parses name and version. Raises StoreError."""
    match = REFERENCE.fullmatch(text)
    if not match:
        raise StoreError(f"a partitioning is NAME or NAME@VERSION, got {text[:100]!r}")
    return checked_name(match["name"]), int(match["number"]) if match["number"] else None


def _numbers(folder: Path) -> list[int]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    with reporting("listing partitionings"):
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def _names(root: Path) -> list[str]:
    if not (root / FOLDER).is_dir():
        return []
    with reporting("listing partitionings"):
        return sorted(path.name for path in (root / FOLDER).iterdir() if path.is_dir())
