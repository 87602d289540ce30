"""Features ordered by the groups of rows that have them: against sets, and through index maps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.errors import DataError
from tuskml.partitioner import Blocks, IndexMap, LiveFeatures
from tuskml.partitioner.live import LEAST_BLOCK, MOST_GROUPS, Order

pytestmark = pytest.mark.native
PAGE = 1 << 16


def live_in(groups: list[list[int]], others: list[int], dimension: int) -> LiveFeatures:
    """Of groups of rows, each in two parts, and of others that no row has."""
    arrays = [np.array(one, np.int32) for one in groups]
    parts = [*arrays, np.array(others, np.int32)]
    live = LiveFeatures.of(lambda: parts, dimension)
    return live.by_groups([one[::2], one[1::2]] for one in arrays)


ids = st.one_of(st.integers(0, 100), st.integers(PAGE - 50, PAGE + 5000))
groups_of_ids = st.lists(st.lists(ids, max_size=60), min_size=1, max_size=5)


def owner(feature: int, groups: list[list[int]]) -> int:
    """0: several groups have it; else the one that has, or one more than there are."""
    having = [g + 1 for g, one in enumerate(groups) if feature in one]
    return 0 if len(having) > 1 else having[0] if having else len(groups) + 1


@settings(max_examples=80, deadline=None)
@given(groups_of_ids, st.lists(ids, max_size=10))
def test_features_of_a_group_lie_together(groups: list[list[int]], others: list[int]) -> None:
    live = live_in(groups, others, 2 * PAGE)
    order = live.order
    assert order is not None
    every = sorted({*others, *(one for group in groups for one in group)})
    numbers = live.number(every)
    assert live.ids(numbers).tolist() == every
    assert len(np.unique(numbers)) == len(every)
    assert (numbers >= 0).all()
    assert (numbers < live.space).all()
    owners = np.array([owner(one, groups) for one in every], int)
    assert numbers[owners == 0].tolist() == list(range(order.n_shared))
    blocks = [
        set((numbers[owners == o] // order.block).tolist()) for o in range(1, len(groups) + 2)
    ]
    assert len(set().union(*blocks)) == sum(map(len, blocks)), "a block is of one group"
    for code in np.unique(owners):
        own = numbers[owners == code]
        assert own.tolist() == list(range(own[0], own[0] + len(own))) if len(own) else True
    missing = np.setdiff1d(np.arange(200), every)
    assert (live.number(missing) == -1).all()
    assert (live.number(every) >= order.start).tolist() == (owners > 0).tolist()
    holes = np.setdiff1d(np.arange(live.space), numbers)
    assert (live.ids(holes) == -1).all()


def test_many_features() -> None:
    """More than counts stand between, in random order and in runs."""
    random = np.random.default_rng(0)
    codes = random.choice(np.array([0, 1, 2, 3, 4], np.uint8), 100_000, p=[0.5, 0.3, 0.1, 0.1, 0])
    order = Order(codes, 3)
    expected = np.empty(len(codes), np.int64)
    first = [0, order.start]
    for code in range(4):
        own = np.flatnonzero(codes == code)
        base = first[min(code, 1)]
        expected[own] = base + np.arange(len(own))
        if code:
            first[1] += -(-len(own) // order.block) * order.block
    every = np.arange(len(codes))
    assert order.number(every).tolist() == expected.tolist()
    shuffled = random.permutation(len(codes))
    assert order.features(expected[shuffled]).tolist() == shuffled.tolist()
    rising = np.arange(order.space)
    back = order.features(rising)
    assert np.array_equal(np.sort(back[back >= 0]), every)
    assert np.array_equal(order.number(back)[back >= 0], rising[back >= 0])


@pytest.mark.parametrize(("codes", "n_groups"), [([3], 1), ([0], 0), ([0], MOST_GROUPS + 1)])
def test_impossible_orders(codes: list[int], n_groups: int) -> None:
    with pytest.raises(DataError, match="features cannot be ordered"):
        Order(np.array(codes, np.uint8), n_groups)


@settings(max_examples=60, deadline=None)
@given(groups_of_ids, st.lists(ids, min_size=1, max_size=10), st.sampled_from([1, 7, 64]))
def test_index_maps_of_ordered_features(
    groups: list[list[int]], others: list[int], size: int
) -> None:
    live = live_in(groups, others, 2 * PAGE)
    assert live.order is not None
    every = np.unique([*others, *(one for group in groups for one in group)])
    blocks = Blocks.of(size).ending(live.order.start, live.order.block)
    index = IndexMap(every[:2], np.zeros(len(every[:2]), np.int64), blocks, live)
    keys, slots = index.locate(every)
    assert len(set(zip(keys.tolist(), slots.tolist(), strict=True))) == len(every)
    assert ((slots >= 0) & (slots < index.sizes(keys))).all()
    for feature, key, slot in zip(every.tolist(), keys.tolist(), slots.tolist(), strict=True):
        assert index.features_of(key)[slot] == feature
    again = IndexMap.from_bytes(index.to_bytes())
    assert again == index
    assert [one.tolist() for one in again.locate(every)] == [keys.tolist(), slots.tolist()]
    sizes, counts = index.widths()
    assert (sizes * counts).sum() >= index.sizes(np.unique(keys)).sum()


def test_blocks_of_a_group_are_no_smaller_than_the_least() -> None:
    live = live_in([[1, 2], [2, 3]], [9], 10)
    assert live.order is not None
    assert (live.order.block, live.order.n_shared) == (LEAST_BLOCK, 1)
    assert live.number([2, 1, 3, 9]).tolist() == [0, 64, 128, 192]
