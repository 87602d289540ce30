"""Listing and verification of the stores of a root."""

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from tuskml.errors import StoreError
from tuskml.kvstore.files.files import read_record, reporting, size_of
from tuskml.kvstore.roots import versions
from tuskml.kvstore.roots.names import folder_of
from tuskml.kvstore.roots.root import StoreRoot
from tuskml.kvstore.working import checkpoints, working

Facts = dict[str, Any]


def list_stores(root: StoreRoot, name: str | None = None) -> list[Facts]:
    """A dict for each version and working store of one name or all.

    Versions: name, version, current, created, dimension, nonzero, size, digest, origin and owner
    (objects, or None where the record does not say); working stores: name, working, owner (a pid,
    0 unknown, None if no process has it), checkpoint (its number or None), size. What
    cannot be read has `error` instead.
    """
    facts: list[Facts] = []
    for part, each in stores_of(root, name):
        facts += _versions(part, each)
        facts += _working(part, each)
    return facts


def stores_of(root: StoreRoot, name: str | None) -> list[tuple[StoreRoot, str]]:
    """All stores of a root and of the owners' roots below it, or those of one name.

    Raises UnknownStore if no store has that name.
    """
    stores = [(part, each) for part in root.parts() for each in part.names()]
    if name is None:
        return stores
    return [each for each in stores if each[1] == name] or [
        (root, folder_of(root.path, name).name)
    ]


def _versions(root: StoreRoot, name: str) -> Iterator[Facts]:
    folder = folder_of(root.path, name)
    try:
        current = versions.read(folder, None).number
    except StoreError:
        current = 0
    for number in root.versions(name):
        try:
            facts = asdict(versions.read(folder, number))
        except StoreError as error:
            yield {"name": name, "version": number, "error": str(error)}
            continue
        del facts["number"]
        yield {"name": name, "version": number, "current": number == current} | facts


def _working(root: StoreRoot, name: str) -> Iterator[Facts]:
    for path in root.working(name):
        facts: Facts = {"name": name, "working": path.name}
        try:
            last = _checkpoint_of(path)
        except StoreError as error:
            yield facts | {"error": str(error)}
            continue
        number = last.number if last else None
        yield facts | {
            "owner": root.owner(path),
            "checkpoint": number,
            "size": size_of(path),
        }


def _checkpoint_of(path: Path) -> checkpoints.Checkpoint | None:
    with reporting("reading a working store"):
        record, _ = read_record(path / working.RECORD, working.KIND)
        return checkpoints.latest(path / working.CHECKPOINTS, record["store"])


def verify_stores(root: StoreRoot, name: str | None = None) -> Iterator[Facts]:
    """Verifies all bytes of the models of one name or of all; yields dicts with name, what, ok,
    error.

    what: a version's reference, a working store's checkpoint, or the pointer to the current
    version. Checkpoints of open stores are skipped.
    """
    for part, each in stores_of(root, name):
        yield from _verify(part, each)


def _verify(root: StoreRoot, name: str) -> Iterator[Facts]:
    folder = folder_of(root.path, name)
    for number in root.versions(name):
        reference = f"{name}@{number}"
        yield _try(name, reference, partial(_read_all, root, reference))
    if root.versions(name) or os.path.lexists(folder / versions.CURRENT):
        yield _try(name, f"{name}, current", partial(root.version, name))
    for path in root.working(name):
        if root.owner(path) is None:
            yield _try(name, f"{name}, {path.name}", partial(_verify_working, path))


def _try(name: str, what: str, look: Callable[[], object]) -> Facts:
    try:
        look()
    except StoreError as error:
        return {"name": name, "what": what, "ok": False, "error": str(error)}
    return {"name": name, "what": what, "ok": True, "error": None}


def _read_all(root: StoreRoot, reference: str) -> None:
    with root.open(reference) as model:
        model.verify()


def _verify_working(path: Path) -> None:
    last = _checkpoint_of(path)
    if last is not None:
        with reporting("reading a checkpoint"):
            checkpoints.verify(last)
