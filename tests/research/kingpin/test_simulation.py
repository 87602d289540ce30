"""A simulated cluster: what holds of every run, small runs by hand, and the cost model."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.kingpin.approaches import APPROACHES, passes_of, simulated
from research.kingpin.events import Failures, Gate, Run, Simulation, Task
from tuskml.schedule.placement import evenly, least_makespan, rows_by_worker
from tuskml.schedule.simulation import Costs, Workload, estimates, gap, make_batches, tp

FREE = Costs(1e-3, 0, 0, 0, 0, 0, 0, 0)
"""A row takes a millisecond, and all else nothing."""
COSTS = Costs(1e-4, 1e-7, model=1e-4, task=1e-3, dispatch=1e-4, sync=1e-3, send=1e-8, start=2)
SIZES = st.lists(st.integers(1, 4_000), min_size=1, max_size=30).map(
    lambda sizes: np.array(sizes, np.int64)
)
WORKERS = st.integers(1, 9)
WORK = st.builds(Workload, SIZES, st.integers(1, 4), st.integers(1, 4))
TASKS = st.lists(st.floats(0, 50), min_size=1, max_size=40)
FAILURES = st.none() | st.builds(
    Failures, st.floats(0.005, 1), st.floats(0, 20), st.floats(0, 5), st.integers(0, 99)
)


def overlaps(run: Run) -> bool:
    """Whether a worker was at two tasks at once."""
    ordered = sorted(run.trace, key=lambda did: (did.worker, did.begin, did.end))
    return any(
        one.worker == other.worker and other.begin < one.end - 1e-9
        for one, other in pairwise(ordered)
    )


@given(TASKS, WORKERS, FAILURES, st.floats(0, 0.5))
def test_work_is_done_once_and_failures_lose_what_was_running(
    seconds: list[float], workers: int, failures: Failures | None, dispatch: float
) -> None:
    tasks = [Task(one) for one in seconds]
    run = Simulation(tasks, workers, (), dispatch, failures, traced=True).ran()
    done = Counter(did.task for did in run.trace if did.done)
    assert done == Counter(range(len(tasks)))
    assert run.busy == pytest.approx(sum(seconds), abs=1e-6)
    lost = [did for did in run.trace if not did.done]
    assert len(lost) <= run.failures
    assert all(did.end - did.begin <= seconds[did.task] + 1e-9 for did in lost)
    assert run.lost == pytest.approx(sum(did.end - did.begin for did in lost), abs=1e-6)
    assert not overlaps(run)
    assert run.makespan >= max(sum(seconds) / workers, *seconds) - 1e-6
    assert run.makespan == pytest.approx(max(did.end for did in run.trace if did.done))
    if failures is None:  # R. L. Graham, 1969: list scheduling, largest first
        least = max(sum(seconds) / workers, *seconds)
        assert run.makespan <= 2 * least + len(seconds) * dispatch + 1e-6


@given(WORK, WORKERS, st.sampled_from(["TP", "MTP", "DP", "GAP"]), FAILURES)
@settings(max_examples=150, deadline=None)
def test_every_approach_does_all_the_work(
    work: Workload, workers: int, approach: str, failures: Failures | None
) -> None:
    run = simulated(approach, work, workers, FREE, failures, traced=True)
    rows = work.rows * work.configurations * work.passes
    assert run.busy == pytest.approx(rows * FREE.row, rel=1e-6)
    assert not overlaps(run)
    n = work.rows / workers * work.configurations * work.passes * FREE.row
    assert run.makespan >= n - 1e-9
    if approach == "TP":
        least = least_makespan(work.sizes, workers) * work.configurations * work.passes
        assert run.makespan >= (least - 1) * FREE.row - 1e-9
    if failures is None:
        assert run.failures == run.lost == 0


@given(WORK, WORKERS)
@settings(max_examples=50, deadline=None)
def test_a_pass_begins_when_the_sums_of_the_last_one_have_come(
    work: Workload, workers: int
) -> None:
    shards = evenly(work.sizes, workers)
    tasks, gates = passes_of(work, COSTS, shards)
    run = Simulation(tasks, workers, gates, traced=True).ran()
    ends: dict[int, float] = {}
    for did in run.trace:
        feeds = tasks[did.task].feeds
        ends[feeds] = max(ends.get(feeds, 0.0), did.end)
    for did in run.trace:
        opens = tasks[did.task].opens
        if opens >= 0:
            assert did.begin >= ends[opens] + gates[opens].delay - 1e-9
        assert did.worker == tasks[did.task].worker


def test_three_tasks_on_two_workers_by_hand() -> None:
    """The longest first: 3 on one worker, 2 and 2 on the other."""
    assert Simulation([Task(2.0), Task(3.0), Task(2.0)], 2).ran().makespan == 4.0
    late = Simulation([Task(2.0), Task(3.0), Task(2.0)], 2, dispatch=0.5).ran()
    assert late.makespan == 0.5 + 0.5 + 2 + 0.5 + 2


def test_a_gate_by_hand() -> None:
    """Two workers with 1 s and 2 s, half a second for their sums, then 1 s and 2 s again."""
    tasks = [Task(1.0, 0, -1, 0), Task(2.0, 1, -1, 0), Task(1.0, 0, 0), Task(2.0, 1, 0)]
    assert Simulation(tasks, 2, [Gate(2, 0.5)]).ran().makespan == 4.5


def test_a_failure_by_hand() -> None:
    """A worker that fails every hour needs longer than two hours of work."""
    run = Simulation([Task(1800.0)] * 4, 1, (), 0, Failures(1.0, 60.0, seed=1), True).ran()
    lost = sum(did.end - did.begin for did in run.trace if not did.done)
    idle = run.makespan - run.busy - run.lost
    assert run.busy == 7200
    assert run.lost == pytest.approx(lost)
    assert run.failures > 0
    assert idle == pytest.approx(60 * run.failures, abs=60)


def test_the_same_seed_is_the_same_run() -> None:
    work = Workload(np.arange(1, 300, dtype=np.int64) * 100, 3)
    one, other = (simulated("GAP", work, 7, COSTS, Failures(0.01, 5.0, seed=3)) for _ in range(2))
    assert one == other
    assert one.failures > 0


def test_without_a_worker_there_is_no_run() -> None:
    with pytest.raises(ValueError, match="there are 0 workers"):
        Simulation([Task(1.0)], 0)


def test_estimates_are_near_what_is_simulated() -> None:
    """By formulas and by events; groups of Zipf sizes, among them one with a tenth of the rows."""
    sizes = (2e6 / np.arange(1, 281)).astype(np.int64)
    work = Workload(sizes, 12)
    for workers in (1, 4, 16, 64):
        for one in estimates(work, workers, COSTS):
            run = simulated(one.approach, work, workers, COSTS)
            assert one.seconds == pytest.approx(run.makespan, rel=0.25), (one.approach, workers)


def test_passes_over_parts_may_take_longer() -> None:
    """By sums over parts all of DP's passes, and of GAP those of large groups."""
    sizes = np.array([1_000_000, 1_000_000, *[1_000] * 50], np.int64)
    once, twice = (
        {one.approach: one for one in estimates(Workload(sizes, by_parts=n), 2, COSTS)}
        for n in (1.0, 2.0)
    )
    assert twice["TP"] == once["TP"]
    assert twice["DP"].compute == pytest.approx(2 * once["DP"].compute)
    large = COSTS.training_seconds(Workload(sizes), 2_000_000, 0, 1)
    assert twice["GAP"].compute == pytest.approx(once["GAP"].compute + large)
    assert min(twice.values(), key=lambda one: one.seconds).approach == "TP"


