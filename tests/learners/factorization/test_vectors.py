"""How many vectors of a factorization share a key of its store."""

import numpy as np
import pytest
from rows import block, rows_pass

from tuskml.kernels.factorization import Shape, StoredFactorization
from tuskml.kvstore import StoreRoot
from tuskml.kvstore.frames import frame_bytes
from tuskml.learners.factorization.vectors import Layout, choose_size, sizes_for
from tuskml.partitioner import Cost
from tuskml.partitioner.index_map import LARGEST

GRID_BYTES = 1 << 30  # of a block: one block


def ratings(users, items, rank=4, block_bytes=GRID_BYTES):
    """Ratings of pairs of ids, in blocks."""
    rows = rows_pass(block(np.stack([users, items], 1).astype(float), np.ones(len(users))))
    shape = Shape(int(users.max()) + 1, int(items.max()) + 1, rank, True, 0.0)
    return StoredFactorization(rows, 0, shape, 0, block_bytes)


def test_sizes_are_bounded_by_keys_and_shares():
    shape = Shape(1000, 1000, 100, True, 0.0)
    assert shape.stride == 112
    every = sizes_for(shape, 1 << 40)
    assert every == [2**k for k in range(10)]
    assert every[-1] * 112 <= LARGEST < 2 * every[-1] * 112
    few = sizes_for(shape, 8 * frame_bytes(4 * 112, 4))
    assert few == [1, 2, 4]
    assert sizes_for(shape, 1) == [1]
    assert sizes_for(Shape(1, 1, 4096, True, 0.0), 1 << 40) == [1, 2, 4, 8]


def by_hand(users, items, sizes, stride, cost):
    """The cheapest size, of one block of ratings."""
    costs = []
    for size in sizes:
        keys = len(np.unique(users // size)) + len(np.unique(items // size))
        costs.append(keys * (cost.t_seek + size * stride * cost.t_unit))
    return sizes[int(np.argmin(costs))]


@pytest.mark.parametrize("apart", [1, 3, 40, 1000])
@pytest.mark.parametrize("cost", [Cost(1e-6, 1e-9), Cost(1e-4, 1e-9), Cost(1e-9, 1e-6)])
def test_the_cheapest(apart, cost):
    """Ids with ratings lie `apart`: between them are vectors that nobody needs."""
    random = np.random.default_rng(apart)
    users, items = random.integers(0, 300, 2000) * apart, random.integers(0, 200, 2000) * apart
    with ratings(users, items) as model:
        chosen = choose_size(model, 1 << 30, cost)
    assert chosen == by_hand(users, items, sizes_for(model.shape, 1 << 30), 16, cost)


def test_seeks_ask_for_more_and_payloads_for_fewer():
    random = np.random.default_rng(0)
    users, items = random.integers(0, 3000, 30_000), random.integers(0, 2000, 30_000)
    chosen = []
    for seek in (1e-9, 1e-7, 1e-5, 1e-3):
        with ratings(users, items, block_bytes=1 << 15) as model:
            chosen.append(choose_size(model, 1 << 30, Cost(seek, 1e-9)))
    assert chosen == sorted(chosen)
    assert chosen[0] < 8
    assert chosen[-1] > 256


def test_the_index_has_a_place_for_each_number(tmp_path):
    layout = Layout(Shape(10, 10, 100, True, 0.0), 4, 1 << 20)
    store = StoreRoot(tmp_path).create("films", layout.index)
    try:
        assert store.index.sizes([0, 5]).tolist() == [448, 448]
        assert layout.key_bytes == frame_bytes(448, 4) > 448 * 4
    finally:
        store.discard()
