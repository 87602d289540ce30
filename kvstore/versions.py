"""Versions of a store's model: records that name sealed files, and the pointer to the current.

    NAME/sealed/SHA256.tusk   models
    NAME/versions/3           record: which of them is version 3
    NAME/current              record: which version `predict` reads
    NAME/lock                 held for the moments in which these change
    NAME/work/RUN             working stores

Each step of publishing is one durable rename, the file before the record before the pointer; so a
crash leaves the old model or the new one, and at most a file that no record names.

A version's record has "version": name, number, digest and the model's sizes; and from format 2 on
"origin": the training that made it and the lineage that it continues, and "owner": for whom. What
reads format 1 reads format 2 and overlooks these; of a record of format 1 they are unknown.
"""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tuskml.errors import StoreError, nearest
from tuskml.kvstore import access
from tuskml.kvstore.access import Reference, check_name, parse_partitioning
from tuskml.kvstore.files import (
    Record,
    make_directory,
    read_record,
    reporting,
    sync_directory,
    waiting,
    write_record,
)
from tuskml.kvstore.sealed import SUFFIX, SealedFile
from tuskml.partitioner import IndexMap

KIND = "version"
FORMAT = 2
CURRENT, LOCK = "current", "lock"


@dataclass(frozen=True)
class Origin:
    """Origin of a version.

    training: identifier shared by all models of one statement, each of another group; lineage:
    number of the first of the versions that continue each other by warm starts; ordinal: number of
    versions of this training published under the name, including this one.
    """

    training: str
    lineage: int
    ordinal: int


@dataclass(frozen=True)
class Version:
    """A version of a store's model.

    created: seconds since 1970; digest: SHA-256 in hex. origin, owner: None for a record of format
    1, which lacks them.
    """

    name: str
    number: int
    digest: str
    created: float
    dimension: int
    nonzero: int
    size: int
    origin: Origin | None = None
    owner: access.Owner | None = None

    @property
    def reference(self) -> str:
        """Permanent reference to exactly this content, as model values store it."""
        return str(Reference(self.name, self.number, self.digest[:16]))

    def path(self, folder: Path) -> Path:
        """Path of its file below the store's directory."""
        return folder / "sealed" / (self.digest + SUFFIX)


@contextmanager
def lock_versions(folder: Path) -> Iterator[None]:
    """Locks the store's versions and its list of working stores until the context ends."""
    with ExitStack() as stack:
        with reporting("locking a store"):  # errors inside the context are not the lock's
            stack.enter_context(waiting(folder / LOCK))
        yield


def numbers(folder: Path) -> list[int]:
    """Numbers of existing versions, rising; empty while another process creates the store."""
    try:
        names = os.listdir(folder / "versions")
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def read(folder: Path, number: int | None) -> Version:
    """Reads a version by number, None for the current. Raises StoreError if its record is
    damaged.
    """
    if number is None:
        path = folder / CURRENT
        if not os.path.lexists(path):
            raise StoreError(_without_current(folder))
    else:
        path = folder / "versions" / str(number)
        if not os.path.lexists(path):
            raise StoreError(f"the store {folder.name!r} has no version {number}")
    version = _read(path)
    if version.name != folder.name or number not in (None, version.number):
        raise StoreError(f"{path} is of another model, {version.reference}")
    return version


def _without_current(folder: Path) -> str:
    known = numbers(folder)
    if not known:
        return f"the store {folder.name!r} has no finished model yet"
    return (
        f"{folder / CURRENT} is missing: name one of the versions {', '.join(map(str, known))}, "
        "or train again"
    )


def _read(path: Path) -> Version:
    record, _ = read_record(path, KIND)
    form = record.get("format", 1)
    if form not in range(1, FORMAT + 1):
        raise StoreError(f"{path} has format {form}, this tuskml reads formats 1 to {FORMAT}")
    try:
        origin = Origin(**record["origin"]) if form > 1 else None
        owner = access.Owner.from_record(record.get("owner"))
        return Version(**record["version"], origin=origin, owner=owner)
    except (KeyError, TypeError):
        raise StoreError(f"{path} is damaged: it is no record of a version") from None


def _record(version: Version) -> Record:
    """The inverse of `_read`; a version of format 1 keeps that format."""
    facts: dict[str, Any] = {
        name: value for name, value in vars(version).items() if name not in ("origin", "owner")
    }
    record: Record = {"kind": KIND, "version": facts}
    if version.origin is not None:
        owner = version.owner.as_record() if version.owner else None
        record |= {"format": FORMAT, "origin": vars(version.origin), "owner": owner}
    return record


def publish(
    folder: Path, made: SealedFile, training: str | None = None, continues: int | None = None
) -> Version:
    """Renames a sealed file into place and makes it the current version; durable on return.

    training: identifier of the training, None for a separate one; continues: the version that its
    training started from, whose lineage it joins.
    """
    with lock_versions(folder), reporting("publishing a model"):
        number = _next_number(folder)
        version = Version(
            folder.name,
            number,
            made.digest,
            time.time(),
            made.dimension,
            made.nonzero,
            made.size,
            _origin(folder, number, training or secrets.token_hex(8), continues),
            access.owner(),
        )
        os.replace(made.path, version.path(folder))
        sync_directory(folder / "sealed")
        record = _record(version)
        write_record(folder / "versions" / str(number), record)
        write_record(folder / CURRENT, record)
    return version


