"""Ranges of ids that are sorted one at a time: each has no more pairs than memory is to hold.

A pair is a feature of a chunk of rows. Where the ranges begin is known from a sample of the rows,
before their ids are; so where they begin in each chunk is noted while its ids are in memory.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.segments import sparse_segments
from tuskml.kvstore.working.records import Records

Ids = NDArray[np.int64]
Some = tuple[int, int, Ids, Ids]
GRAIN_BITS = 12
"""Ranges begin at multiples of 2^12, so that no block of a store is in two."""
PAIR_BYTES, SORTED_BYTES = 12, 16
"""Of memory for each pair of a range that is linked by a table, and by a sort."""
SPARSE = 8
"""Ids for each pair of a range from which on its pairs are sorted."""
FINER = 4
"""Parts that a range is put together of, about: so much may the sample be wrong."""
PER_PART = 64
"""Entries of the sample for each part."""


class Ranges:
    """Ranges, and where they begin in each chunk, which `add` tells."""

    def __init__(self, group: np.void, entries: int, memory: int, folder: Path) -> None:
        """group: of sparse rows; entries: of them; memory: bytes that a range is to take."""
        self.memory, self._cuts = max(1, memory), Records(folder, "u4")
        parts = FINER * max(1, -(-entries * SORTED_BYTES // self.memory))
        self._bounds = _bounds(group, entries, parts)
        self.begin()

    def begin(self) -> None:
        """There is no chunk yet."""
        self.dimension, self._first = 0, [0]
        self._totals = np.zeros(len(self._bounds) + 1, np.int64)

    def add(self, ids: NDArray[np.int32]) -> None:
        """Takes the next chunk's ids, which rise."""
        inner = np.searchsorted(ids, self._bounds)
        cut = np.concatenate(([0], inner, [len(ids)]))
        self._cuts.write(self.n_chunks * len(cut), cut)
        self._totals += np.diff(cut)
        self._first.append(self._first[-1] + len(ids))
        if len(ids):
            self.dimension = max(self.dimension, int(ids[-1]) + 1)

    def close(self) -> None:
        """Forgets the file."""
        self._cuts.file.close()

    @property
    def n_chunks(self) -> int:
        """Chunks that were added."""
        return len(self._first) - 1

    @property
    def first(self) -> Ids:
        """Pairs of the chunks before each, and of all, (n_chunks + 1,)."""
        return np.array(self._first, np.int64)

    @property
    def largest(self) -> int:
        """Pairs of the largest range."""
        return int(np.add.reduceat(self._totals, self._edges()[:-1]).max())

    def each(self, memory: int) -> Iterator[Some]:
        """Of each range its first id and how many there may be; where it begins in the list of
        each chunk's ids, all lists one after the other, and how many ids it has there.

        memory: bytes for where some of them begin, about.
        """
        n, width, edges = self.n_chunks, len(self._totals) + 1, self._edges()
        first, some = self.first[:-1], max(1, memory // (8 * n * FINER))
        spans = self.spans()
        for r in range(0, len(edges) - 1, some):
            at = edges[r : r + some + 1]
            span, inner = int(at[-1] - at[0]) + 1, at - at[0]
            slab = np.stack(
                [self._cuts.read(j * width + int(at[0]), span)[inner] for j in range(n)]
            )
            for k in range(len(at) - 1):
                begins = slab[:, k].astype(np.int64)
                yield *next(spans), first + begins, slab[:, k + 1] - begins

    def spans(self) -> Iterator[tuple[int, int]]:
        """Of each range its first id, and how many there may be."""
        for low, high in pairwise(self._lows()[self._edges()].tolist()):
            yield low, high - low

    def _lows(self) -> Ids:
        """The first id of each part, and one above all."""
        return np.concatenate(([0], self._bounds, [max(self.dimension, 1)])).astype(np.int64)

    def _edges(self) -> Ids:
        """The parts at which ranges begin, and their number."""
        edges, total, lows = [0], 0, self._lows().tolist()
        for part, n in enumerate(self._totals.tolist()):
            if total and bytes_of(total + n, lows[part + 1] - lows[edges[-1]]) > self.memory:
                edges.append(part)
                total = 0
            total += n
        return np.array([*edges, len(self._totals)])


def is_sparse(pairs: int, width: int) -> bool:
    """Whether the pairs of a range of so many ids are to be sorted."""
    return width > SPARSE * pairs


def bytes_of(pairs: int, width: int) -> int:
    """Of memory that a range of so many ids takes."""
    return pairs * (SORTED_BYTES if is_sparse(pairs, width) else PAIR_BYTES)


def _bounds(group: np.void, entries: int, parts: int) -> NDArray[np.int32]:
    """Ids between parts with about as many entries each."""
    rng, n = np.random.default_rng(0), min(entries, PER_PART * parts)
    drawn = [
        ids[rng.integers(0, len(ids), -(-n * len(ids) // entries))]
        for _, ids in sparse_segments(group)
        if len(ids)
    ]
    sample = np.sort(np.concatenate([np.zeros(0, np.int32), *drawn]))
    bounds = sample[len(sample) * np.arange(1, parts if len(sample) else 1) // parts]
    bounds = np.unique(bounds >> GRAIN_BITS << GRAIN_BITS)
    return bounds[bounds > 0]
