"""Steps per row or per batch, by one thread or by several without locks.

Source: Robbins and Monro, A stochastic approximation method, 1951. `parts/epochs.py` has the
operators.

In variance-reduced gradient descent, `svrg`, an iteration is a full gradient and an epoch. Source:
Johnson and Zhang, Accelerating stochastic gradient descent using predictive variance reduction,
NIPS 2013. Within an epoch the step is constant, so convergence is linear; between epochs it grows
until one does not lower the objective, is taken back, and halves it.
"""

from collections.abc import Callable

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms.parts.algorithm import Beside, Streams
from tuskml.learners.linear.algorithms.parts.batch import Evaluate
from tuskml.learners.linear.algorithms.parts.epochs import (
    TINY_STEP,
    EpochAlgorithm,
    StageEpochs,
    epoch_of,
)
from tuskml.learners.linear.operators import Operators, State, on_all_rows
from tuskml.learners.linear.planner.cost import Costs
from tuskml.learners.linear.planner.curves import Interval, Question, Sketch, Statistics
from tuskml.learners.linear.planner.iterations import Usual, by_decade, few_rows
from tuskml.learners.linear.problem import Found, Index, Problem
from tuskml.learners.linear.request import Plan


class Sgd(EpochAlgorithm):
    """Source: Bottou, Stochastic gradient descent tricks, 2012."""

    name = one_thread = "sgd"
    title = "stochastic gradient descent, a step per row"
    source = "Bottou 2012"
    stored = multinomial = True
    streams = Streams.BY_SAMPLER


class Mgd(EpochAlgorithm):
    name = one_thread = "mgd"
    title = "mini-batch gradient descent, a step per batch"
    source = "Kaoudi, Quiane-Ruiz, Thirumuruganathan, Chawla and Agrawal 2017"
    batch_size = 32
    batched = True
    own_losses = True
    samples = True
    stored = multinomial = True
    streams = Streams.UNASKED
    of_sgd = 1.15


class Hogwild(EpochAlgorithm):
    """Source: Niu, Recht, Re and Wright, HOGWILD!: a lock-free approach to parallelizing
    stochastic gradient descent, NIPS 2011.
    """

    name = "hogwild"
    title = "steps per row by threads that share a model without locks"
    source = "Niu, Recht, Re and Wright 2011"
    one_thread = Sgd.one_thread
    lock_free = True
    stored = True
    of_sgd = 1.05


class Hogbatch(EpochAlgorithm):
    """Source: Sallinen, Satish, Smelyanskiy, Sury and Re, High performance parallel stochastic
    gradient descent in shared memory, IPDPS 2016.
    """

    name = "hogbatch"
    title = "steps per batch by threads that share a model without locks"
    source = "Sallinen, Satish, Smelyanskiy, Sury and Re 2016"
    one_thread = Mgd.one_thread
    lock_free = True
    batch_size = Mgd.batch_size
    batched = True
    stored = stored_by_default = True
    of_sgd = 1.2


SGD, MGD, HOGWILD, HOGBATCH = Sgd(), Mgd(), Hogwild(), Hogbatch()


GROW = 1.1
"""The step's growth after an epoch that lowered the objective."""


class Anchor:
    """Compute: the full gradient at the anchor; falls back to the last one that was better."""

    def __init__(self) -> None:
        self.evaluate = Evaluate()
        self.best: Floats | None = None  # objectives by group
        self.best_v = np.empty((0, 0))

    def __call__(self, part: Problem, state: State) -> Found:
        found = self.evaluate(part, state)
        if self.best is None:
            self.best, self.best_v = np.full(len(state.v), np.inf), state.v.copy()
            return found
        active = state.active
        worse = ~(found.objective <= self.best[active] + found.slack)
        state.rejected[active] = worse
        state.step[active[~worse]] *= GROW
        if worse.any():
            back = active[worse]
            state.step[back] *= 0.5
            state.v[back] = self.best_v[back]
            known = part.of(np.flatnonzero(worse)).evaluate(state.v[back])
            found.put(np.flatnonzero(worse), known)
        return found

    def note(self, active: Index, found: Found, v: Floats) -> None:
        """Keeps the anchors (n, p) of the active groups, which no epoch has left yet."""
        assert self.best is not None
        self.best[active] = np.minimum(self.best[active], found.objective)
        self.best_v[active] = v