def _origin(folder: Path, number: int, training: str, continues: int | None) -> Origin:
    """Origin of the next version; the last version's record counts those of this training."""
    lineage, ordinal = number, 1
    if continues is not None and os.path.lexists(folder / "versions" / str(continues)):
        before = read(folder, continues).origin
        lineage = before.lineage if before else continues
    if os.path.lexists(folder / CURRENT):
        last = read(folder, None).origin
        if last is not None and last.training == training:
            ordinal = last.ordinal + 1
    return Origin(training, lineage, ordinal)


def _next_number(folder: Path) -> int:
    """Number above all earlier ones, as far as the current version's record can be read."""
    known = numbers(folder)
    if os.path.lexists(folder / CURRENT):
        known.append(read(folder, None).number)
    return max(known, default=0) + 1


def make_current(folder: Path, number: int) -> Version:
    """Makes a version the current one; repairs a missing or damaged pointer."""
    with lock_versions(folder), reporting("changing the current version"):
        version = read(folder, number)
        write_record(folder / CURRENT, _record(version))
    return version


def drop(folder: Path, number: int) -> None:
    """Removes a version that is not the current one; the collector removes its file."""
    with lock_versions(folder), reporting("dropping a version"):
        version = read(folder, number)
        if read(folder, None).number == version.number:
            raise StoreError(
                f"{version.reference} is the current version, which cannot be dropped"
            )
        (folder / "versions" / str(number)).unlink()
        sync_directory(folder / "versions")


# --- partitionings that were kept ---
#
# They are records with a checksum in a folder whose name no store can have:
# `.partitionings/NAME/VERSION`, the index map their attachment. A version never changes.


PARTITIONINGS, PARTITIONING_KIND = ".partitionings", "partitioning"
Facts = dict[str, Any]


class UnknownPartitioning(StoreError):
    """No partitioning has this name, or this version of it."""

    sqlstate = "42704"


def keep_partitioning(root: Path, name: str, index: IndexMap, facts: Facts) -> str:
    """Writes the next version of a name; returns NAME@VERSION.

    facts: plain values that `list_partitionings` returns.
    """
    with reporting("keeping a partitioning"):
        folder = make_directory(make_directory(root / PARTITIONINGS) / check_name(name))
        with lock_versions(folder):
            number = max(_partitioning_numbers(folder), default=0) + 1
            created = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
            record = {
                "kind": PARTITIONING_KIND,
                "name": name,
                "version": number,
                "created": created,
            }
            write_record(folder / str(number), record | {"facts": facts}, index.to_bytes())
    return f"{name}@{number}"


def read_partitioning(root: Path, text: str) -> IndexMap:
    """Reads the index map of NAME, newest version, or of NAME@VERSION.

    Raises UnknownPartitioning with the nearest name, or StoreError if it is damaged.
    """
    name, number = parse_partitioning(text)
    folder = root / PARTITIONINGS / name
    numbers = _partitioning_numbers(folder)
    if not numbers:
        raise UnknownPartitioning(
            f"there is no partitioning named {name!r} in {root}"
            + (
                nearest(name, _partitioning_names(root))
                or ", expected one that partition_model kept"
            )
        )
    if number is not None and number not in numbers:
        raise UnknownPartitioning(
            f"the partitioning {name!r} has no version {number}, expected at most {numbers[-1]}"
        )
    record = folder / str(number or numbers[-1])
    with reporting("reading a partitioning"):
        return IndexMap.from_bytes(read_record(record, PARTITIONING_KIND)[1])


def list_partitionings(root: Path, name: str | None = None) -> list[Facts]:
    """Lists versions of one name or all as dicts.

    Keys: partitioning, version, created, size in bytes, and the facts of `keep_partitioning`;
    `error` in their place if it cannot be read.
    """
    listed: list[Facts] = []
    for each in [check_name(name)] if name is not None else _partitioning_names(root):
        for number in _partitioning_numbers(root / PARTITIONINGS / each):
            path, facts = root / PARTITIONINGS / each / str(number), {"partitioning": each}
            try:
                record, _ = read_record(path, PARTITIONING_KIND)
            except StoreError as error:
                listed.append(facts | {"version": number, "error": str(error)})
                continue
            entry = {"version": number, "created": record["created"]}
            listed.append(facts | entry | {"size": os.path.getsize(path)} | record["facts"])
    return listed


def _partitioning_numbers(folder: Path) -> list[int]:
    if not folder.is_dir() or folder.is_symlink():
        return []
    with reporting("listing partitionings"):
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def _partitioning_names(root: Path) -> list[str]:
    if not (root / PARTITIONINGS).is_dir():
        return []
    with reporting("listing partitionings"):
        return sorted(path.name for path in (root / PARTITIONINGS).iterdir() if path.is_dir())
