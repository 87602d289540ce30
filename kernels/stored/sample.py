"""A sample of a group's sparse rows, as a small group of its own in plain memory.

Its features are those that occur in it, renumbered, and its rows are spread over those of the
group. So it depends on the rows alone: not on the storage of their weights, nor on a cache.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import chunks, labels_of
from tuskml.kernels.stored.chunks import Chunks
from tuskml.kernels.stored.training import ScratchFrames
from tuskml.kernels.structures import GROUP, SEGMENT, WEIGHTS

TOGETHER = 64
"""Neighbouring rows that are taken together."""
PLACED = 1 << 16
"""Entries whose ids are looked up at once."""
PIECES = 4
"""Chunks of the sample for each thread."""


@dataclass(frozen=True)
class Sample:
    """A sample.

    rows: one group; n_features: number that occur; square: the mean square of its values; whole:
    whether it has all rows; memory: storage of the rows.
    """

    rows: Pass
    n_features: int
    square: float
    whole: bool
    memory: NDArray[np.uint8]

    @property
    def n_rows(self) -> int:
        return int(self.rows.groups["n_rows"][0])

    def mapped(self, several: int) -> Chunks:
        """The rows in chunks, whose features have neighbouring weights under one key; call it
        once.
        """
        width = np.array([max(1, self.n_features) * several], np.int64)
        return Chunks.map(
            self.rows,
            lambda ids: (np.zeros(len(ids), np.int64), (ids * several).astype(np.int32)),
            lambda keys: width.repeat(len(keys)),
            max(1, -(-self.n_rows // (PIECES * self.rows.threads))),
            1 << 60,
        )

    def frames(self, several: int) -> ScratchFrames:
        """Frames for their weights."""
        return ScratchFrames([0], [max(1, self.n_features) * several])


def sample_of(rows: Pass, most_rows: int, most_entries: int) -> tuple[Sample, NDArray[np.int64]]:
    """Samples about `most_rows` rows and `most_entries` entries of the one group of a pass.

    Takes all if it has fewer. Returns also the ids of its features, (n_features,), rising.
    """
    group, entries = rows.groups[0], rows.nonzeros()
    n = int(group["n_rows"])
    wanted = min(n, most_rows, max(TOGETHER, n * most_entries // max(1, entries)))
    every = -(-n // max(1, wanted))
    parts = [
        _take(first, features, labels, weights, every, n)
        for (first, features, labels), (_, weights) in zip(
            chunks(group), labels_of(group), strict=True
        )
    ]
    counts, ids, values, labels, weights = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    del parts
    there = _distinct(ids)
    places = _places(there, ids)
    del ids
    memory = _write_segment(
        counts, places, values, labels, weights if group["extras"] & WEIGHTS else None
    )
    own = np.zeros(1, GROUP)
    own["head"], own["n_rows"] = memory.ctypes.data, len(labels)
    own["dim"], own["kind"] = max(1, len(there)), group["kind"]
    own["extras"] = group["extras"] & WEIGHTS
    square = float(np.mean(np.square(values, dtype=np.float64))) if len(values) else 1.0
    sampled = replace(rows, groups=own)
    return Sample(sampled, len(there), square, every == 1, memory), there.astype(np.int64)


def _distinct(ids: NDArray[np.generic]) -> NDArray[np.generic]:
    """Returns the distinct ids, rising, in less memory than a hash table takes."""
    rising = np.sort(ids)
    first = np.append(True, rising[1:] != rising[:-1])[: len(rising)]
    return np.asarray(rising[first])


def _places(there: NDArray[np.generic], ids: NDArray[np.generic]) -> NDArray[np.int32]:
    """Finds the indices of ids among rising ids, a part at a time to spare memory."""
    places = np.empty(len(ids), np.int32)
    for at in range(0, len(ids), PLACED):
        places[at : at + PLACED] = np.searchsorted(there, ids[at : at + PLACED])
    return places


Taken = tuple[NDArray[np.generic], ...]


def _take(
    first: int,
    features: tuple[NDArray[np.uint32], NDArray[np.int32], NDArray[np.generic]],
    labels: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    every: int,
    n: int,
) -> Taken:
    """Returns the sampled rows of a segment: their entries, ids, values, labels and weights."""
    starts, ids, values = features
    rows = np.arange(first, min(first + len(labels), n))
    chosen = np.flatnonzero(rows // TOGETHER % every == 0)
    begin = starts[chosen].astype(np.int64)
    counts = starts[chosen + 1].astype(np.int64) - begin
    ends = np.cumsum(counts)
    at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - (ends - counts), counts)
    own = np.ones(len(labels)) if weights is None else weights
    return counts, ids[at], values[at], labels[chosen], own[chosen]


def _write_segment(
    counts: NDArray[np.generic],
    ids: NDArray[np.generic],
    values: NDArray[np.generic],
    labels: NDArray[np.generic],
    weights: NDArray[np.generic] | None,
) -> NDArray[np.uint8]:
    """Writes one segment in the packers' format (`udas/rowblock/rowblock.h`)."""
    header = np.zeros(1, SEGMENT)
    header["n_rows"] = header["cap_rows"] = len(labels)
    header["nnz"] = header["cap_nnz"] = len(ids)
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    arrays = [header, labels, starts, ids.astype(np.int32, copy=False), values]
    arrays += [] if weights is None else [weights]
    sizes = [(one.nbytes + 7) // 8 * 8 for one in arrays]
    memory = np.zeros(sum(sizes) // 8 + 1, np.float64).view(np.uint8)
    place = 0
    for one, size in zip(arrays, sizes, strict=True):
        memory[place : place + one.nbytes] = np.ascontiguousarray(one).view(np.uint8)
        place += size
    return memory
