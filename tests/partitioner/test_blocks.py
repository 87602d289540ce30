"""Blocks of rare features: sizes by the cost function, requests counted exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitioner_rows import packed, sparse_lists, zipf

from tuskml.errors import DataError, OptionError
from tuskml.partitioner import Blocks, Cost, choose_blocks
from tuskml.partitioner.merging import bits_of, count_requests


@settings(max_examples=80, deadline=None)
@given(sparse_lists, st.integers(1, 20))
def test_requests_are_counted_exactly(rows: list[list[int]], size: int) -> None:
    packed_rows = packed(rows).distinct()
    found = count_requests(packed_rows.row_numbers(), packed_rows.ids, size)
    assert found == sum(len({i // size for i in row}) for row in rows)


@settings(max_examples=60, deadline=None)
@given(sparse_lists, st.integers(1, 30), st.integers(0, 10))
def test_no_block_size_is_cheaper(rows: list[list[int]], seek: int, unit: int) -> None:
    def seconds(blocks: Blocks) -> float:
        of_id = [blocks.range_of_width(int(i).bit_length()) for i in range(12)]
        asked = {
            (r, of_id[i][1] + (i - of_id[i][0]) // of_id[i][2], of_id[i][2])
            for r, row in enumerate(rows)
            for i in row
        }
        return sum(cost.of(size) for _, _, size in asked)

    cost = Cost(seek, unit)
    blocks, tried = choose_blocks(packed(rows).distinct(), cost)
    for size in (1, 2, 3, 4, 5, 8, 10, 16):
        assert seconds(blocks) <= seconds(Blocks.of(size)) + 1e-9
    for candidate in tried:
        whole = seconds(Blocks.of(candidate.size))
        assert candidate.seconds * len(rows) == pytest.approx(whole)


def test_records_of_a_factorisation_get_blocks_of_their_rank() -> None:
    random = np.random.default_rng(0)
    records = random.integers(0, 5_000, (500, 2))
    ids = (records[:, :, None] * 37 + np.arange(37)).reshape(500, -1)
    blocks, _ = choose_blocks(packed(ids.tolist()).distinct(), Cost(1e-6, 1e-9))
    assert blocks == Blocks.of(37)


def test_hashed_features_keep_a_key_each() -> None:
    ids = np.random.default_rng(0).integers(0, 2**60, (200, 30))
    blocks, _ = choose_blocks(packed(ids.tolist()).distinct(), Cost(1e-6, 1e-9))
    assert blocks == Blocks.of(1)


def test_ids_by_frequency_get_larger_blocks_where_they_are_frequent() -> None:
    ids = zipf(1_000 * 100, 10**9, 3).reshape(1_000, 100)
    blocks, _ = choose_blocks(packed(ids.tolist()).distinct(), Cost(1e-6, 1e-9))
    assert len(blocks.sizes) > 1
    assert blocks.sizes[-1] == 1


def test_no_rare_features() -> None:
    assert choose_blocks(packed([[], []]), Cost(1, 1)) == (Blocks.of(1), [])


def test_bits_of_ids() -> None:
    ids = np.array([0, 1, 2, 3, 4, 2**40 - 1, 2**40, 2**62 - 1])
    assert bits_of(ids).tolist() == [int(i).bit_length() for i in ids]


@pytest.mark.parametrize("size", [0, -3, 65_537])
def test_impossible_sizes(size: int) -> None:
    with pytest.raises(OptionError, match=f"block must be from 1 to 65536 features, got {size}"):
        Blocks.of(size)


@pytest.mark.parametrize(
    ("widths", "sizes"),
    [((), ()), ((1,), (1,)), ((0, 5, 5), (1, 2, 3)), ((0, 63), (1, 2)), ((0,), (1, 2))],
)
def test_impossible_ranges(widths: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    with pytest.raises(DataError):
        Blocks(widths, sizes)
