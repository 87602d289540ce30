"""All stores of a user or a database: names, versions, working stores."""

import os
import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from tuskml.errors import StoreError
from tuskml.kvstore import access, versions, working
from tuskml.kvstore.access import (
    NothingToResume,
    Reference,
    UnknownStore,
    folder_of,
    make_root,
    names_in,
)
from tuskml.kvstore.database import LEAST_MEMORY, PROBE_PREFIX
from tuskml.kvstore.files import (
    TEMPORARY,
    Lock,
    Record,
    check_unowned,
    owner_of,
    remove_tree,
    reporting,
)
from tuskml.kvstore.native import Ids, Weights
from tuskml.kvstore.sealed import MOST_PAIRS, SealedModel, sealing
from tuskml.kvstore.versions import Version, read_partitioning
from tuskml.kvstore.working import ModelStore, fill, pairs_of
from tuskml.partitioner import IndexMap

Leftover = tuple[Path, str]
"""A path and the reason why it is of no use."""


def leftovers_in_root(root: Path) -> Iterator[Leftover]:
    """Yields unfinished measurements."""
    for path in _entries(root):
        if path.name.startswith(PROBE_PREFIX):
            with check_unowned(path) as unlocked:
                if unlocked:
                    yield path, "a measurement that ended halfway"


def leftovers_in_store(folder: Path) -> Iterator[Leftover]:
    """Yields leftovers of one store, whose lock the caller holds, so that no record changes."""
    for path in [*_entries(folder), *_entries(folder / "versions")]:
        if path.name.startswith(TEMPORARY):
            yield path, "a record that was written halfway"
    for path in _entries(folder / "sealed"):
        if path.name.startswith(TEMPORARY):
            with check_unowned(path) as unlocked:
                if unlocked:
                    yield path, "a seal that ended halfway"
    yield from _in_work(folder / "work")


def _in_work(work: Path) -> Iterator[Leftover]:
    for path in _entries(work):
        if path.name.startswith(working.GONE):
            yield path, "a working store whose removal ended halfway"
        elif not has_checkpoint(path):
            try:
                lock = Lock(path / working.LOCK)
            except (StoreError, FileNotFoundError, NotADirectoryError):
                continue  # it is in use, or removed by now
            with lock:
                # its owner may have made a checkpoint just before unlocking
                if not has_checkpoint(path):
                    yield path, "its owner is gone and it has no checkpoint"


def has_checkpoint(path: Path) -> bool:
    """Returns whether a working store can be resumed."""
    return any(part.name.isdigit() for part in _entries(path / working.CHECKPOINTS))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder))
    # running trainings may remove files at any time
    except (FileNotFoundError, NotADirectoryError):
        return []


def sweep(root: Path, folder: Path) -> None:
    """Removes all leftovers of the root and of one store, whose lock the caller holds."""
    for leftovers in (leftovers_in_root(root), leftovers_in_store(folder)):
        for path, _ in leftovers:  # each is locked until the next is requested
            remove_tree(path)


BLOCK = 1024
"""Weights per block of a sealed model without a layout of its own."""


