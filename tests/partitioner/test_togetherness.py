"""Whether rare features occur together: against sets, and on data where the answer is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import cliques, independent

from tuskml.partitioner import SparseRows
from tuskml.partitioner.affinity import Togetherness, togetherness

pytestmark = pytest.mark.native


def split(rows: SparseRows, marked: int) -> tuple[SparseRows, SparseRows]:
    """The first rows, and the others."""
    at = rows.starts[marked]
    first = SparseRows(rows.starts[: marked + 1], rows.ids[:at])
    return first, SparseRows(rows.starts[marked:] - at, rows.ids[at:])


def test_cliques_are_found_with_their_size() -> None:
    marked, further = split(cliques(20_000)[0], 256)
    found = togetherness(marked, [further])
    assert found.pays
    assert found.mean == pytest.approx(8, abs=0.1)
    assert found.lift > 50


@pytest.mark.parametrize("n", [3000, 100_000])
def test_independent_features_are_not(n: int) -> None:
    marked, further = split(independent(n, 5000, 40), 256)
    found = togetherness(marked, [further])
    assert not found.pays
    assert found.lift < 2


def test_independent_features_of_uneven_frequency_are_not() -> None:
    """Frequent features meet often, but not those of one row more often than others."""
    ids = (1e6 ** np.random.default_rng(0).random((5000, 100))).astype(np.int64)
    rows = SparseRows(np.arange(0, ids.size + 1, 100), ids.ravel()).distinct()
    found = togetherness(
        *((part if i == 0 else [part]) for i, part in enumerate(split(rows, 256)))
    )
    assert not found.pays


def test_nothing_occurs_again() -> None:
    rows = SparseRows(np.arange(0, 101, 10), np.arange(100))
    found = togetherness(*(part if i == 0 else [part] for i, part in enumerate(split(rows, 5))))
    assert found == Togetherness(0, 0.0, 0.0)
    assert "occurs again" in str(found)
    assert togetherness(SparseRows(np.zeros(1, np.int64), np.zeros(0, np.int64)), []).groups == 0


lists = st.lists(st.sets(st.integers(0, 15), max_size=6), min_size=1, max_size=8)


def rows_of(sets: list[set[int]]) -> SparseRows:
    ids = [np.array(sorted(one), np.int64) for one in sets]
    starts = np.concatenate(([0], np.cumsum([len(one) for one in ids])))
    return SparseRows(starts.astype(np.int64), np.concatenate(ids))


@settings(max_examples=100, deadline=None)
@given(lists, lists)
def test_against_sets(marked: list[set[int]], further: list[set[int]]) -> None:
    found = togetherness(rows_of(marked), [rows_of(further[:3]), rows_of(further[3:] or [set()])])
    owner = {
        feature: row
        for row, one in enumerate(marked)
        for feature in one
        if sum(feature in other for other in marked) == 1
    }
    sizes = [
        size
        for row in further
        for m in range(len(marked))
        if (size := sum(owner.get(feature) == m for feature in row))
    ]
    assert found.groups == len(sizes)
    if not sizes:
        return
    assert found.mean == pytest.approx(np.mean(sizes))
    hits = [[f for f in row if f in owner] for row in further]
    every = [owner[f] for row in hits for f in row]
    same = sum((every.count(m) / len(every)) ** 2 for m in set(every))
    pairs = [pair for row in hits for pair in itertools.permutations(row, 2)]
    if pairs:
        met = sum(owner[a] == owner[b] for a, b in pairs)
        assert found.lift == pytest.approx(met / (len(pairs) * same))
