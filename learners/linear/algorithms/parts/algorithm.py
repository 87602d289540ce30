"""The descriptor of an algorithm.

An algorithm is a file of this folder with one descriptor, and a line in `__init__.py`. Options,
the rule, candidates, their costs, explanations and the manual read the descriptors.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.kernels.speculated import Method
from tuskml.learners.linear.operators import Operators
from tuskml.learners.linear.planner.cost import TYPICAL, VECTORS, Cost, Costs
from tuskml.learners.linear.planner.curves import Interval, Question, Statistics
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions, Plan
from tuskml.learners.linear.tasks import LinearTask

EPOCHS = 20
"""Iterations at most, unless an algorithm or the caller says otherwise."""
VECTOR_WIDTHS = (8, 1024, 1 << 16, 1 << 19)
"""Weights at which a step's work on vectors of them is timed."""
LEAST = 1e-12
"""Seconds that something takes at least."""


class Unfit(NamedTuple):
    """An option that keeps an algorithm from training, and why."""

    option: str
    why: str


class Beside(NamedTuple):
    """Iterations for one of the rule's last choice, where only that was tried."""

    low: float
    point: float
    high: float


class Streams(Enum):
    """Whether an algorithm can train on rows that are read by row group.

    BY_SAMPLER: only if the sampler alone is named; UNASKED: also if no option is named.
    """

    NO = 0
    BY_SAMPLER = 1
    UNASKED = 2


class Algorithm(ABC):
    """A descriptor of an algorithm: its properties, requirements and costs.

    name: the value of the option `algorithm`; title and source: its name and paper, for the
    manual. `first_choice` and `last_choice` are the rule's.
    """

    name: str
    title: str
    source: str

    first_choice = False
    last_choice = False

    # Properties of the iterations.
    stochastic = False
    """An iteration is an epoch of steps."""
    noisy = False
    """Its iterates do not converge to a point."""
    lock_free = False
    """Threads share a model without locks."""
    proves_gap = False
    """It knows a bound below the objective."""
    speeds_up = False
    """Its convergence is superlinear near the optimum."""
    smooths_corners = False
    """It needs a gradient that is continuous."""
    resumes = True
    """It continues from any weights as if they were its own."""
    begins_by_curvature = False
    """Its first pass is for the curvature, where losses are smooth."""
    counts_features = False
    """It counts how often sparse features occur."""

    # Its options: defaults, and those that a model shows.
    max_iter = EPOCHS
    """For a smoothed hinge, five times as many."""
    batch_size = 1
    line_search = False
    """It has that schedule, by default."""
    batched = False
    """The model's `plan` shows the size of batches."""
    stepped = False
    """The model's `plan` shows the schedule."""
    sets_steps = True
    """The model's `options` show step, schedule and batch_size."""

    # Problems that it can train.
    own_losses = True
    """Custom losses; others are compiled into its kernels."""
    multinomial = False
    """More than two classes."""
    on_gpu = True
    """The GPU has kernels for it."""
    samples = False
    """Its steps accept a custom sampler."""
    stored = False
    """Models in a store."""
    stored_by_default = False
    """It is the default for models in a store."""
    streams = Streams.NO
    by_parts = False
    """Rows may lie in parts: it needs sums over them alone, or visits one part after another."""

    # Costs.
    vectors = VECTORS
    """Vectors of weights that it keeps."""
    row_bytes = 0
    """Kept for each row."""
    looks_at_length = False
    """Its iterations depend on the length of rows."""
    beside: Beside | None = None
    """Its iterations relative to those of the last choice."""
    lighter: float | None = None
    """The largest ratio of its iteration's cost to the last choice's that is worth a trial."""
    calibrated = False
    """A calibration times its epoch."""
    step_widths: tuple[int, ...] = ()
    """Weights at which a calibration times its steps, on rows of this storage."""
    step_storage = "sparse float64"

    @abstractmethod
    def operators(
        self, problem: Problem, plan: Plan, start: Floats, deadline: float | None
    ) -> Operators:
        """The algorithm as a choice of the seven operators.

        start: weights (G, p) in the coordinates of the problem; deadline: of `time.monotonic()`.
        """

    @abstractmethod
    def cost(
        self, costs: Costs, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0
    ) -> Cost:
        """Seconds and bytes of a plan; an iteration's cost is averaged over about `iterations` of
        them.
        """

    def scale(self, problem: Problem, diagonal: Floats) -> tuple[Method, Floats] | None:
        """The factors of one group's weights, (p,), that precondition sparse rows.

        Returned with the method that runs on a sketch for it (`planner/curves.py`); None without
        one. diagonal: of the curvature at the start, (p,).
        """
        return None

    @abstractmethod
    def usual(self, question: Question, k: float) -> Interval:
        """Iterations to a tolerance k decades below 1, without a trial."""

    def most_iterations(self, task: LinearTask) -> int:
        """The default of the option `max_iter`, where corners are not smoothed."""
        return self.max_iter

    def memory(self, costs: Costs) -> float:
        """Bytes in addition to the rows."""
        return costs.memory(self.vectors, self.row_bytes)

    def default_schedule(self, seen: Statistics) -> str:
        """The default schedule of the step.

        Sparse rows that are fewer than their features have a constant step: most weights are
        updated by few rows, and would not converge with smaller steps.
        """
        if self.line_search:
            return "line_search"
        wide = seen.sparse and seen.n_features > seen.most_rows
        return "constant" if wide else "1/sqrt(i)"

    def starts_on_sample(self, task: LinearTask | None) -> bool:
        """Returns whether a few iterations on a sample of many rows come first."""
        return False

    def first_on_sample(self, whole: float, enough: bool) -> float | None:
        """Iterations on the sample, out of `whole`, if a rough tolerance does not give them.

        enough: the sample's optimum is within the tolerance on all rows.
        """
        return None

    def smooths(self, task: LinearTask, options: LinearOptions | None = None) -> bool:
        """Returns whether it smooths the corner of a task's loss."""
        return self.smooths_corners

    def smooths_on_gpu(self, task: LinearTask) -> bool:
        """Returns whether the corner of a task is smoothed on a GPU alone."""
        return False

    def refusal(self, task: LinearTask) -> str | None:
        """The reason why it cannot train a task; None where it can."""
        if task.own is not None and not self.own_losses:
            return "its steps are compiled for tuskml's own tasks"
        if task.general and self.stochastic and not self.own_losses:
            return "its steps are compiled for other losses"
        return None

    def unfit(self, options: LinearOptions, task: LinearTask | None = None) -> Unfit | None:
        """An option that keeps it from training; None where none does.

        task: None where any is meant.
        """
        return None

    def why_not(self, question: Question, memory: float) -> str | None:
        """The reason why a possible algorithm is no candidate; memory: bytes it would take."""
        return None

    def one_epoch(self, problem: Problem, plan: Plan, v: Floats) -> Callable[[], object]:
        """An iteration's pass over the rows, to be timed where `calibrated`; v: weights (1, p)."""
        raise NotImplementedError

    def steps(self, times: list[float]) -> dict[str, float]:
        """Seconds of an iteration's work on weights, by the calibration's names.

        times: of one iteration after the other, where rows take no time.
        """
        return {self.name: float(np.median(times))}