class StoreRoot:
    """The directory of all stores, each under its name.

    A name has versions, finished models that any process reads, and working stores, one for each
    training that runs or was interrupted.
    """

    def __init__(self, path: "Path | str | None" = None, training: str | None = None) -> None:
        """Opens or creates the root.

        path: else the environment's TUSKML_STORE_ROOT, else the user's data folder. training:
        identifier shared by versions published here that are models of different groups of one
        statement. None: each is a training of its own.
        """
        self.path = make_root(path)
        self.training = training

    # --- training ---

    def create(
        self,
        name: str,
        index: IndexMap,
        dtype: DTypeLike = "float32",
        memory: int = 2 * LEAST_MEMORY,
        metadata: "Record | None" = None,
        warm_start: "str | Reference | None" = None,
        buffers: int = 0,
    ) -> ModelStore:
        """Creates a working store for a training of the model of this name.

        memory, metadata, buffers: as for `ModelStore.create`. warm_start: a finished model whose
        weights initialise it, of any index map and dtype; its last checkpoint has number 1 then.
        Leftovers of killed trainings of this name are removed.
        """
        source = self.open(warm_start) if warm_start is not None else None
        folder = folder_of(self.path, name, create=True)
        run = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}"
        with versions.lock_versions(folder):
            sweep(self.path, folder)
            store = ModelStore.create(
                folder / "work" / run, index, dtype, memory, metadata, buffers
            )
        if source is None:
            return store
        try:
            with source:
                fill(store, source.items())
            store.checkpoint({"warm_start": str(warm_start), "digest": source.digest})
        except BaseException:
            store.discard()
            raise
        return store

    def working(self, name: str) -> list[Path]:
        """Directories of the name's working stores, oldest first."""
        folder = folder_of(self.path, name)
        with reporting("listing working stores"):
            return sorted(p for p in (folder / "work").iterdir() if not p.name.startswith("."))

    def resume(self, name: str, memory: int = 2 * LEAST_MEMORY, buffers: int = 0) -> ModelStore:
        """Resumes the newest closed working store that has a checkpoint, at that checkpoint.

        Raises StoreError with the first reason if none can be resumed, NothingToResume if there is
        none.
        """
        reasons = []
        for path in reversed(self.working(name)):
            try:
                return ModelStore.resume(path, memory, buffers)
            except StoreError as error:
                reasons.append(str(error))
        if reasons:
            raise StoreError(reasons[0])
        raise NothingToResume(
            f"the store {name!r} has no interrupted training: leave out 'resume' to begin a new "
            "one"
        )

    def publish(
        self,
        store: ModelStore,
        metadata: "Record | None" = None,
        dimension: int | None = None,
        continues: "str | Reference | None" = None,
        pairs: "Iterable[tuple[Ids, Weights]] | None" = None,
    ) -> Version:
        """Seals a working store of this root as the next version of its name, and the current.

        dimension: features of the model, None for one more than the last weight that is not 0;
        continues: the finished model that the training began with; the version is of its lineage
        where it is one of this name; pairs: the weights, as `publish_pairs` takes them, where they
        are not in the store. When it returns the version survives a loss of power. The
        working store stays as it is.
        """
        folder = store.path.parent.parent
        if folder.parent != self.path:
            raise StoreError(f"{store.path} is not a working store of {self.path}")
        index = store.index.without_live().to_bytes()  # readers look ids up in the blocks
        if store.several > 1:
            index = IndexMap.by_rule(BLOCK).to_bytes()
        pairs = pairs_of(store) if pairs is None else pairs
        return self._seal(folder, pairs, store.dtype, dimension, index, metadata, continues)

    def publish_pairs(
        self,
        name: str,
        pairs: Iterable[tuple[Ids, Weights]],
        dtype: DTypeLike,
        dimension: int | None = None,
        metadata: "Record | None" = None,
        continues: "str | Reference | None" = None,
        several: int = 1,
    ) -> Version:
        """Seals weights that come as (ids, weights), ids rising throughout; else as `publish`.

        several: weights of a feature, which lie together; those of the intercept are first.
        """
        folder = folder_of(self.path, name, create=True)
        index = IndexMap.by_rule(BLOCK).to_bytes()
        return self._seal(folder, pairs, dtype, dimension, index, metadata, continues)

    def publish_weights(
        self, name: str, weights: Weights, metadata: "Record | None" = None
    ) -> Version:
        """Seals an array of weights; weights[i] is that of feature i."""
        return self.publish_pairs(name, _chunks(weights), weights.dtype, len(weights), metadata)

    def _seal(
        self,
        folder: Path,
        pairs: Iterable[tuple[Ids, Weights]],
        dtype: DTypeLike,
        dimension: int | None,
        index: bytes,
        metadata: "Record | None",
        continues: "str | Reference | None" = None,
    ) -> Version:
        before = self._number_in(folder, continues)
        with (
            reporting("sealing a model"),
            sealing(folder / "sealed", pairs, dtype, dimension, index, metadata) as written,
        ):
            return versions.publish(folder, written, self.training, before)

    def _number_in(self, folder: Path, reference: "str | Reference | None") -> int | None:
        """Number of the referenced version in this very store; None for another store's, or a
        removed one.
        """
        if reference is None:
            return None
        try:
            home, version = self._find(reference)
        except StoreError:
            return None
        return version.number if home == folder else None

    def partitioning(self, reference: str) -> IndexMap:
        """Reads the index map that `partition_model` kept as NAME or NAME@VERSION."""
        return read_partitioning(self.path, reference)

    # --- finished models ---

    def version(self, reference: "str | Reference") -> Version:
        """Resolves `ads`, `ads@3` or `ads@3:DIGEST`. Raises StoreError if it is missing or
        another.
        """
        return self._find(reference)[1]

    def _find(self, reference: "str | Reference") -> tuple[Path, Version]:
        """Directory and version of a reference: in this root, else in another readable one
        (`access.other_roots`).
        """
        wanted = Reference.parse(reference)
        try:
            return _version_in(self.path, wanted)
        except UnknownStore:
            version = _among(access.other_roots(self.path, wanted.name), wanted)
            if version is None:
                raise
            return version

    def open(self, reference: "str | Reference") -> SealedModel:
        """Maps a finished model. It stays readable when another becomes current or it is
        removed.
        """
        folder, version = self._find(reference)
        model = SealedModel(version.path(folder), version.digest)
        if model.dimension != version.dimension:
            raise StoreError(f"{model.path} is not the model that version {version.number} names")
        return model

    def parts(self) -> "list[StoreRoot]":
        """This root and the roots of single owners below it."""
        with reporting("listing the stores"):
            below = access.list_roots(self.path)
        return [self, *(StoreRoot(path, self.training) for path in below)]

    def names(self) -> list[str]:
        """Sorted names of all stores."""
        return names_in(self.path)

    def versions(self, name: str) -> list[int]:
        """Numbers of a name's versions, rising."""
        folder = folder_of(self.path, name)
        with reporting("listing versions"):
            return versions.numbers(folder)

    def make_current(self, reference: "str | Reference") -> Version:
        """Makes an older version the current one, or repairs a damaged pointer."""
        wanted = Reference.parse(reference)
        folder = folder_of(self.path, wanted.name)
        if wanted.number is None:
            raise StoreError(f"{wanted} names no version: NAME@VERSION is needed")
        return versions.make_current(folder, _version_in(self.path, wanted)[1].number)

    def drop(self, reference: "str | Reference") -> None:
        """Removes a version, which must not be the current one; `collect` frees its space."""
        folder, version = _version_in(self.path, Reference.parse(reference))
        versions.drop(folder, version.number)

    def owner(self, working: Path) -> int | None:
        """Pid of the process that has a working store open, 0 if unknown, None if there is
        none.
        """
        with reporting("looking at a lock"):
            return owner_of(working / "lock")

    def __repr__(self) -> str:
        return f"StoreRoot({str(self.path)!r})"


