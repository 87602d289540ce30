"""All stores of a machine's user or a database: names, versions, working stores."""

import secrets
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from tuskml.errors import StoreError
from tuskml.kvstore import versions
from tuskml.kvstore.database import LEAST_MEMORY
from tuskml.kvstore.features import fill, pairs_of
from tuskml.kvstore.files import Record, reporting
from tuskml.kvstore.locks import owner_of
from tuskml.kvstore.names import Reference, folder_of, make_root, names_in
from tuskml.kvstore.native import Ids, Weights
from tuskml.kvstore.sealed import SealedModel
from tuskml.kvstore.sealing import CHUNK, sealing
from tuskml.kvstore.versions import Version
from tuskml.kvstore.working import ModelStore
from tuskml.partitioner import IndexMap


class StoreRoot:
    """The directory below which all stores lie, each under its name.

    A name has versions, finished models that any process reads, and working stores, one for each
    training that runs or was interrupted.
    """

    def __init__(self, path: "Path | str | None" = None) -> None:
        """path: else the environment's TUSKML_STORE_ROOT, else the user's data folder."""
        self.path = make_root(path)

    # --- training ---

    def create(
        self,
        name: str,
        index: IndexMap,
        dtype: DTypeLike = "float32",
        memory: int = 2 * LEAST_MEMORY,
        metadata: "Record | None" = None,
        warm_start: "str | Reference | None" = None,
    ) -> ModelStore:
        """A new working store for a training of the model of this name.

        warm_start: a finished model whose weights it begins with, of any index map and dtype;
        its last checkpoint has number 1 then.
        """
        source = self.open(warm_start) if warm_start is not None else None
        folder = folder_of(self.path, name, create=True)
        run = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-{secrets.token_hex(4)}"
        with versions.locked(folder):
            store = ModelStore.create(folder / "work" / run, index, dtype, memory, metadata)
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

    def resume(self, name: str, memory: int = 2 * LEAST_MEMORY) -> ModelStore:
        """The newest working store that nobody has open and that has a checkpoint, at that.

        StoreError if there is none: the first reason is given.
        """
        reasons = []
        for path in reversed(self.working(name)):
            try:
                return ModelStore.resume(path, memory)
            except StoreError as error:
                reasons.append(str(error))
        raise StoreError(reasons[0] if reasons else f"the store {name!r} has no working store")

    def publish(
        self,
        store: ModelStore,
        metadata: "Record | None" = None,
        dimension: int | None = None,
    ) -> Version:
        """Seals a working store of this root as the next version of its name, and the current.

        dimension: features of the model, None for one more than the last weight that is not 0.
        When it returns the version survives a loss of power. The working store stays as it is.
        """
        folder = store.path.parent.parent
        if folder.parent != self.path:
            raise StoreError(f"{store.path} is not a working store of {self.path}")
        index = store.index.without_live().to_bytes()  # a reader looks for ids in the blocks
        return self._seal(folder, pairs_of(store), store.dtype, dimension, index, metadata)

    def publish_pairs(
        self,
        name: str,
        pairs: Iterable[tuple[Ids, Weights]],
        dtype: DTypeLike,
        dimension: int | None = None,
        metadata: "Record | None" = None,
    ) -> Version:
        """Seals weights that come as (ids, weights), ids rising throughout."""
        folder = folder_of(self.path, name, create=True)
        index = IndexMap.by_rule(1024).to_bytes()
        return self._seal(folder, pairs, dtype, dimension, index, metadata)

    def publish_weights(
        self, name: str, weights: Weights, metadata: "Record | None" = None
    ) -> Version:
        """Seals an array of weights, that of feature i at place i."""
        return self.publish_pairs(name, _chunks(weights), weights.dtype, len(weights), metadata)

    def _seal(
        self,
        folder: Path,
        pairs: Iterable[tuple[Ids, Weights]],
        dtype: DTypeLike,
        dimension: int | None,
        index: bytes,
        metadata: "Record | None",
    ) -> Version:
        with (
            reporting("sealing a model"),
            sealing(folder / "sealed", pairs, dtype, dimension, index, metadata) as made,
        ):
            return versions.publish(folder, made)

    # --- finished models ---

    def version(self, reference: "str | Reference") -> Version:
        """What `ads`, `ads@3` or `ads@3:DIGEST` stands for; StoreError if nothing, or another."""
        wanted = Reference.parse(reference)
        folder = folder_of(self.path, wanted.name)
        with reporting("reading a version"):
            found = versions.read(folder, wanted.number)
        if wanted.digest is not None and not found.digest.startswith(wanted.digest):
            raise StoreError(f"{wanted} is gone: version {found.number} is another model now")
        return found

    def open(self, reference: "str | Reference") -> SealedModel:
        """A finished model, mapped. It stays readable when another becomes current or it goes."""
        found = self.version(reference)
        model = SealedModel(found.path(self.path / found.name), found.digest)
        if model.dimension != found.dimension:
            raise StoreError(f"{model.path} is not the model that version {found.number} names")
        return model

    def names(self) -> list[str]:
        """All names, sorted."""
        return names_in(self.path)

    def versions(self, name: str) -> list[int]:
        """Numbers of a name's versions, rising."""
        folder = folder_of(self.path, name)
        with reporting("listing versions"):
            return versions.numbers(folder)

    def make_current(self, reference: "str | Reference") -> Version:
        """Lets the name stand for an older version again, or heals a damaged pointer."""
        wanted = Reference.parse(reference)
        folder = folder_of(self.path, wanted.name)
        if wanted.number is None:
            raise StoreError(f"{wanted} names no version: NAME@VERSION is needed")
        return versions.make_current(folder, self.version(wanted).number)

    def drop(self, reference: "str | Reference") -> None:
        """Forgets a version, which must not be the current one; `collect` frees its space."""
        found = self.version(reference)
        versions.drop(folder_of(self.path, found.name), found.number)

    def owner(self, working: Path) -> int | None:
        """The pid that has a working store open, 0 if unknown, None if nobody has."""
        with reporting("looking at a lock"):
            return owner_of(working / "lock")

    def __repr__(self) -> str:
        return f"StoreRoot({str(self.path)!r})"


def _chunks(weights: Weights) -> Iterator[tuple[Ids, Weights]]:
    for start in range(0, len(weights), CHUNK):
        part = np.ascontiguousarray(weights[start : start + CHUNK])
        yield np.arange(start, start + len(part), dtype=np.int64), part
