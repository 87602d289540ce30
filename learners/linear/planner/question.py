"""The planner's inputs: statistics of the rows, a sketch of them, options and memory."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tuskml.kernels.speculated import Method
from tuskml.learners.linear.planner.curves import Sketch
from tuskml.learners.linear.request import LinearOptions
from tuskml.learners.linear.tasks import LinearTask

# Data shared by all candidate plans of one training.


@dataclass(frozen=True)
class Statistics:
    """Statistics of a batch of groups with the same number of features.

    most_rows: of the largest group, as a power of two; the others, for cost estimates, are 0 where
    not counted: rows and entries (values of the features) of all groups. on_disk: bytes of spilled
    rows that a pass has to read.
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
        """The storage of the rows, as in `tuskml.kernels.passes.KINDS`."""
        return f"{'sparse' if self.sparse else 'dense'} float{64 if self.double else 32}"


@dataclass(frozen=True)
class Measured:
    """Measured seconds of custom code on all rows: before and in an iteration, or a pass.

    failure: why it could not be measured.
    """

    setup: float
    iteration: float
    failure: str | None


@dataclass(frozen=True)
class AtCorner:
    """Iterations of a method at the hinge, from a sample of the rows.

    ended: whether it converged, else it takes more; unsure: the uncertainty factor; whole: whether
    that was to the requested tolerance.
    """

    iterations: float
    ended: bool
    unsure: float = 2.0
    whole: bool = False


@dataclass(frozen=True)
class Question:
    """Data shared by all candidates of one training.

    length: mean squared length of the centred rows, and spread: of dense features' variances
    (`iterations.py`), if known; spread_with_l2: including the penalty; rarer: the rarer class's
    share of the rows, at the hinge; sketch: a model of the objective (`curves.py`); corner:
    results of methods at the hinge on a sample (`trials.py`); measured: timings that replace
    estimates, by algorithm or as "pass gradient" and "pass curvature"; spent: seconds of a
    completed pass that only plans starting with the curvature use; gpu: whether the rows are on
    one; room: bytes that a plan may take in addition to the rows; shown: results of batches of the
    same call (`trials.py`).
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
