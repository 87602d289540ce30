"""Versions of a store's model: records that name sealed files, and the pointer to the current.

    NAME/sealed/SHA256.tusk   models
    NAME/versions/3           record: which of them is version 3
    NAME/current              record: which version `predict` reads
    NAME/lock                 held for the moments in which these change
    NAME/work/RUN             working stores

Each step of publishing is one durable rename, the file before the record before the pointer; so a
crash leaves the old model or the new one, and at most a file that no record names.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tuskml.errors import StoreError
from tuskml.kvstore.files import Record, read_record, reporting, sync_directory, write_record
from tuskml.kvstore.locks import waiting
from tuskml.kvstore.names import Reference
from tuskml.kvstore.sealing import SUFFIX, Sealed

KIND = "version"
CURRENT, LOCK = "current", "lock"


@dataclass(frozen=True)
class Version:
    """A version of a store's model. created: seconds since 1970; digest: SHA-256 in hex."""

    name: str
    number: int
    digest: str
    created: float
    dimension: int
    nonzero: int
    size: int

    @property
    def reference(self) -> str:
        """What a model value keeps: it names this content and no other, for ever."""
        return str(Reference(self.name, self.number, self.digest[:16]))

    def path(self, folder: Path) -> Path:
        """Its file, below the store's directory."""
        return folder / "sealed" / (self.digest + SUFFIX)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The store's versions and its list of working stores, for the context alone."""
    with reporting("locking a store"), waiting(folder / LOCK):
        yield


def numbers(folder: Path) -> list[int]:
    """The versions there are, rising."""
    names = [path.name for path in (folder / "versions").iterdir()]
    return sorted(int(name) for name in names if name.isdigit())


def read(folder: Path, number: int | None) -> Version:
    """A version by its number, None for the current; StoreError if its record is damaged."""
    if number is None:
        path = folder / CURRENT
        if not os.path.lexists(path):
            raise StoreError(_without_current(folder))
    else:
        path = folder / "versions" / str(number)
        if not os.path.lexists(path):
            raise StoreError(f"the store {folder.name!r} has no version {number}")
    found = _read(path)
    if found.name != folder.name or number not in (None, found.number):
        raise StoreError(f"{path} is of another model, {found.reference}")
    return found


def _without_current(folder: Path) -> str:
    found = numbers(folder)
    if not found:
        return f"the store {folder.name!r} has no finished model yet"
    return (
        f"{folder / CURRENT} is missing: name one of the versions {', '.join(map(str, found))}, "
        "or train again"
    )


def _read(path: Path) -> Version:
    record, _ = read_record(path, KIND)
    try:
        return Version(**record["version"])
    except (KeyError, TypeError):
        raise StoreError(f"{path} is damaged: it is no record of a version") from None


def publish(folder: Path, made: Sealed) -> Version:
    """Gives a sealed file its name and makes it the current version; durable when it returns."""
    with locked(folder), reporting("publishing a model"):
        number = _next_number(folder)
        version = Version(
            folder.name, number, made.digest, time.time(), made.dimension, made.nonzero, made.size
        )
        os.replace(made.path, version.path(folder))
        sync_directory(folder / "sealed")
        record: Record = {"kind": KIND, "version": vars(version)}
        write_record(folder / "versions" / str(number), record)
        write_record(folder / CURRENT, record)
    return version


def _next_number(folder: Path) -> int:
    """Above all there ever were, if the current one's record can be read."""
    known = numbers(folder)
    if os.path.lexists(folder / CURRENT):
        known.append(read(folder, None).number)
    return max(known, default=0) + 1


def make_current(folder: Path, number: int) -> Version:
    """Lets the pointer name another version; it heals a pointer that is missing or damaged."""
    with locked(folder), reporting("changing the current version"):
        version = read(folder, number)
        write_record(folder / CURRENT, {"kind": KIND, "version": vars(version)})
    return version


def drop(folder: Path, number: int) -> None:
    """Forgets a version that is not the current one; the collector removes its file."""
    with locked(folder), reporting("dropping a version"):
        version = read(folder, number)
        if read(folder, None).number == version.number:
            raise StoreError(
                f"{version.reference} is the current version, which cannot be dropped"
            )
        (folder / "versions" / str(number)).unlink()
        sync_directory(folder / "versions")
