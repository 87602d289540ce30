"""Sealed models: what is written is read, whatever its size, sparsity and place."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.errors import StoreError
from tuskml.kvstore import SealedModel, StoreRoot
from tuskml.partitioner import Blocks, IndexMap

pytestmark = pytest.mark.native


@st.composite
def models(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int]:
    """Rising ids in clusters, from dense to one a block, and their weights."""
    random = np.random.default_rng(draw(st.integers(0, 2**31)))
    clusters = draw(
        st.lists(
            st.tuples(
                st.sampled_from([0, 4000, 4096, 10**6, 10**12, 2**61]),
                st.sampled_from([1, 7, 4096, 9000]),
                st.sampled_from([0.001, 0.1, 0.5, 0.7, 1.0]),
            ),
            max_size=4,
        )
    )
    ids = [start + np.flatnonzero(random.random(n) < share) for start, n, share in clusters]
    rising = np.unique(np.concatenate([np.zeros(0, np.int64), *ids]))
    weights = random.standard_normal(len(rising)).astype(draw(st.sampled_from(["f4", "f8"])))
    return rising, weights, draw(st.sampled_from([1, 100, 10**6]))


@given(model=models())
@settings(max_examples=40, deadline=None)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, model) -> None:
    ids, weights, chunk = model
    root = StoreRoot(tmp_path_factory.mktemp("root"))
    parts = ((ids[a : a + chunk], weights[a : a + chunk]) for a in range(0, len(ids), chunk))
    version = root.publish_pairs("m", parts, weights.dtype, metadata={"n": 1})
    with root.open("m") as sealed:
        sealed.verify()
        assert sealed.weights(ids).tobytes() == weights.tobytes()
        assert (sealed.dimension, sealed.dtype) == (ids[-1] + 1 if len(ids) else 0, weights.dtype)
        others = np.setdiff1d(np.concatenate((ids - 1, ids + 1, [-5, 2**62])), ids)
        assert not sealed.weights(others).any()
        pairs = list(sealed.items(chunk))
        assert np.array_equal(np.concatenate([ids[:0], *(p[0] for p in pairs)]), ids)
        assert np.array_equal(np.concatenate([weights[:0], *(p[1] for p in pairs)]), weights)
        assert version.nonzero == sealed.nonzero == len(ids)
        assert sealed.metadata == {"n": 1}


def test_zeros_are_not_stored_but_nan_and_minus_zero_are(stores: StoreRoot) -> None:
    weights = np.array([0.0, -0.0, np.nan, np.inf, 1e-320, 0.0])
    assert stores.publish_weights("m", weights).nonzero == 4
    assert stores.open("m").weights(np.arange(6)).tobytes() == weights.tobytes()


def test_sealed_from_a_working_store(stores: StoreRoot) -> None:
    random = np.random.default_rng(0)
    frequent = np.unique(random.integers(0, 9000, 300))
    index = IndexMap(frequent, np.arange(len(frequent)) // 7, Blocks((0, 8, 12), (4, 64, 1000)))
    ids = np.unique(random.integers(0, 50_000, 20_000))
    weights = random.random(len(ids), np.float32) + 1
    with stores.create("m", index) as store:
        store.add_weights(ids, weights)
        # Slots of features that live elsewhere, or past a range's end, are no weights.
        spare = index.locate(frequent + 1)[0]
        keys = np.unique(spare[spare >= index.n_partitions])
        zeros = np.zeros(len(keys), np.float32)
        store.add(keys, np.arange(len(keys) + 1), zeros.astype(np.uint32), zeros)
        stores.publish(store, dimension=60_000)
    with stores.open("m") as sealed:
        assert np.array_equal(sealed.weights(ids), weights)
        assert (sealed.nonzero, sealed.dimension) == (len(ids), 60_000)
        assert sealed.index == index


def test_slots_of_features_that_live_elsewhere_are_no_weights(stores: StoreRoot) -> None:
    index = IndexMap([1, 9], [0, 0], Blocks((0, 3), (4, 8)))  # ids 0..3 end inside block 0..3
    with stores.create("m", index) as store:
        store.put([0], [5, 6])
        store.put([1], np.arange(10, 14))
        store.put([2], np.arange(20, 28))
        stores.publish(store)
    expected = [10, 5, 12, 13, 20, 21, 22, 23, 24, 6, 26, 27]
    assert stores.open("m").weights(np.arange(12)).tolist() == expected


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_warm_start_into_another_index_map(stores: StoreRoot, dtype: str) -> None:
    weights = np.random.default_rng(0).standard_normal(10_000)
    stores.publish_weights("m", weights)
    index = IndexMap([5, 17, 9000], [0, 0, 1], 100)
    with stores.create("m", index, dtype, warm_start="m@1") as store:
        assert np.array_equal(store.weights(np.arange(10_000)), weights.astype(dtype))
        assert store.last_checkpoint.metadata["warm_start"] == "m@1"


@pytest.mark.fault(family="concurrency")
def test_many_processes_read_while_versions_come(stores: StoreRoot) -> None:
    program = (
        "import sys; from tuskml.kvstore import StoreRoot\n"
        "root = StoreRoot(sys.argv[1])\n"
        "for _ in range(60):\n"
        "    with root.open('m') as model:\n"
        "        seen = set(model.weights(range(5000)).tolist())\n"
        "        assert len(seen) == 1 and model.metadata['value'] in seen\n"
    )

    def publish(value: float) -> None:
        stores.publish_weights("m", np.full(5000, value), {"value": value})

    publish(1.0)
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(stores.path)]) for _ in range(2)
    ]
    for value in range(2, 30):
        publish(float(value))
    assert [child.wait() for child in children] == [0, 0]


def test_a_model_stays_readable_when_it_is_replaced_and_collected(stores: StoreRoot) -> None:
    from tuskml.kvstore import Rules, collect

    stores.publish_weights("m", np.ones(5000))
    old = stores.open("m")
    stores.publish_weights("m", np.zeros(3))
    stores.drop("m@1")
    assert [each.why for each in collect(stores, rules=Rules(older_than=-9))] == [
        "no version names it"
    ]
    assert old.weights([0, 4999, 5000]).tolist() == [1, 1, 0]
    with pytest.raises(StoreError, match="has no version 1"):
        stores.open("m@1")


def test_the_same_content_has_the_same_name(stores: StoreRoot) -> None:
    first, second = (stores.publish_weights(name, np.ones(5)) for name in "ab")
    assert first.digest == second.digest
    assert stores.publish_weights("a", np.ones(5)).number == 2


def test_what_is_refused(stores: StoreRoot) -> None:
    with pytest.raises(StoreError, match="must rise"):
        stores.publish_pairs("m", [(np.array([3, 2]), np.ones(2))], "float64")
    with pytest.raises(StoreError, match="of 2 features has a weight of feature 3"):
        stores.publish_pairs("m", [(np.array([3]), np.ones(1))], "float64", 2)
    with pytest.raises(StoreError, match="no finished model yet"):
        stores.open("m")
    assert list((stores.path / "m" / "sealed").iterdir()) == []
    stores.publish_weights("m", np.ones(5))
    model = stores.open("m")
    model.close()
    with pytest.raises(StoreError, match="is closed"):
        model.weights([1])
    with pytest.raises(StoreError, match="another model than the one asked for"):
        SealedModel(model.path, "0" * 64)