def test_each_configuration_of_mtp_reads_the_rows() -> None:
    """Where reading is most of the work, on fewer workers than configurations."""
    costs = replace(COSTS, byte=COSTS.row)
    work = Workload(np.full(48, 100_000, np.int64), 12, 1)
    (found,) = (one for one in estimates(work, 4, costs) if one.approach == "MTP")
    assert found.seconds == pytest.approx(simulated("MTP", work, 4, costs).makespan, rel=0.05)


def test_the_paper_s_orders_of_the_approaches() -> None:
    """Section 3.3: GTP is bound by the largest group, DP by the number of groups, and GAP by
    neither; MTP reads the rows again and again."""

    def order(n_groups: int, largest: float, workers: int) -> dict[str, float]:
        sizes = np.full(n_groups, (1 - largest) * 1.4e7 / max(n_groups - 1, 1))
        sizes[0] = largest * 1.4e7
        work = Workload(sizes.astype(np.int64), 12, 10, 35_000, 8e6)
        costs = Costs(2e-6, 1e-8, 1e-4, 0.01, 5e-4, 0.05, 1e-9, 5)
        return {one.approach: one.seconds for one in estimates(work, workers, costs)}

    skewed, many = order(18, 0.5, 16), order(20_000, 0.001, 4)
    assert skewed["GAP"] <= 1.05 * skewed["DP"] < skewed["TP"]
    assert many["GAP"] <= 1.05 * many["TP"] < many["DP"]
    assert max(skewed, key=skewed.__getitem__) in ("MTP", "TP")


@given(WORK, WORKERS)
@settings(max_examples=50, deadline=None)
def test_cutting_large_groups_never_computes_more(work: Workload, workers: int) -> None:
    cut, uncut = gap(work, workers, FREE), tp(work, workers, FREE)
    assert cut.compute == pytest.approx(uncut.compute)
    assert cut.seconds <= uncut.seconds + 1e-9


@given(WORK)
def test_tasks_hold_each_group_once(work: Workload) -> None:
    made: list[Any] = list(make_batches(work, COSTS, work.configurations))
    assert sum(rows for rows, _ in made) == work.rows
    assert sum(groups for _, groups in made) == len(work.sizes)


@given(SIZES, WORKERS)
def test_even_shards_fill_workers_up_to_the_mean(sizes: Any, workers: int) -> None:
    shards = evenly(sizes, workers)
    capacity = -(-int(sizes.sum()) // workers)
    assert rows_by_worker(shards, workers).max() <= capacity
    rows = np.zeros(len(sizes), np.int64)
    np.add.at(rows, shards["group"], shards["last"] - shards["first"])
    assert set(np.unique(sizes - rows)) <= {0, *sizes[sizes * 10 <= capacity].tolist()}
    assert len(np.unique(shards[["group", "first"]])) == len(shards)


@pytest.mark.nightly
def test_a_million_groups_on_ten_thousand_workers() -> None:
    sizes = np.maximum(1e8 / np.arange(1, 1_000_001) ** 1.1, 1).astype(np.int64)
    work = Workload(sizes, 12)
    run = simulated("TP", work, 10_000, COSTS)
    assert run.makespan >= sizes.max() * COSTS.row * 120
    assert set(APPROACHES) == {"TP", "MTP", "DP", "SP", "GAP"}
