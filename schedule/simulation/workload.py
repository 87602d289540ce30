"""What is to be trained, and what things cost on the machines that train it."""

from collections.abc import Iterator
from dataclasses import dataclass

from tuskml.schedule.placement import Sizes


@dataclass(frozen=True)
class Workload:
    """Notation of the paper's table 1: n_i, s, h and m; row_bytes: of a row in storage.

    sizes: rows of each group (G,); configurations: of each group; passes: of a configuration over
    its rows; model_bytes: of what workers exchange of one configuration, such as a gradient;
    sequential: whether steps depend on each other, so that a configuration is on one worker at a
    time; by_parts: how many times as long a pass over parts of a group takes to compute as one
    over rows in one place.
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
    """Seconds. row: of a row in a pass of a configuration; byte: of reading a byte of storage;
    model: of a group's configuration besides its rows; task: of a worker with a task besides what
    it trains; dispatch: of the process that hands out, per task; sync: until partial sums have
    been exchanged and added; send: of a byte that workers exchange; start: until workers can work.
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
        """All passes of some configurations over rows of some groups."""
        each = self.row * work.passes * rows + self.model * groups
        return each * configurations

    def loaded(self, work: Workload, rows: float) -> float:
        """Reading rows from storage."""
        return self.byte * work.row_bytes * rows


BATCH_SECONDS = 0.1
"""Least work of a task where groups are small."""


def batched(work: Workload, costs: Costs, configurations: int) -> Iterator[tuple[int, int]]:
    """Rows and groups of each task: groups as they come until they are work enough."""
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