def _version_in(root: Path, wanted: Reference) -> tuple[Path, Version]:
    """Directory of a store of this very root, and the version."""
    folder = folder_of(root, wanted.name)
    with reporting("reading a version"):
        version = versions.read(folder, wanted.number)
    if wanted.digest is not None and not version.digest.startswith(wanted.digest):
        raise StoreError(f"{wanted} is gone: version {version.number} is another model now")
    return folder, version


def _among(roots: list[Path], wanted: Reference) -> tuple[Path, Version] | None:
    """Finds the version in these roots; None if no root has it."""
    matches, failed = [], None
    for root in roots:
        try:
            matches.append(_version_in(root, wanted))
        except StoreError as error:
            failed = error
    if failed and not matches:
        raise failed
    if len({version.digest for _, version in matches}) > 1:
        owners = ", ".join(sorted(str(version.owner) for _, version in matches))
        raise StoreError(
            f"{wanted} stands for several models, of {owners}: name it as the model value does, "
            "NAME@VERSION:DIGEST"
        )
    return matches[0] if matches else None


def _chunks(weights: Weights) -> Iterator[tuple[Ids, Weights]]:
    for start in range(0, len(weights), MOST_PAIRS):
        part = np.ascontiguousarray(weights[start : start + MOST_PAIRS])
        yield np.arange(start, start + len(part), dtype=np.int64), part
