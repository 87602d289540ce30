"""Estimated duration of each approach to training groups on workers, by the paper's formulas.

Source: S. Li, A. Kumar, Towards an optimized GROUP BY abstraction for large-scale machine learning
("Kingpin"), sections 3 and 4.6. TP, task parallelism: a group is trained by one worker. MTP, model
task parallelism: so is a configuration of it. DP, data parallelism: all workers train one
configuration at a time and wait for each other after each pass. GAP, gradient accumulation
parallelism: large groups are cut, and workers go on with other work until partial sums have come.

Each estimate is (compute + load + network) / p + idle, as in the paper. The paper bounds the idle
time by the largest group; this module takes the excess of the fullest worker's share over the
mean. Its weights alpha to delta are 1, since the costs are measured in seconds.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tuskml.schedule.placement import Sizes, evenly, heaviest_first


@dataclass(frozen=True)
class Workload:
    """Notation of the paper's table 1: n_i, s, h and m.

    sizes: rows of each group (G,); row_bytes: of a row in storage; configurations: of each group;
    passes: of a configuration over its rows; model_bytes: bytes of one configuration that workers
    exchange, such as a gradient; sequential: whether steps depend on each other, so that a
    configuration is on one worker at a time; by_parts: time of a pass over parts of a group,
    relative to one over all its rows together; whole: as of `evenly`.
    """

    sizes: Sizes
    configurations: int = 1
    passes: int = 10
    row_bytes: float = 100.0
    model_bytes: float = 1_000.0
    sequential: bool = False
    by_parts: float = 1.0
    whole: float | None = None

    @property
    def rows(self) -> int:
        """Rows of all groups."""
        return int(self.sizes.sum())


@dataclass(frozen=True)
class Costs:
    """Costs in seconds.

    row: of a row in a pass of a configuration; byte: of reading a byte of storage; model: of a
    group's configuration besides its rows; task: of a worker per task besides its training;
    dispatch: of the dispatching process, per task; sync: until partial sums have been exchanged
    and added; send: of a byte that workers exchange; start: until workers can work.
    """

    row: float
    byte: float
    model: float
    task: float
    dispatch: float
    sync: float
    send: float
    start: float

    def training_seconds(
        self, work: Workload, rows: float, groups: int, configurations: int
    ) -> float:
        """Seconds of all passes of some configurations over rows of some groups."""
        each = self.row * work.passes * rows + self.model * groups
        return each * configurations

    def loading_seconds(self, work: Workload, rows: float) -> float:
        """Seconds to read rows from storage."""
        return self.byte * work.row_bytes * rows


BATCH_SECONDS = 0.1


"""Least seconds of work in a task if groups are small."""


def make_batches(work: Workload, costs: Costs, configurations: int) -> Iterator[tuple[int, int]]:
    """Rows and groups of each task: consecutive groups until the work suffices."""
    each = costs.training_seconds(work, 1, 0, configurations) + costs.loading_seconds(work, 1)
    fixed = costs.model * configurations
    rows = groups = 0
    for n in work.sizes.tolist():
        rows, groups = rows + n, groups + 1
        if rows * each + groups * fixed >= BATCH_SECONDS:
            yield rows, groups
            rows = groups = 0
    if groups:
        yield rows, groups


@dataclass(frozen=True)
class Estimate:
    """Seconds: compute, load and network summed over all workers, and idle time of the last one to
    end.
    """

    approach: str
    compute: float
    load: float
    network: float
    idle: float
    workers: int
    start: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds from the call to its end."""
        shared = self.compute + self.load + self.network
        return self.start + shared / self.workers + self.idle


def estimates(work: Workload, workers: int, costs: Costs) -> list[Estimate]:
    """Estimates TP, MTP, DP and GAP on a number of workers, the shortest first."""
    values = [make(work, workers, costs) for make in (tp, mtp, dp, gap)]
    return sorted(values, key=lambda one: one.seconds)


def tp(work: Workload, workers: int, costs: Costs) -> Estimate:
    """Estimates task parallelism by group (GTP)."""
    each = costs.training_seconds(work, 1, 0, work.configurations) + costs.loading_seconds(work, 1)
    idle = each * imbalance(work.sizes, workers)
    tasks = costs.task * sum(1 for _ in make_batches(work, costs, work.configurations))
    load = costs.loading_seconds(work, work.rows)
    return Estimate("TP", compute_seconds(work, costs), load, tasks, idle, workers, costs.start)


def mtp(work: Workload, workers: int, costs: Costs) -> Estimate:
    """Estimates task parallelism by configuration of a group, each of which reads the rows."""
    s = work.configurations
    load = costs.loading_seconds(work, work.rows) * s
    each = costs.training_seconds(work, 1, 0, 1) + costs.loading_seconds(work, 1)
    idle = each * imbalance(np.repeat(work.sizes, s), workers)
    tasks = costs.task * sum(1 for _ in make_batches(work, costs, 1)) * s
    return Estimate("MTP", compute_seconds(work, costs), load, tasks, idle, workers, costs.start)


def dp(work: Workload, workers: int, costs: Costs) -> Estimate:
    """Estimates data parallelism: one exchange per pass, configuration and group, for which all
    wait.
    """
    steps = work.configurations * work.passes * len(work.sizes)
    wait = costs.sync if workers > 1 else 0.0
    network = costs.send * work.model_bytes * steps * (workers - 1)
    load, passes = (
        costs.loading_seconds(work, work.rows),
        work.by_parts * compute_seconds(work, costs),
    )
    # The exchange is not shared among workers: each of them waits for it.
    idle = wait * steps + costs.task * len(work.sizes)
    if work.sequential:  # one worker works on the only configuration, and the others wait
        idle += wait * steps * (workers - 1) + passes * (1 - 1 / workers)
    return Estimate("DP", passes, load, network, idle, workers, costs.start)


def gap(work: Workload, workers: int, costs: Costs) -> Estimate:
    """Estimates grouped learning: partial sums of cut groups travel while workers train other
    groups.
    """
    shards = evenly(work.sizes, workers, work.whole)
    pieces = np.bincount(shards["group"], minlength=len(work.sizes))
    exchanged = int(pieces[pieces > 1].sum())
    network = costs.send * work.model_bytes * work.configurations * work.passes * exchanged
    small = replace(work, sizes=work.sizes[pieces == 0])
    network += costs.task * sum(1 for _ in make_batches(small, costs, work.configurations))
    network += costs.task * len(shards)
    wait = costs.sync * work.passes if exchanged else 0.0
    if work.sequential:  # a group's parts wait for each other
        each = costs.training_seconds(work, 1, 0, work.configurations)
        wait = wait * int(pieces.max(initial=1)) + each * imbalance(work.sizes, workers)
    cut = float(work.sizes[pieces > 0].sum())
    more = (work.by_parts - 1) * costs.training_seconds(work, cut, 0, work.configurations)
    load = costs.loading_seconds(work, work.rows)
    return Estimate(
        "GAP", compute_seconds(work, costs) + more, load, network, wait, workers, costs.start
    )


def compute_seconds(work: Workload, costs: Costs) -> float:
    """Seconds of all passes over all rows."""
    return costs.training_seconds(work, work.rows, len(work.sizes), work.configurations)


def imbalance(sizes: Sizes, workers: int) -> float:
    """Rows of the fullest worker above the mean if the largest group comes first."""
    ends = [0] * workers
    for rows in sizes[heaviest_first(sizes)].tolist():
        heapq.heapreplace(ends, ends[0] + rows)
    return max(ends) - math.fsum(ends) / workers
