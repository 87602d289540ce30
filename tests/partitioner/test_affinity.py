"""Rare features by affinity: planted cliques are found, and blocks hold them whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import cliques, independent

from tuskml.errors import Interrupted
from tuskml.partitioner import WARM_LEVELDB, Cost, IndexMap, LiveFeatures, SparseRows
from tuskml.partitioner.affinity import (
    LARGEST_CLUSTER,
    FeatureSketches,
    by_frequency,
    choose_size,
)

pytestmark = pytest.mark.native


def places_of(rows: SparseRows, n: int, block: int, chunk_rows: int = 100) -> np.ndarray:
    related = FeatureSketches(n, chunk_rows)
    related.update(rows)
    with related.cluster(WARM_LEVELDB) as clusters:
        return clusters.places(block)


def in_one_block(places: np.ndarray, members: np.ndarray, block: int) -> float:
    """The share of cliques whose members all lie in one block."""
    blocks = places[members] // block
    return float((blocks == blocks[:, :1]).all(axis=1).mean())


@pytest.mark.parametrize("block", [16, 64, 1024])
@pytest.mark.parametrize("times", [2, 5, 30])
def test_planted_cliques_are_in_one_block(block: int, times: int) -> None:
    rows, members = cliques(3000, times=times)
    assert in_one_block(np.arange(members.size), members, block) < 0.05, "their ids say nothing"
    assert in_one_block(places_of(rows, members.size, block), members, block) > 0.98


def test_cliques_of_uneven_sizes() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 14, 2000)
    names = np.split(rng.permutation(sizes.sum()), np.cumsum(sizes)[:-1])
    drawn = rng.permutation(np.repeat(np.arange(2000), 5)).reshape(-1, 10)
    ids = [np.concatenate([names[c] for c in row]) for row in drawn]
    starts = np.concatenate(([0], np.cumsum([len(row) for row in ids])))
    places = places_of(SparseRows(starts, np.concatenate(ids)), int(sizes.sum()), 64)
    whole = [len(np.unique(places[one] // 64)) == 1 for one in names]
    assert np.mean(whole) > 0.9


def test_most_of_a_clique_whose_members_may_be_missing() -> None:
    rows, members = cliques(3000, times=10, kept=0.9)
    blocks = places_of(rows, members.size, 64)[members] // 64
    together = [np.unique(one, return_counts=True)[1].max() for one in blocks]
    assert np.mean(together) > 7, "of eight"


@st.composite
def row_lists(draw: st.DrawFn) -> list[list[int]]:
    return draw(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=30))


@settings(max_examples=80, deadline=None)
@given(row_lists(), st.sampled_from([1, 8, 64]), st.integers(1, 10), st.integers(1, 9))
def test_places_are_a_permutation(
    lists: list[list[int]], block: int, chunk: int, cut: int
) -> None:
    """However rows are cut; features of the same rows follow each other, and share a block."""
    sets = [sorted(set(one)) for one in lists]
    rows = [np.array(one, np.int64) for one in sets]
    starts = np.concatenate(([0], np.cumsum([len(one) for one in rows]))).astype(np.int64)
    ids = np.concatenate([np.zeros(0, np.int64), *rows])
    related = FeatureSketches(41, chunk)
    for first in range(0, len(rows), cut):
        part = starts[first : first + cut + 1]
        related.update(SparseRows(part - part[0], ids[part[0] : part[-1]]))
    counts = [sum(feature in one for one in sets) for feature in range(41)]
    assert related.counts().tolist() == counts
    with related.cluster(WARM_LEVELDB) as clusters:
        places = clusters.places(block)
    assert sorted(places.tolist()) == list(range(41))
    assert (places == places_of(SparseRows(starts, ids), 41, block, chunk)).all()
    holders: dict[tuple[int, ...], list[int]] = {}
    for feature in range(41):
        rows_of = tuple(r for r, one in enumerate(sets) if feature in one)
        holders.setdefault(rows_of, []).append(int(places[feature]))
    if block == LARGEST_CLUSTER:
        assert all(len({place // block for place in one}) == 1 for one in holders.values())


def test_features_below_and_beyond_are_passed_over() -> None:
    related = FeatureSketches(3, 10)
    related.update(SparseRows(np.array([0, 4]), np.array([-1, 1, 3, 1 << 40])))
    assert related.counts().tolist() == [0, 1, 0]


def test_clustering_can_be_interrupted() -> None:
    def stop() -> None:
        raise Interrupted("enough")

    related = FeatureSketches(10, 1)
    with pytest.raises(Interrupted), related.cluster(WARM_LEVELDB, stop):
        pass


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, members = cliques(500, kept=0.8)
    found = []
    for threads in (1, 4):
        monkeypatch.setattr("tuskml.schedule.budget.threads", lambda _, n=threads: n)
        found.append(places_of(rows, members.size, 64))
    assert (found[0] == found[1]).all()


def test_by_frequency() -> None:
    assert by_frequency(np.array([1, 5, 0, 5], np.uint32)).tolist() == [2, 0, 3, 1]


def test_the_cheapest_size_that_fits() -> None:
    """Each chunk asks for 8 runs of 32 numbers; counted by hand."""
    runs = np.arange(8)[:, None] * 1024 + np.arange(32)
    chunks = SparseRows(np.array([0, 256, 512]), np.concatenate((runs.ravel(), runs.ravel())))
    seek = Cost(1.0, 1e-9)
    assert choose_size(chunks, seek, np.inf) == (8192, 1)
    assert choose_size(chunks, seek, 8 * 32) == (32, 8)
    assert choose_size(chunks, seek, 1) == (1, 256), "nothing fits: the smallest"
    assert choose_size(chunks, Cost(1e-9, 1.0), np.inf)[0] <= 32


def live_of(rows: SparseRows, n: int) -> LiveFeatures:
    """All features occur in two groups of rows."""
    part = rows.ids.astype(np.int32)
    live = LiveFeatures.of(lambda: [np.arange(n, dtype=np.int32)], n)
    return live.by_groups([[part], [part]])


def test_an_index_map_by_affinity_is_one_to_one_and_keeps_its_bytes() -> None:
    rows, members = cliques(200)
    n = members.size
    places = places_of(rows, n, 64)
    live = live_of(rows, n).with_order(places)
    assert (live.number(np.arange(n)) == places).all()
    assert (live.ids(np.arange(n)) == np.argsort(places)).all()
    index = IndexMap(np.array([3]), np.array([0]), 64, live)
    keys, slots = index.locate(np.arange(n))
    assert len(set(zip(keys.tolist(), slots.tolist(), strict=True))) == n
    again = IndexMap.from_bytes(index.to_bytes())
    assert again == index
    assert (again.locate(np.arange(n))[0] == keys).all()
    for key in np.unique(keys):
        found = index.features_of(int(key))
        assert (index.locate(found[found >= 0])[0] == key).all()


def test_rows_of_independent_features_are_still_a_permutation() -> None:
    rows = independent(5000, 500, 40)
    assert len(np.unique(places_of(rows, 5000, 64))) == 5000
