"""Features that occur, numbered: against numpy.unique; and index maps whose blocks are of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.errors import DataError
from tuskml.partitioner import Blocks, IndexMap, LiveFeatures, Profile
from tuskml.partitioner.live import MOST_IDS

pytestmark = pytest.mark.native
PAGE = 1 << 16
near = st.integers(0, 3 * PAGE)
far = st.integers(0, MOST_IDS - 1)


def live_of(ids: "list[int] | np.ndarray", dimension: int, window: int = 1 << 27) -> LiveFeatures:
    """Of one part."""
    part = np.asarray(ids, np.int32)
    return LiveFeatures.of(lambda: [part[::2], part[1::2]], dimension, window)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(near, st.integers(PAGE - 3, PAGE + 3)), max_size=60))
def test_numbers_are_ranks(given_ids: list[int]) -> None:
    distinct = np.unique(np.array(given_ids, np.int64))
    for window in (PAGE, 1 << 27):
        live = live_of(given_ids, 3 * PAGE + 1, window)
        assert len(live) == len(distinct)
        assert live.number(distinct).tolist() == list(range(len(distinct)))
        assert live.ids(np.arange(len(distinct))).tolist() == distinct.tolist()
        missing = np.setdiff1d([0, 1, PAGE - 1, PAGE, 2 * PAGE, 5 * PAGE, 2**62 - 1], distinct)
        assert (live.number(missing) == -1).all()


@settings(max_examples=10, deadline=None)
@given(st.lists(far, max_size=20))
def test_ids_up_to_the_largest(given_ids: list[int]) -> None:
    distinct = np.unique(np.array([*given_ids, MOST_IDS - 1], np.int64))
    live = live_of(distinct, MOST_IDS)
    assert live.number(distinct).tolist() == list(range(len(distinct)))
    assert live.ids(np.arange(len(distinct))).tolist() == distinct.tolist()


@pytest.mark.sample(3)
@pytest.mark.parametrize("count", [1, 2047, 2048, 2049, 40_000, 65_535, 65_536])
def test_sparse_and_full_pages(count: int) -> None:
    """One page before, which is empty, and one behind with a few."""
    random = np.random.default_rng(count)
    page = PAGE + random.permutation(PAGE)[:count]
    ids = np.concatenate((page, 2 * PAGE + np.arange(5)))
    live, distinct = live_of(random.permutation(np.repeat(ids, 2)), 3 * PAGE), np.unique(ids)
    assert live.number(distinct).tolist() == list(range(count + 5))
    shuffled = random.permutation(count + 5)
    assert live.ids(shuffled).tolist() == distinct[shuffled].tolist()
    absent = np.setdiff1d(np.arange(3 * PAGE), distinct)
    assert (live.number(absent) == -1).all()
    assert live.nbytes <= 4.2 * (count + 5) + 24 * 3


def test_no_features() -> None:
    for live in (live_of([], 0), live_of([], 100)):
        assert len(live) == 0
        assert live.number([0, 5]).tolist() == [-1, -1]
    with pytest.raises(DataError, match="there are 0 features, no number 3"):
        live.ids([3])


@st.composite
def maps(draw: st.DrawFn) -> IndexMap:
    """Maps of live features, some of them frequent."""
    ids = sorted(draw(st.sets(st.one_of(st.integers(0, 300), near), min_size=1, max_size=80)))
    frequent = sorted(draw(st.sets(st.sampled_from(ids), max_size=20)))
    keys = draw(st.lists(st.integers(0, 4), min_size=len(frequent), max_size=len(frequent)))
    widths = (0, *sorted(draw(st.sets(st.integers(1, 7), max_size=2))))
    sizes = tuple(draw(st.sampled_from([1, 2, 7, 64, 65_536])) for _ in widths)
    live = live_of(ids, 3 * PAGE + 1)
    partition = np.unique(np.array(keys, np.int64), return_inverse=True)[1]
    return IndexMap(frequent, partition, Blocks(widths, sizes), live)


@settings(max_examples=100, deadline=None)
@given(maps())
def test_each_live_feature_has_one_place_of_its_own(index: IndexMap) -> None:
    assert index.live is not None
    every = index.live.ids(np.arange(len(index.live)))
    keys, slots = index.locate(every)
    assert len(set(zip(keys.tolist(), slots.tolist(), strict=True))) == len(every)
    assert ((slots >= 0) & (slots < index.sizes(keys))).all()
    for feature, key, slot in zip(every.tolist(), keys.tolist(), slots.tolist(), strict=True):
        assert index.features_of(key)[slot] == feature
    there = [index.features_of(key) for key in range(index.n_keys)]
    assert sorted(np.concatenate(there)[np.concatenate(there) >= 0]) == every.tolist()
    assert [len(one) for one in there] == index.sizes(np.arange(index.n_keys)).tolist()
    with pytest.raises(DataError, match="a key must be from 0 to"):
        index.features_of(index.n_keys)


@settings(max_examples=50, deadline=None)
@given(maps())
def test_bytes_round_trip(index: IndexMap) -> None:
    again = IndexMap.from_bytes(index.to_bytes())
    assert again == index
    assert again != index.without_live()
    assert again.live is not None
    assert index.live is not None
    numbers = np.arange(len(index.live))
    assert again.live.ids(numbers).tolist() == index.live.ids(numbers).tolist()


def test_damaged_bytes_are_refused() -> None:
    data = IndexMap([9], [0], 4, live_of([3, 9, 70_000], 70_001)).to_bytes()
    for place in range(len(data)):
        flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(DataError):
            IndexMap.from_bytes(flipped)
        with pytest.raises(DataError):
            IndexMap.from_bytes(data[:place])
    with pytest.raises(DataError):
        IndexMap.from_bytes(data + b"\0")


def test_a_feature_that_is_not_there() -> None:
    index = IndexMap([], [], 4, live_of([3, 9], 10))
    with pytest.raises(DataError, match="feature 5 is not among the 2 of the rows"):
        index.locate([3, 5])


def test_blocks_of_live_features_are_full() -> None:
    """1,000 of 10,000,000 ids: a chunk that asks for all of them reads no other slot."""
    random = np.random.default_rng(0)
    ids = np.unique(random.integers(0, 10_000_000, 1000))
    profile = Profile(top=10, sample=100)
    indptr = np.arange(0, len(ids) * 20 + 1, len(ids))
    profile.update(indptr, np.tile(ids, 20))
    live = live_of(ids, 10_000_000)
    plain, packed = profile.partition(batch_rows=4), profile.partition(batch_rows=4, live=live)
    assert packed.explanation.after_blocks.features_read <= 1.02 * len(ids) / 4
    assert packed.explanation.after_blocks.seconds < plain.explanation.after_blocks.seconds / 2
