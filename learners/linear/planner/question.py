"""What is known when a plan is asked for: the rows, a sketch of them, options and memory."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuskml.kernels.speculated import Method
from tuskml.learners.linear.planner.curves import Sketch
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.tasks import LinearTask

# What all candidate plans of one training have in common.


@dataclass(frozen=True)
class Statistics:
    """What is known of a batch of groups with the same number of features.

    most_rows: of the largest group, as a power of two; the others, which costs are estimated
    from, are 0 where nobody has counted: rows and entries (values of the features) of all groups.
    on_disk: bytes of spilled rows that a pass has to read.
    """

    most_rows: int
    n_features: int
    sparse: bool
    rows: int = 0
    entries: int = 0
    groups: int = 1
    double: bool = False
    on_disk: float = 0.0

    @property
    def storage(self) -> str:
        """How rows are kept, as `tuskml.kernels.passes.KINDS` says it."""
        return f"{'sparse' if self.sparse else 'dense'} float{64 if self.double else 32}"


@dataclass(frozen=True)
class Measured:
    """Seconds of something of the user's own on all rows: before and in an iteration, or a pass.

    failure: why it cannot be.
    """

    setup: float
    iteration: float
    failure: str | None


@dataclass(frozen=True)
class AtCorner:
    """Iterations of a method at the hinge, as a sample of the rows tells.

    ended: whether it came to an end there, else it takes more; unsure: how many times more or
    fewer it may take; whole: whether that was to the tolerance that is asked for.
    """

    iterations: float
    ended: bool
    unsure: float = 2.0
    whole: bool = False


@dataclass(frozen=True)
class Question:
    """What all candidates of one training have in common.

    length: mean squared length of the centred rows, and spread: of dense features' variances
    (`iterations.py`), where they are known; spread_with_l2: with what the penalty adds; rarer: the
    rarer class's share of the rows, at the hinge; sketch: a
    model of the objective (`curves.py`); corner: what methods did at the hinge on a sample
    (`trials.py`); measured: what was timed instead of being computed,
    by algorithm or as "pass gradient" and "pass curvature"; spent: seconds of a pass that was made
    and is of use only to plans that begin by the curvature; gpu: whether the rows are on one;
    room: bytes that a plan may take beside the rows;
    shown: what batches of the same call showed (`trials.py`).
    """

    task: LinearTask
    options: LinearOptions
    seen: Statistics
    threads: int
    measured: Mapping[str, Measured] = field(default_factory=dict)
    length: float | None = None
    spread: float | None = None
    spread_with_l2: float | None = None
    rarer: float | None = None
    sketch: Sketch | None = None
    corner: Mapping[Method, AtCorner] = field(default_factory=dict)
    spent: float = 0.0
    gpu: bool = False
    room: float = math.inf
    shown: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def penalised(self) -> bool:
        """Returns whether large weights cost."""
        return self.options.l1 > 0 or self.options.l2 > 0

    @property
    def rows_of_one(self) -> float:
        """Rows of a group, in the mean; at least 1."""
        return max(self.seen.rows / max(self.seen.groups, 1), 1.0)

    @property
    def wide(self) -> bool:
        """Returns whether sparse rows are fewer than their features."""
        return self.seen.sparse and self.seen.n_features > self.rows_of_one
