"""The work of a training over groups, and costs on the machines that do it."""

from collections.abc import Iterator
from dataclasses import dataclass

from tuskml.schedule.placement import Sizes


@dataclass(frozen=True)
class Workload:
    """Notation of the paper's table 1: n_i, s, h and m.

    sizes: rows of each group (G,); row_bytes: of a row in storage; configurations: of each group;
    passes: of a configuration over its rows; model_bytes: bytes of one configuration that workers
    exchange, such as a gradient; sequential: whether steps depend on each other, so that a
    configuration is on one worker at a time; by_parts: time of a pass over parts of a group,
    relative to one over all its rows together.
    """

    sizes: Sizes
    configurations: int = 1
    passes: int = 10
    row_bytes: float = 100.0
    model_bytes: float = 1_000.0
    sequential: bool = False
    by_parts: float = 1.0

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

    def trained(self, work: Workload, rows: float, groups: int, configurations: int) -> float:
        """Seconds of all passes of some configurations over rows of some groups."""
        each = self.row * work.passes * rows + self.model * groups
        return each * configurations

    def loaded(self, work: Workload, rows: float) -> float:
        """Seconds to read rows from storage."""
        return self.byte * work.row_bytes * rows


BATCH_SECONDS = 0.1
"""Least seconds of work in a task if groups are small."""


def batched(work: Workload, costs: Costs, configurations: int) -> Iterator[tuple[int, int]]:
    """Rows and groups of each task: consecutive groups until the work suffices."""
    each = costs.trained(work, 1, 0, configurations) + costs.loaded(work, 1)
    fixed = costs.model * configurations
    rows = groups = 0
    for n in work.sizes.tolist():
        rows, groups = rows + n, groups + 1
        if rows * each + groups * fixed >= BATCH_SECONDS:
            yield rows, groups
            rows = groups = 0
    if groups:
        yield rows, groups
