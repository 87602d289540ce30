"""A version that cannot be written: the training's store is free, and so is all it holds."""

import threading

import numpy as np
import pytest
from short_files import short_files

from tuskml.errors import StoreError
from tuskml.kvstore import ModelStore, StoreRoot
from tuskml.kvstore.numbered import NumberedRoot
from tuskml.kvstore.working import pairs_of
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.fault(family="failing I/O")

N = 40_000
"""Weights, whose seal is longer than LIMIT."""
LIMIT = 1 << 16
"""Bytes of a file."""


def filled(root: StoreRoot, index: IndexMap) -> ModelStore:
    store = root.create("m", index, "float64")
    store.add_weights(np.arange(N), np.random.default_rng(0).standard_normal(N))
    return store


INDICES = {
    "by rule": IndexMap.by_rule(64),
    "with frequent features": IndexMap(np.arange(0, N, 7), np.arange(len(range(0, N, 7))) // 9),
}


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("numbered", [False, True])
def test_a_store_whose_version_failed(stores: StoreRoot, name: str, numbered: bool) -> None:
    """It is removed at once, and a later training publishes."""
    root = NumberedRoot(stores, 3 * np.arange(N)) if numbered else stores
    store = filled(root, INDICES[name])
    with short_files(LIMIT), pytest.raises(StoreError, match="File too large") as failed:
        root.publish(store)
    assert failed.value.sqlstate == "53100"
    store.discard()  # while the traceback keeps the generators of the way
    assert root.working("m") == []
    assert list((stores.path / "m" / "sealed").iterdir()) == []
    with filled(root, INDICES[name]) as again:
        assert root.publish(again).nonzero == N


def test_a_scan_that_waits(stores: StoreRoot) -> None:
    """Its own thread cannot close the store under it, which is an error; another thread waits."""
    store = filled(stores, IndexMap.by_rule(64))
    pairs = pairs_of(store)
    next(pairs)
    with pytest.raises(StoreError, match="this thread reads the store: end the scan first"):
        store.close()
    closing = threading.Thread(target=store.close)
    closing.start()
    ids = np.concatenate([np.zeros(0, np.int64), *(part for part, _ in pairs)])
    assert len(ids) == 0 or ids[-1] == N - 1
    closing.join(60)
    assert not closing.is_alive()
