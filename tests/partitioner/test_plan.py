"""From rows to an index map and its explanation."""

import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partitioner_rows import lists, packed, sparse_lists, zipf

from tuskml.errors import DataError, OptionError
from tuskml.partitioner import Cost, IndexMap, Profile, partition_model, sparse_rows

pytestmark = pytest.mark.native


@settings(max_examples=60, deadline=None)
@given(sparse_lists, st.integers(0, 12), st.integers(1, 4))
def test_the_explanation_counts_requests(rows: list[list[int]], top: int, batch: int) -> None:
    """Counted again from the index map alone; the sample has all rows."""
    packed_rows = packed(rows)
    made = partition_model(
        packed_rows.starts, packed_rows.ids, top=top, cost=Cost(20, 1), batch_rows=batch
    )
    batches = [list(chain(*rows[k : k + batch])) for k in range(0, len(rows), batch)]
    one = made.explanation
    for index, found in (
        (IndexMap.by_rule(), one.by_feature),
        (IndexMap(made.index.features, made.index.partition), one.after_merging),
        (made.index, one.after_blocks),
    ):
        keys = [set(index.locate(np.array(ids, np.int64))[0].tolist()) for ids in batches]
        sizes = [index.sizes(sorted(of_row)).sum() if of_row else 0 for of_row in keys]
        n = max(1, len(rows))
        assert found.requests == pytest.approx(sum(map(len, keys)) / n)
        assert found.features_read == pytest.approx(sum(sizes) / n)
        assert found.seconds == pytest.approx((20 * sum(map(len, keys)) + sum(sizes)) / n)
    assert one.after_blocks.seconds <= one.after_merging.seconds + 1e-9
    assert one.after_merging.seconds <= one.by_feature.seconds + 1e-9
    assert one.saving_by_merging >= 0
    assert len(made.index.features) <= top


def test_partitions_hold_what_occurs_together() -> None:
    """Features 100 and 900 are always together, 7 is alone, in rows of their own."""
    rows = packed([[100, 900], [7]] * 50)
    made = partition_model(rows.starts, rows.ids, top=3, cost=Cost(10, 1))
    (partition,) = made.explanation.partitions
    assert partition.features.tolist() == [100, 900]
    assert (partition.size, partition.share) == (2, 0.5)
    assert made.explanation.by_feature.requests == 1.5
    assert made.explanation.after_merging.requests == 1


@pytest.fixture(scope="module")
def skewed() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(0, 60_001, 30), zipf(60_000, 10**7, 5)


def test_the_same_rows_and_seed_give_the_same_map(skewed: tuple) -> None:
    one, other = (partition_model(*skewed, top=200, sample=500, seed=3, threads=n) for n in (1, 2))
    assert one.index.to_bytes() == other.index.to_bytes()
    assert one.explanation.as_dict() == other.explanation.as_dict()
    assert partition_model(*skewed, top=200, sample=500, seed=4).index != one.index


def test_chunks_and_workers(skewed: tuple) -> None:
    indptr, ids = skewed
    workers = [Profile(200, 500, seed) for seed in (0, 1)]
    for worker, begin in zip(workers, (0, 1_000), strict=True):
        for a in range(begin, begin + 1_000, 100):
            part = indptr[a : a + 101]
            worker.update(part - part[0], ids[part[0] : part[-1]])
    workers[0].merge(workers[1])
    made = workers[0].partition()
    assert made.explanation.rows_seen == 2_000
    assert made.explanation.rows_sampled == 500
    assert made.explanation.entries == 60_000
    assert made.explanation.after_blocks.requests < made.explanation.by_feature.requests


def test_the_explanation_is_json(skewed: tuple) -> None:
    found = json.loads(json.dumps(partition_model(*skewed, top=50).explanation.as_dict(3)))
    assert found["top"] == 50
    assert all(len(partition["features"]) <= 3 for partition in found["partitions"])
    assert found["saved_by_merging"] > 0
    assert found["blocks"][0]["start"] == 0


def test_a_given_block() -> None:
    made = partition_model([0, 2], [5, 6], top=0, block=10)
    assert made.index == IndexMap.by_rule(10)
    assert made.explanation.block_candidates == []


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**62 - 1))), max_size=9))
def test_distinct_rows(rows: list[list[int]]) -> None:
    assert lists(packed(rows).distinct()) == [sorted(set(row)) for row in rows]


@pytest.mark.parametrize(
    ("indptr", "ids"),
    [([], []), ([1], []), ([0, 2], [1]), ([0, 2, 1, 3], [1, 2, 3]), ([0, 1], [-5]), ([0.0], [])],
)
def test_what_are_no_rows(indptr: list, ids: list) -> None:
    with pytest.raises(DataError):
        sparse_rows(np.array(indptr), np.array(ids, np.int64))


def test_batches_have_rows() -> None:
    with pytest.raises(OptionError, match="batch_rows must be at least 1, got 0"):
        partition_model([0, 1], [1], batch_rows=0)
