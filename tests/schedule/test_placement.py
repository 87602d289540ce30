"""Shards and timetables of groups on workers: bounds and invariants of "Kingpin", section 4."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.kingpin.timetable import broken, timetable
from tuskml.schedule.placement import (
    constrained_wrap_around,
    greedy_makespan,
    heaviest_first,
    least_makespan,
    rows_by_worker,
    wrap_around,
)

SIZES = st.lists(st.integers(0, 500), min_size=0, max_size=40).map(
    lambda sizes: np.array(sizes, np.int64)
)
WORKERS = st.integers(1, 12)
CONFIGURATIONS = st.integers(1, 5)


@given(SIZES, WORKERS)
def test_wrap_around_reaches_the_least_makespan(sizes: Any, workers: int) -> None:
    """Equation 2: max(n / p, max n_i), in whole rows."""
    shards = wrap_around(sizes, workers)
    most = max(-(-int(sizes.sum()) // workers), *sizes.tolist(), 0)
    assert least_makespan(sizes, workers) == most
    assert rows_by_worker(shards, workers).max(initial=0) == most
    assert rows_by_worker(shards, workers).sum() == sizes.sum()
    assert (np.bincount(shards["group"]) <= 2).all()
    assert (shards["last"] > shards["first"]).all()


@given(SIZES, WORKERS, CONFIGURATIONS)
def test_its_timetable_keeps_all_invariants(sizes: Any, workers: int, configurations: int) -> None:
    tasks = timetable(wrap_around(sizes, workers), configurations)
    assert list(broken(tasks, sizes, configurations)) == []
    most = least_makespan(sizes, workers) * configurations
    assert tasks["end"].max(initial=0) == most


@given(SIZES, WORKERS)
def test_constrained_wrap_around_is_within_a_bound(sizes: Any, workers: int) -> None:
    """A shard goes to the worker with the fewest rows, which has at most n / p of those before."""
    shards = constrained_wrap_around(sizes, workers)
    each = shards["last"] - shards["first"]
    n, largest = int(sizes.sum()), int(each.max(initial=0))
    assert rows_by_worker(shards, workers).max() <= n / workers + largest
    rows = np.zeros(len(sizes), np.int64)
    np.add.at(rows, shards["group"], each)
    assert (rows == sizes).all()
    # A share of less than 1.5 is one shard, one of r rounds to more than 2/3 r of them.
    assert largest <= 1.5 * n / workers + 1 or workers == 1


def test_figure_5_of_the_paper() -> None:
    """Groups of 5, 2, 1 and 1 rows on three workers: A is split in two, the optimum is 3."""
    shards = constrained_wrap_around(np.array([5, 2, 1, 1]), 3)
    assert (np.bincount(shards["group"]) == [2, 1, 1, 1]).all()
    assert rows_by_worker(shards, 3).tolist() == [3, 3, 3]


HOPPING = np.array([2, 3, 3])
"""On two workers: the second group ends the first one's list and begins the second one's."""


def hopping() -> Any:
    """The tasks of two configurations."""
    tasks = timetable(wrap_around(HOPPING, 2), 2)
    assert (np.bincount(tasks["group"]) == [2, 4, 2]).all()
    assert list(broken(tasks, HOPPING, 2)) == []
    return tasks


def row_lost(tasks: Any) -> None:
    tasks["last"][0] -= 1


def row_seen_twice(tasks: Any) -> None:
    tasks["first"][tasks["first"] > 0] -= 1


def other_worker(tasks: Any) -> None:
    tasks["worker"][0] += 5


def too_early(tasks: Any) -> None:
    tasks["begin"][1] -= 1


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (row_lost, "data sharding"),
        (row_seen_twice, "data sharding"),
        (other_worker, "data sharding"),
        (too_early, "worker exclusivity"),
    ],
)
def test_a_broken_invariant_is_named(change: Any, name: str) -> None:
    tasks = hopping()
    change(tasks)
    assert name in list(broken(tasks, HOPPING, 2))


def test_a_group_on_two_workers_at_a_time_is_named() -> None:
    """Both halves of the only group at once, by the same configuration or by another one."""
    sizes = np.array([4])
    tasks = timetable(constrained_wrap_around(sizes, 2), 2)
    assert list(broken(tasks, sizes, 2)) == ["config isolation", "group isolation"]
    crossed = tasks.copy()
    second = crossed["worker"] == 1
    for side in ("begin", "end"):
        crossed[side][second] = crossed[side][second][::-1]
    assert list(broken(crossed, sizes, 2)) == ["group isolation"]


def test_there_must_be_a_worker() -> None:
    with pytest.raises(ValueError, match="there are 0 workers, expected at least 1"):
        least_makespan(np.array([1]), 0)


@given(SIZES, WORKERS)
def test_claims_from_the_heaviest_on_are_within_a_bound(sizes: Any, workers: int) -> None:
    """R. L. Graham, 1969, by what its proof bounds; C* is at most the optimum."""
    ordered = sizes[heaviest_first(sizes)]
    assert (np.diff(ordered) <= 0).all()
    found, least = greedy_makespan(ordered, workers), least_makespan(sizes, workers)
    # What ends last began when no thread had more than n / p; the p heaviest ones begin at 0.
    later = int(ordered[workers]) if len(sizes) > workers else 0
    assert least <= found <= max(sizes.sum() / workers + later, int(sizes.max(initial=0)))
