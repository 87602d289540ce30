"""A root whose trainings use feature numbers: indices into a list of ids.

Working stores have numbers; sealed models have ids, so that readers need not know the numbers.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tuskml.errors import DataError, StoreError
from tuskml.kvstore.access import Reference
from tuskml.kvstore.database import LEAST_MEMORY
from tuskml.kvstore.files import Record
from tuskml.kvstore.native import Ids, Weights
from tuskml.kvstore.root import BLOCK, StoreRoot
from tuskml.kvstore.sealed import SealedModel, closing_generator
from tuskml.kvstore.versions import Version
from tuskml.kvstore.working import ModelStore, pairs_of
from tuskml.partitioner import IndexMap

Pairs = Iterable[tuple[Ids, Weights]]
MOST_ID = 2**63 - 1


class SealedByNumber:
    """A sealed model addressed by numbers, with `weights`, `items`, `dimension` and `metadata`.

    `items` yields all weights, whose ids are all among the numbers.
    """

    def __init__(self, sealed: SealedModel, ids: Ids) -> None:
        self._sealed, self._ids = sealed, ids
        self.dimension, self.metadata = len(ids), sealed.metadata
        self.dtype, self.digest = sealed.dtype, sealed.digest

    def weights(self, numbers: ArrayLike) -> Weights:
        """Returns weights in the shape of `numbers`, which are below `dimension`."""
        return self._sealed.weights(self._ids[np.asarray(numbers, np.int64)])

    def items(self) -> Iterator[tuple[Ids, Weights]]:
        """Yields (numbers, weights), rising."""
        for ids, weights in self._sealed.items():
            yield np.searchsorted(self._ids, ids), weights

    def __enter__(self) -> "SealedByNumber":
        return self

    def __exit__(self, *_: object) -> None:
        self._sealed.close()


class NumberedRoot(StoreRoot):
    """A root with numbered features.

    ids: int64, ascending; feature k of a training is ids[k] in published and opened models.
    """

    def __init__(self, root: StoreRoot, ids: Ids) -> None:
        super().__init__(root.path, root.training)
        self._root, self._ids = root, ids

    @property
    def dimension(self) -> int:
        """One more than the largest id."""
        return int(self._ids[-1]) + 1 if len(self._ids) else 0

    @property
    def ids(self) -> Ids:
        """Feature ids of the numbers, ascending."""
        return self._ids

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
        """Like `StoreRoot.create`; the store records the ids."""
        facts = (metadata or {}) | {"ids": self._checksum()}
        return super().create(name, index, dtype, memory, facts, warm_start, buffers)

    def resume(self, name: str, memory: int = 2 * LEAST_MEMORY, buffers: int = 0) -> ModelStore:
        """Like `StoreRoot.resume`. Raises StoreError if the training had other ids."""
        store = super().resume(name, memory, buffers)
        if store.metadata.get("ids") != self._checksum():
            store.close()
            raise StoreError(
                "the interrupted training was of other feature ids: give it the rows that it had, "
                "or leave out 'resume'"
            )
        return store

    def publish(
        self,
        store: ModelStore,
        metadata: "Record | None" = None,
        dimension: int | None = None,
        continues: "str | Reference | None" = None,
        pairs: "Pairs | None" = None,
    ) -> Version:
        """Like `StoreRoot.publish`, with ids in place of numbers."""
        folder, index = store.path.parent.parent, IndexMap.by_rule(BLOCK).to_bytes()
        width = self._width(store.several)
        named = self._name_weights(pairs_of(store) if pairs is None else pairs, store.several)
        return self._seal(folder, named, store.dtype, width, index, metadata, continues)

    def publish_pairs(
        self,
        name: str,
        pairs: Pairs,
        dtype: DTypeLike,
        dimension: int | None = None,
        metadata: "Record | None" = None,
        continues: "str | Reference | None" = None,
        several: int = 1,
    ) -> Version:
        """Like `StoreRoot.publish_pairs`. Raises DataError if ids of weights reach 2^63."""
        width, named = self._width(several), self._name_weights(pairs, several)
        return super().publish_pairs(name, named, dtype, width, metadata, continues)

    def _width(self, several: int) -> int:
        """Exclusive bound of the ids of weights, `several` for each feature and the intercept."""
        if several > 1 and (self.dimension + 1) * several > MOST_ID:
            raise DataError(
                f"the largest feature id is {self.dimension - 1}, expected at most "
                f"{MOST_ID // several - 2} for a stored model of {several} classes"
            )
        return self.dimension if several == 1 else (self.dimension + 1) * several

    def partitioning(self, reference: str) -> IndexMap:
        """Like `StoreRoot.partitioning`, with the frequent features that have numbers."""
        index = super().partitioning(reference)
        places = np.minimum(np.searchsorted(self._ids, index.features), len(self._ids) - 1)
        here = self._ids[places] == index.features
        _, keys = np.unique(index.partition[here], return_inverse=True)
        return IndexMap(places[here], keys, index.blocks)

    def version(self, reference: "str | Reference") -> Version:
        """Like `StoreRoot.version`, with the number of features as its dimension."""
        return replace(super().version(reference), dimension=len(self._ids))

    def open(self, reference: "str | Reference") -> Any:
        """Like `StoreRoot.open`, addressed by numbers."""
        return SealedByNumber(self._root.open(reference), self._ids)

    def _name_weights(self, pairs: Pairs, several: int) -> Iterator[tuple[Ids, Weights]]:
        """Replaces numbers by ids; with several weights per feature, the intercept's come
        first.
        """
        with closing_generator(pairs):
            for numbers, weights in pairs:
                if several == 1:
                    yield self._ids[numbers], weights
                    continue
                features, which = numbers // several - 1, numbers % several
                ids = np.where(features < 0, 0, self._ids[np.maximum(features, 0)] + 1)
                yield ids * several + which, weights

    def _checksum(self) -> int:
        return zlib.crc32(self._ids.tobytes())
