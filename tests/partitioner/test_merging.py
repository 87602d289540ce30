"""Algorithm 3: the same merges as the listing, and what a merge may and may not do."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merging_by_matrices import affinity, partitions_of, steps_by_matrices
from partitioner_rows import N_FEATURES, packed, sparse_lists, zipf

from tuskml.errors import OptionError
from tuskml.partitioner import Cost, Merging, merge_features

pytestmark = pytest.mark.native
costs = st.tuples(st.integers(1, 40), st.integers(0, 10))


def whole(cost: Cost, n_rows: int) -> tuple[int, int, float]:
    return cost.whole_numbers(n_rows, N_FEATURES)


@settings(max_examples=150, deadline=None)
@given(sparse_lists, costs)
def test_the_merges_are_those_of_the_listing(rows: list[list[int]], given_cost) -> None:
    cost = Cost(*given_cost)
    merges = merge_features(packed(rows), N_FEATURES, cost, threads=1)
    seek, unit, second = whole(cost, len(rows))
    steps, parts = partitions_of([set(row) for row in rows], N_FEATURES, seek, unit)
    found = [tuple(step)[:4] for step in merges.steps.tolist()]
    assert found == [step[:4] for step in steps]
    assert merges.steps["saved"].tolist() == [step[4] * second for step in steps]
    lowest = {feature: i for i, features in parts.items() for feature in features}
    assert merges.partition.tolist() == [lowest[k] for k in range(N_FEATURES)]


@settings(max_examples=60, deadline=None)
@given(sparse_lists, costs)
def test_affinities_are_exact_after_each_merge(rows: list[list[int]], given_cost) -> None:
    parts = {k: {k} for k in range(N_FEATURES)}
    sets = [set(row) for row in rows]
    with Merging(packed(rows), N_FEATURES, Cost(*given_cost), 1) as merging:
        merging.count(0, N_FEATURES)
        while True:
            lowest, matrix = merging.affinity()
            assert lowest.tolist() == sorted(parts)
            expected = [[affinity(sets, parts[i], parts[j]) for j in lowest] for i in lowest]
            assert matrix.tolist() == expected
            if not len(step := merging.merge(1)):
                break
            parts[int(step["first"][0])] |= parts.pop(int(step["second"][0]))


@settings(max_examples=60, deadline=None)
@given(sparse_lists, costs)
def test_the_cost_falls_by_what_each_merge_saves(rows: list[list[int]], given_cost) -> None:
    merges = merge_features(packed(rows), N_FEATURES, Cost(*given_cost))
    assert (merges.steps["saved"] > 0).all()
    fallen = merges.seconds_before - merges.steps["saved"].sum()
    assert fallen == pytest.approx(merges.seconds_after, rel=1e-12, abs=1e-12)


def test_a_cost_by_hand() -> None:
    """Rows {0, 1} x 3 and {0}: C_0 = 4 * 11, C_1 = 3 * 11, C_01 = 4 * 12; saved 44 + 33 - 48."""
    merges = merge_features(packed([[0, 1]] * 3 + [[0]]), 2, Cost(10, 1))
    assert merges.seconds_before == 77
    assert merges.steps["saved"].tolist() == [29]
    assert merges.seconds_after == 48


def test_features_that_never_meet_stay_apart() -> None:
    merges = merge_features(packed([[0], [1], [0], [1]]), 3, Cost(1, 0))
    assert merges.partition.tolist() == [0, 1, 2]


def test_large_samples_by_lists_and_by_popcounts_agree() -> None:
    """Both ways of counting occur here: frequent features by popcounts, rare ones by lists."""
    n_features, n_rows = 300, 2_000
    ids = zipf(n_rows * 40, 2_000, 1)
    rows = packed(ids.reshape(n_rows, 40).tolist())
    dense = np.zeros((n_rows, n_features), np.int64)
    inside = rows.ids < n_features
    dense[rows.row_numbers()[inside], rows.ids[inside]] = 1
    with Merging(rows, n_features, Cost(1e-6, 1e-9), 2) as merging:
        merging.count(0, n_features)
        assert (merging.affinity()[1] == dense.T @ dense).all()
        for _ in range(20):
            merging.merge(10)
            _, matrix = merging.affinity()
            assert (np.diag(matrix) >= matrix.max(axis=1)).all()
            assert (matrix == matrix.T).all()


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("unit", [1, 5])
def test_many_merges_are_those_of_the_affinity_matrix(seed: int, unit: int) -> None:
    """Partners are lost and found again here: bounds come to the top of the heap."""
    n_features, n_rows = 120, 300
    random = np.random.default_rng(seed)
    shares = random.uniform(0, 0.4, n_features) ** 2
    accessed = (random.random((n_rows, n_features)) < shares).astype(np.int64)
    rows = packed([np.flatnonzero(row).tolist() for row in accessed])
    cost = Cost(100, unit)
    merges = merge_features(rows, n_features, cost)
    seek, whole_unit, second = cost.whole_numbers(n_rows, n_features)
    expected = steps_by_matrices(accessed, seek, whole_unit)
    assert [step[:2] for step in merges.steps[["first", "second"]].tolist()] == [
        step[:2] for step in expected
    ]
    assert merges.steps["saved"].tolist() == [step[2] * second for step in expected]
    assert len(expected) > 10


def test_results_do_not_depend_on_threads() -> None:
    rows = packed(zipf(50_000, 5_000, 2).reshape(1_000, 50).tolist())
    one, three = (merge_features(rows, 500, Cost(1e-6, 1e-9), threads) for threads in (1, 3))
    assert one.steps.tolist() == three.steps.tolist()
    assert len(one.steps)


@pytest.mark.parametrize("rows", [[], [[]], [[], [50]]])
def test_nothing_to_merge(rows: list[list[int]]) -> None:
    merges = merge_features(packed(rows), 3, Cost(1, 1))
    assert merges.partition.tolist() == [0, 1, 2]
    assert merges.seconds_before == merges.seconds_after == 0
    assert len(merge_features(packed(rows), 0, Cost(1, 1)).partition) == 0


def test_it_can_be_interrupted() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        merge_features(packed([[0, 1]]), 2, Cost(1, 1), interrupted=stop)


def test_too_many_features() -> None:
    with pytest.raises(OptionError, match="top must be from 0 to 32768, got 40000"):
        merge_features(packed([[0]]), 40_000, Cost(1, 1))
