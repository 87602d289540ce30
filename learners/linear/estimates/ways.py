"""The eleven plans of ML4all, and what those take that packed rows do not train by unasked.

Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, section 6 and
figure 5: BGD, and MGD and SGD by transform and sampler. Eagerly by shuffled partitions they are
candidates themselves. Here are the others, by equations 7 to 9. Reading and transforming rows
cost the eager ones what they cost for all rows, and the lazy ones their share of it, with a seek
for each piece (equation 3, `optimizer/disk.py`).
"""

from dataclasses import dataclass

from tuskml.learners.linear.algorithms.parts.drawn import DRAWN, EAGER
from tuskml.learners.linear.estimates.costs import Cost
from tuskml.learners.linear.estimates.question import Question
from tuskml.learners.row_groups import RUN_ROWS
from tuskml.optimizer.disk import draw_seconds, scan_seconds

SHUFFLED = "shuffled-partition"
ALL_ROWS = " on all rows"
"""What the name of a plan ends with that reads and transforms all rows, and draws none of them."""
DRAW_SECONDS = {EAGER: 430e-9}
"""Of a row that a sampler draws from rows in memory, beside its step: Bernoulli's numbers are
drawn one by one and sorted. Measured on dense and sparse rows: 391 to 470 ns, and 57 to 141 of
another sampler (2026-11-23, load 12)."""
OTHER_DRAW = 90e-9
"""The same of another sampler: from memory that is read in no order."""
ROW_GROUP_ROWS = 122_880
"""Of a table or a Parquet file, where nobody has looked."""


@dataclass(frozen=True)
class Way:
    """How a stochastic plan gets its rows."""

    algorithm: str
    transform: str
    sampler: str

    @property
    def name(self) -> str:
        return f"{self.algorithm} {self.transform} {self.sampler}"

    @property
    def lazy(self) -> bool:
        return self.transform == "lazy"


def ways(algorithm: str) -> tuple[Way, ...]:
    """Those of one algorithm, but for the one by which packed rows train."""
    eager = [Way(algorithm, "eager", sampler) for sampler in DRAWN]
    lazy = [Way(algorithm, "lazy", s) for s in (SHUFFLED, *DRAWN) if s != EAGER]
    return (*eager, *lazy)


def seconds(way: Way, question: Question, cost: Cost, epochs: float) -> tuple[float, float]:
    """What a way takes beside reading rows, and the share of the rows that it reads.

    cost, epochs: of the same algorithm by shuffled partitions of packed rows.
    """
    if not way.lazy:
        return cost.total(epochs) + epochs * drawing(way, question), 1.0
    rows = epochs * question.rows_of_one
    share = rows / max(question.seen.rows, 1)
    piece = ROW_GROUP_ROWS if way.sampler == SHUFFLED else RUN_ROWS
    return share * cost.iteration + draw_seconds(rows / piece, 1.0), share


def drawing(way: Way, question: Question) -> float:
    """Seconds of an epoch by which drawing its rows takes longer than shuffled partitions."""
    seen = question.seen
    if not seen.on_disk:
        return seen.rows * DRAW_SECONDS.get(way.sampler, OTHER_DRAW)
    each = seen.on_disk / max(seen.rows, 1)
    return max(draw_seconds(seen.rows, each) - scan_seconds(seen.on_disk), 0.0)
