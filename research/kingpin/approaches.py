"""The tasks that each approach makes of a workload, for the simulation of `events.py`.

Source: sections 3, 4 and 5 of the paper. The names of the approaches are those of
`schedule/simulation.py`; SP switches: DP for the groups above the median, TP for the others.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from research.kingpin.events import Failures, Gate, Run, Simulation, Task
from tuskml.schedule.placement import evenly
from tuskml.schedule.simulation import BATCH_SECONDS, Costs, Workload, make_batches


def simulated(
    approach: str,
    work: Workload,
    workers: int,
    costs: Costs,
    failures: Failures | None = None,
    traced: bool = False,
) -> Run:
    """A run of "TP", "MTP", "DP", "SP" or "GAP" on a given number of workers, with its start."""
    found = APPROACHES[approach](work, workers, costs, failures, traced)
    return replace(found, makespan=found.makespan + costs.start)


def tp(work: Workload, workers: int, costs: Costs, failures: Failures | None, traced: bool) -> Run:
    """Tasks of whole groups."""
    tasks = [
        Task(whole(work, costs, rows, groups, work.configurations))
        for rows, groups in make_batches(work, costs, work.configurations)
    ]
    return Simulation(tasks, workers, (), costs.dispatch, failures, traced).ran()


def mtp(
    work: Workload, workers: int, costs: Costs, failures: Failures | None, traced: bool
) -> Run:
    """Tasks of a configuration of whole groups; each reads the rows."""
    tasks = [
        Task(whole(work, costs, rows, groups, 1))
        for rows, groups in make_batches(work, costs, 1)
        for _ in range(work.configurations)
    ]
    return Simulation(tasks, workers, (), costs.dispatch, failures, traced).ran()


def dp(work: Workload, workers: int, costs: Costs, failures: Failures | None, traced: bool) -> Run:
    """All workers together are one that trains a group at a time.

    They wait for each other after each pass, so nothing else happens within a group; a worker
    that fails loses the group for all of them.
    """
    steps = work.configurations * work.passes
    wait = costs.sync + costs.send * work.model_bytes * (workers - 1) / workers
    each = costs.task + steps * (wait if workers > 1 else 0.0)
    tasks = [
        Task(each + whole(work, costs, rows, 1, work.configurations, costs.task) / workers)
        for rows in work.sizes.tolist()
    ]
    together = None
    if failures is not None:
        together = replace(failures, every=failures.every / workers)
    run = Simulation(tasks, 1, (), costs.dispatch, together, traced).ran()
    return replace(run, workers=workers, busy=run.busy * workers, lost=run.lost * workers)


def sp(work: Workload, workers: int, costs: Costs, failures: Failures | None, traced: bool) -> Run:
    """DP of the groups above the median, and then TP of the others."""
    large = work.sizes > np.median(work.sizes) if len(work.sizes) else np.zeros(0, bool)
    first = dp(replace(work, sizes=work.sizes[large]), workers, costs, failures, traced)
    second = tp(replace(work, sizes=work.sizes[~large]), workers, costs, failures, traced)
    return Run(
        workers,
        first.makespan + second.makespan,
        first.busy + second.busy,
        first.lost + second.lost,
        first.failures + second.failures,
    )


def gap(
    work: Workload, workers: int, costs: Costs, failures: Failures | None, traced: bool
) -> Run:
    """Shards that are pinned to workers, and small groups that any worker may take.

    Those fill the time in which partial sums travel, so their tasks are short: a configuration of
    a group, or several small groups.
    """
    shards = evenly(work.sizes, workers, work.whole)
    pieces = np.bincount(shards["group"], minlength=len(work.sizes))
    tasks, gates = passes_of(work, costs, shards)
    small = replace(work, sizes=work.sizes[pieces == 0])
    for rows, groups in make_batches(small, costs, work.configurations):
        seconds = whole(work, costs, rows, groups, work.configurations)
        parts = max(1, min(work.configurations, int(seconds / BATCH_SECONDS)))
        tasks += [Task(seconds / parts)] * parts
    if failures is not None and len(shards):
        failures = replace(failures, reload=costs.loading_seconds(work, work.rows) / workers)
    return Simulation(tasks, workers, gates, costs.dispatch, failures, traced).ran()


def passes_of(
    work: Workload, costs: Costs, shards: NDArray[np.void]
) -> tuple[list[Task], list[Gate]]:
    """Returns the passes over large groups: a task per shard, pass and bundle of configurations.

    A pass waits for the partial sums of the one before. Configurations travel in two bundles or
    more where each is work enough, so that one is trained while the other's sums travel. Groups
    that lie on several workers are urgent, as other workers wait for them: of two such groups
    a worker takes the one that has had fewer passes.
    """
    tasks: list[Task] = []
    gates: list[Gate] = []
    ordered = shards[np.argsort(shards["group"], kind="stable")]
    for mine in np.split(ordered, np.flatnonzero(np.diff(ordered["group"])) + 1):
        if not len(mine):
            continue
        rows = (mine["last"] - mine["first"]).tolist()
        a_pass = costs.row * work.configurations * max(rows)
        bundles = max(1, min(work.configurations, int(a_pass / BATCH_SECONDS)))
        share = work.configurations / bundles
        alone = len(mine) == 1
        delay = 0.0 if alone else costs.sync + costs.send * work.model_bytes * share * len(mine)
        for _ in range(bundles):
            for number in range(work.passes):
                last = number == work.passes - 1
                gate = -1 if last else len(gates)
                before = len(gates) - 1 if number else -1
                if not last:
                    gates.append(Gate(len(mine), delay))
                urgent = 0 if alone else work.passes - number
                for worker, n in zip(mine["worker"].tolist(), rows, strict=True):
                    seconds = a_shard(work, costs, n, share, not number)
                    tasks.append(Task(seconds, worker, before, gate, urgent))
    return tasks, gates


def a_shard(work: Workload, costs: Costs, rows: int, share: float, first: bool) -> float:
    """Seconds of a pass of a given number of configurations; the first one reads the rows, and is
    a task like those of whole groups. What a later one costs besides its rows is its exchange.
    """
    seconds = share * (costs.row * rows + costs.model / work.passes)
    if first:
        seconds += (costs.task + costs.loading_seconds(work, rows)) * share / work.configurations
    return seconds


def whole(
    work: Workload, costs: Costs, rows: int, groups: int, configurations: int, less: float = 0.0
) -> float:
    """Seconds of a task that reads the rows of some groups and trains them."""
    trained = costs.training_seconds(work, rows, groups, configurations)
    return costs.task - less + costs.loading_seconds(work, rows) + trained


Approach = Callable[[Workload, int, Costs, Failures | None, bool], Run]
APPROACHES: dict[str, Approach] = {"TP": tp, "MTP": mtp, "DP": dp, "SP": sp, "GAP": gap}
