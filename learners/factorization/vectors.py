"""The layout of a stored factorization: how many vectors share a key, and the way back to
features.

The paper's partitions are sets of features that are used together, sized by the cost function t_s
+ |P| t_u (Qin, Torres, Rusu, VLDB 2017, section 5). A vector is naturally such a set: no part of
it is used without the rest, so there is nothing to learn from a sample. Nor is there between
vectors: a block of ratings is a range of users by a range of items, and contains most ids of both.
So neighbouring ids share a key. The number of them minimises the cost over the blocks: more save
requests, but also read unused vectors, at the ends of ranges and of ids without ratings in the
block.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.factorization import Shape, StoredFactorization
from tuskml.kvstore import ModelStore
from tuskml.kvstore.frames import frame_bytes
from tuskml.partitioner import Cost, IndexMap
from tuskml.partitioner.index_map import LARGEST

WEIGHT_BYTES = 4
FEWEST_KEYS = 8
"""Keys that a worker's share of memory must hold."""
PART = 1 << 16
"""Numbers that are put into the caller's units at a time."""
SINGLE = 1e-25, 1e25
"""Deviations of ratings whose vectors, in their units, floats of 32 bits can be."""
Pair = tuple[NDArray[np.int64], NDArray[np.floating]]


@dataclass(frozen=True)
class Layout:
    """per_key: vectors per key, 0: a key per weight; share: bytes of a worker's memory."""

    shape: Shape
    per_key: int
    share: int

    @property
    def index(self) -> IndexMap:
        """The map from features to positions of the numbers in the store."""
        return IndexMap.by_rule(max(1, self.per_key * self.shape.stride))

    @property
    def key_bytes(self) -> int:
        """Bytes of memory that a key takes."""
        return frame_bytes(max(1, self.per_key * self.shape.stride), WEIGHT_BYTES)

    def prepare(self, ratings: StoredFactorization) -> None:
        """Tells the ratings which keys they need."""
        ratings.lay_out(self.per_key, self.key_bytes, self.share)


def sizes_for(shape: Shape, share: int) -> list[int]:
    """Numbers of vectors a key to choose from: 1, and powers of 2 that a key and a share hold."""
    sizes = [1]
    while (size := 2 * sizes[-1]) * shape.stride <= LARGEST:
        if FEWEST_KEYS * frame_bytes(size * shape.stride, WEIGHT_BYTES) > share:
            break
        sizes.append(size)
    return sizes


def choose_size(ratings: StoredFactorization, share: int, cost: Cost) -> int:
    """Vectors a key that make a pass over the ratings cheapest; the fewer where it is the same."""
    sizes = sizes_for(ratings.shape, share)
    keys = ratings.count_keys(sizes)
    costs = [n * cost.of(size * ratings.shape.stride) for n, size in zip(keys, sizes, strict=True)]
    return sizes[int(np.argmin(costs))]


def dtype_of(deviation: float) -> str:
    """The dtype of vectors in the units of ratings with this standard deviation."""
    return "float32" if SINGLE[0] < deviation < SINGLE[1] else "float64"


def pairs_of_vectors(
    store: ModelStore, layout: Layout, first_item: int, deviation: float
) -> Iterator[Pair]:
    """(ids, weights) of the model's features, rising: the caller's units, no padding.

    first_item, deviation: of `StoredFactorization`.
    """
    shape = layout.shape
    unit, dtype = np.full(shape.width, np.sqrt(deviation)), dtype_of(deviation)
    unit[: int(shape.biases)] = deviation
    width = max(1, layout.per_key * shape.stride)
    most = max(1, PART // width)
    with closing(store.scan()) as scan:
        for keys, _, values in scan:
            for first in range(0, len(keys), most):
                part = keys[first : first + most]
                numbers = values[first * width : (first + len(part)) * width]
                if layout.per_key:
                    ids, vectors = _of_vectors(part, numbers, layout, first_item)
                    yield ids, (vectors * unit).astype(dtype).ravel()
                else:
                    rows, places = np.divmod(part, shape.stride)
                    ids = _number_rows(rows, shape, first_item) * shape.width + places
                    yield ids, (numbers * unit[places]).astype(dtype)


def _of_vectors(
    keys: NDArray[np.int64], numbers: NDArray[np.float32], layout: Layout, first_item: int
) -> Pair:
    """The features of some keys, and their vectors (n, width) as they are stored."""
    shape = layout.shape
    rows = (keys[:, None] * layout.per_key + np.arange(layout.per_key)).ravel()
    kept = np.flatnonzero(_is_row(rows, shape, first_item))
    vectors = numbers.reshape(len(rows), shape.stride)[kept, : shape.width]
    first = _number_rows(rows[kept], shape, first_item) * shape.width
    ids = (first[:, None] + np.arange(shape.width)).ravel()
    return ids, vectors


def _is_row(rows: NDArray[np.int64], shape: Shape, first_item: int) -> NDArray[np.bool_]:
    """Tests which rows of the store hold users or items and are not padding of a last key."""
    items = rows - first_item
    return (rows < shape.n_users) | ((items >= 0) & (items < shape.n_items))


def _number_rows(rows: NDArray[np.int64], shape: Shape, first_item: int) -> NDArray[np.int64]:
    """Rows of the model, whose items are behind the last user."""
    return np.where(rows < first_item, rows, rows - first_item + shape.n_users)