class AnchoredEpoch:
    """Update: one epoch of variance-reduced steps from the anchor."""

    def __init__(self, plan: Plan, anchors: Anchor) -> None:
        self.plan, self.anchors = plan, anchors

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active = state.active
        anchor = state.v[active]
        self.anchors.note(active, found, anchor)
        full = found.gradient.copy()
        if part.l2:
            full[:, :-1] -= part.l2 * part.scale**2 * anchor[:, :-1]
        v, mean = anchor.copy(), np.empty_like(anchor)
        epoch = epoch_of(part, self.plan, state.step[active], 0.0)
        part.rows.svrg(epoch, anchor, full, v, mean)
        bad = ~np.isfinite(v).all(axis=1)
        v[bad] = anchor[bad]
        state.step[active[bad]] *= 0.25
        state.v[active] = v
        state.known[active] = False


USUAL = Usual(((0.7, 1.5, 2.5, 5), (1.2, 2.8, 5, 12), (4, 20, 80, 300)))
CORNERED = ((6, 9, 12, 40), (15, 25, 35, 120), (60, 100, 140, 480))
"""Epochs at the hinge, for any rows: of 69 trainings that converged, of all sets of
`scripts/bench/planner/truth_*.py` except those of `truth_once.py`, 66 took a quarter to four times
as many.
"""
SPARSE = 2.5
"""Times more epochs where features are rare."""


FLOW, FLOW_POWER, OF_CLASSES = 33.0, 0.25, 0.68
"""Epochs per unit of the flow's length, the power of the rows, and the factor for classes; fitted
to half of the sets of `scripts/bench/planner/truth_data.py`.
"""


def by_flow(question: Question, sketch: Sketch, tolerance: float) -> Interval:
    """Epochs from the length of the gradient flow, in the steps that an epoch's rows make.

    A step is at most about one over the mean squared length of a row, the curvature's trace.
    """
    trace = float(sketch.spectrum[0].sum())
    steps = sketch.flow(tolerance) * trace / question.rows_of_one
    point = FLOW * steps**FLOW_POWER * (OF_CLASSES if question.task.classifies else 1.0) - 1
    return Interval.around(point / 3, max(point, 1.0), max(3 * point, 3.0))


class Svrg(EpochAlgorithm):
    name = one_thread = "svrg"
    title = "stochastic variance-reduced gradient descent"
    source = "Johnson and Zhang 2013"
    noisy = False
    by_parts = False
    max_iter = 100
    batch_size = 32
    batched = True
    stepped = False
    counts_features = True
    beside = Beside(0.2, 0.6, 4.0)

    def operators(
        self, problem: Problem, plan: Plan, start: Floats, deadline: float | None
    ) -> Operators:
        anchors = Anchor()
        return on_all_rows(
            problem,
            plan,
            deadline,
            StageEpochs(plan, start),
            anchors,
            AnchoredEpoch(plan, anchors),
        )

    def default_schedule(self, seen: Statistics) -> str:
        """A constant step, since the variance vanishes."""
        return "constant"

    def measuring_seconds(self, costs: Costs, plan: Plan) -> float:
        return costs.rows_pass("gradient")

    @property
    def trial_epoch(self) -> str:
        return MGD.one_thread

    def usual(self, question: Question, k: float) -> Interval:
        if question.sketch is not None and question.task.smooth:
            return by_flow(question, question.sketch, 10**-k)
        if not question.task.smooth:
            return by_decade(CORNERED, k)
        more = SPARSE if question.seen.sparse else few_rows(question, k)
        return USUAL.iterations(question, k).scale(more)

    def one_epoch(self, problem: Problem, plan: Plan, v: Floats) -> Callable[[], object]:
        epoch = epoch_of(problem, plan, np.full(1, TINY_STEP), 0.0)
        return lambda: problem.rows.svrg(epoch, v, v, v.copy(), np.empty_like(v))


ALGORITHM = Svrg()
