"""The index map: every feature at one place, back again, and as bytes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.errors import DataError
from tuskml.partitioner import Blocks, IndexMap

pytestmark = pytest.mark.native
ids = st.one_of(st.integers(0, 200), st.integers(0, 2**62 - 1))


@st.composite
def maps(draw: st.DrawFn) -> IndexMap:
    """Maps of up to 40 frequent features."""
    features = sorted(draw(st.sets(ids, max_size=40)))
    keys = draw(st.lists(st.integers(0, 9), min_size=len(features), max_size=len(features)))
    widths = (0, *sorted(draw(st.sets(st.integers(1, 62), max_size=3))))
    sizes = tuple(draw(st.sampled_from([1, 2, 7, 100, 65_536])) for _ in widths)
    return IndexMap(features, np.unique(keys, return_inverse=True)[1], Blocks(widths, sizes))


@settings(max_examples=150, deadline=None)
@given(maps(), st.lists(ids, max_size=40))
def test_features_of_is_the_inverse_of_locate(index: IndexMap, rare: list[int]) -> None:
    wanted = np.array([*index.features.tolist(), *rare, 0, 2**62 - 1], np.int64)
    keys, slots = index.locate(wanted)
    sizes = index.sizes(keys)
    assert ((slots >= 0) & (slots < sizes)).all()
    for feature, key, slot, size in zip(wanted, keys.tolist(), slots, sizes, strict=True):
        features = index.features_of(key)
        assert len(features) == size
        assert features[slot] == feature


@settings(max_examples=60, deadline=None)
@given(maps())
def test_each_place_has_one_feature_and_slots_are_dense(index: IndexMap) -> None:
    every = np.unique(np.concatenate((index.features, np.arange(500))))
    keys, slots = index.locate(every)
    assert len(set(zip(keys.tolist(), slots.tolist(), strict=True))) == len(every)
    for key in range(index.n_partitions):
        own = np.sort(slots[keys == key])
        assert own.tolist() == list(range(len(own)))
        assert len(own) == index.sizes([key])[0]
        assert sorted(index.features_of(key)) == index.features_of(key).tolist()


@settings(max_examples=100, deadline=None)
@given(maps())
def test_bytes_round_trip(index: IndexMap) -> None:
    again = IndexMap.from_bytes(index.to_bytes())
    assert again == index
    assert hash(again) == hash(index)
    assert again.blocks == index.blocks
    assert again.features.tolist() == index.features.tolist()
    assert again.partition.tolist() == index.partition.tolist()


def test_damaged_bytes_are_refused() -> None:
    data = IndexMap([3, 9, 70_000], [0, 0, 1], Blocks((0, 9), (4, 1))).to_bytes()
    assert len(data) < 60
    for place in range(len(data)):
        for bit in range(8):
            flipped = data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
            with pytest.raises(DataError):
                IndexMap.from_bytes(flipped)
    for length in range(len(data)):
        with pytest.raises(DataError):
            IndexMap.from_bytes(data[:length])
    with pytest.raises(DataError):
        IndexMap.from_bytes(data + b"\0")


def test_another_version_is_named() -> None:
    data = IndexMap.by_rule().to_bytes()
    with pytest.raises(DataError, match="version 04, expected 01, 02 or 03"):
        IndexMap.from_bytes(data[:7] + b"\x04" + data[8:])


def test_without_frequent_features_each_has_its_key() -> None:
    keys, slots = IndexMap.by_rule().locate([0, 5, 2**62 - 1])
    assert keys.tolist() == [0, 5, 2**62 - 1]
    assert slots.tolist() == [0, 0, 0]


def test_a_map_by_hand() -> None:
    """Partition 0 has 10 and 30, partition 1 has 20, others blocks of 8 from key 2 on."""
    index = IndexMap([10, 20, 30], [0, 1, 0], 8)
    keys, slots = index.locate([10, 20, 30, 0, 11, 17])
    assert keys.tolist() == [0, 1, 0, 2, 3, 4]
    assert slots.tolist() == [0, 0, 1, 0, 3, 1]
    assert index.sizes([0, 1, 2, 99]).tolist() == [2, 1, 8, 8]
    assert index.features_of(3).tolist() == [8, 9, -1, 11, 12, 13, 14, 15]


@pytest.mark.parametrize(
    ("features", "partition"),
    [([1, 1], [0, 0]), ([2, 1], [0, 0]), ([1], [1]), ([1, 2], [0]), ([-1], [0]), ([1], [-1])],
)
def test_impossible_maps(features: list[int], partition: list[int]) -> None:
    with pytest.raises(DataError):
        IndexMap(features, partition)


@pytest.mark.parametrize("key", [-1, 2**62 + 1])
def test_impossible_keys(key: int) -> None:
    with pytest.raises(DataError, match="a key must be from 0 to"):
        IndexMap([1], [0]).features_of(key)
