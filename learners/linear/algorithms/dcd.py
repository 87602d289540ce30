"""Dual coordinate descent for the hinge with an l2 penalty.

Hsieh, Chang, Lin, Keerthi and Sundararajan, A dual coordinate descent method for large-scale
linear SVM, ICML 2008: LIBLINEAR's. An iteration looks at as many coordinates as there are rows,
each the dual variable of one row, in random order; rows whose variable rests at a bound are left
out for a while (shrinking). `native/hinge/dual.cpp` has what makes the intercept, which nothing
penalises, fit in.

The gap between the objective and the dual's bounds the distance to the optimum: an iteration
leaves the best weights that were looked at, and with `converge: gradient` it ends where their
objective is within epsilon / 2 of the least, as where the hinge is smoothed. So what is found as
violation is twice the gap; there is no gradient at the corner of the hinge, and none is given.

A look at the gap takes longer than an epoch over few rows in use. The gap shrinks about as fast as
what an epoch adds to the dual, which epochs tell: while that leaves it far from the tolerance it
is not looked at, for SELDOM epochs at most.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.hinge import Dual
from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms.parts.algorithm import Algorithm, Unfit
from tuskml.learners.linear.operators import Operators, State, on_all_rows
from tuskml.learners.linear.planner.cost import LOSS_ALONE, TYPICAL, Cost, Costs
from tuskml.learners.linear.planner.curves import Interval, Question
from tuskml.learners.linear.planner.iterations import by_decade
from tuskml.learners.linear.problem import ROUNDING, Found, Problem
from tuskml.learners.linear.request import LinearOptions, Plan
from tuskml.learners.linear.tasks import LINEAR, LinearTask

SELDOM = 5
"""Epochs between two looks at the gap."""
FAR = 4.0
"""Times the tolerance that the gap is believed to be where it need not be looked at."""


@dataclass
class DualState:
    """Dual variables of G groups and their primal weights (G, p); the state's `v` has the best of
    these.

    best (G,): the objective of `v`; bound (G,): the lower bound; gap (G,): their difference.
    """

    dual: Dual
    weights: Floats
    best: Floats
    bound: Floats
    gap: Floats


class StageDual:
    """Stage: all dual variables 0, and so the weights; of the start the intercept alone counts."""

    def __init__(self, plan: Plan, start: Floats) -> None:
        self.plan, self.start = plan, start

    def __call__(self, problem: Problem) -> State:
        v = np.zeros_like(self.start)
        v[:, -1] = self.start[:, -1]
        state = State.at(v)
        dual = Dual.of_rows(
            problem.rows,
            problem.shift,
            problem.l2,
            self.plan.epsilon / 2,
            self.plan.seed,
            v[:, -1],
        )
        unknown = np.full(len(v), np.inf)
        state.own = DualState(dual, v.copy(), unknown, -unknown, unknown.copy())
        return state


def dual_state(state: State) -> DualState:
    """The dual state that Stage stored."""
    assert isinstance(state.own, DualState)
    return state.own


def look(part: Problem, state: State) -> Found:
    """The best weights so far of the active groups, left in the state, and the gap there."""
    active, own = state.active, dual_state(state)
    dual, weights = own.dual.of(active), own.weights[active]
    dual.check(part.rows, weights)
    own.dual.groups[active] = dual.groups
    better = dual.groups["objective"] < own.best[active]
    used = part.scale > 0
    v = np.zeros_like(weights)
    np.divide(weights[:, :-1], part.scale, out=v[:, :-1], where=used)
    v[:, -1] = dual.groups["intercept"]
    state.v[active[better]] = v[better]
    own.best[active[better]] = dual.groups["objective"][better]
    own.bound[active] = np.maximum(own.bound[active], dual.groups["bound"])
    objective = own.best[active]
    slack = ROUNDING * np.maximum(np.abs(objective), 1.0)
    gap = np.maximum(objective - own.bound[active] - slack, 0.0)
    own.gap[active] = gap
    return Found(objective, np.full_like(v, np.nan), 2 * gap, slack)


class Gap:
    """Compute: objective and gap, which Update has just evaluated, except the first time."""

    def __call__(self, part: Problem, state: State) -> Found:
        kept, state.found = state.found, None
        return look(part, state) if kept is None else kept


class DualEpoch:
    """Update: as many coordinates as there are rows, and a look at the gap where that is due."""

    def __init__(self, plan: Plan, deadline: float | None) -> None:
        self.plan = plan
        self.deadline = math.inf if deadline is None else deadline
        self.always = plan.canonical or plan.converge != "gradient" or plan.epsilon == 0
        self.unseen = 0
        self.gained: Floats | None = None  # at the last look, by group

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active, own = state.active, dual_state(state)
        dual, weights = own.dual.of(active), own.weights[active]
        dual.epoch(part.rows, weights)
        own.dual.groups[active] = dual.groups
        own.weights[active] = weights
        self.unseen += 1
        if self._due(state, dual.groups["gained"]):
            found = look(part, state)
            self.unseen, self.gained = 0, own.dual.groups["gained"].copy()
        state.found = found

    def _due(self, state: State, gained: Floats) -> bool:
        """Returns whether any group's gap may be within the tolerance, or the training ends
        here.
        """
        last = self.unseen >= SELDOM or bool(state.ends_next(self.plan.max_iter).any())
        if self.always or last or self.gained is None or time.monotonic() >= self.deadline:
            return True
        active = state.active
        before = self.gained[active]
        share = np.divide(gained, before, where=before > 0, out=np.zeros_like(gained))
        near: NDArray[np.bool_] = dual_state(state).gap[active] * share <= FAR * self.plan.epsilon
        return bool(near.any())


USUAL = ((0.4, 0.8, 1.2, 3.5), (0.9, 1.7, 2.7, 7), (1.6, 3, 5.5, 21))
"""Iterations by decade of the tolerance, per unit of growth with the problem's condition."""
ROOTS = 2.5
"""Iterations on dense rows are per unit of condition + ROOTS sqrt(condition), the condition being
the squared length of a row over l2 times the rows.
"""
SPARSE, SPARSE_POWER = 5.4, 1.1
"""Iterations on sparse rows are per unit of the condition to that power. Labels that features
separate well need half as many where it is 10, noisy ones twice as many.
"""
MUCH, OF_MUCH = 10.0, 0.57
"""Beyond so much of it they grow as that power: of the fitted half of the sets of
`scripts/bench/planner/truth_data.py`."""
WORST = 1e100
"""Conditions beyond it, as without a penalty, are this one: its powers are finite."""
WIDE_ROOTS = 4.0
"""Iterations for each root of the condition where rows are fewer than their features: most dual
variables end within their bounds, whatever the penalty."""
SWEEPS_A_DECADE = 0.6
"""The least iterations, for each decade, however well conditioned the problem is."""
SPARED = 0.3
"""The share of the measured seconds that is saved; the measured iterations each evaluate the gap.
"""
VARIABLES = 1e-7
"""Seconds a row, before the first iteration: of its dual variable, and of the first look."""
MOST_BYTES = float(1 << 30)
"""Memory besides rows that are visited in random order: more rows may not all be in memory."""
TIMED_L2 = 1e-4


class Dcd(Algorithm):
    name = "dcd"
    title = "dual coordinate descent, for svm with l2 alone"
    source = "Hsieh, Chang, Lin, Keerthi and Sundararajan 2008"
    max_iter = 1000
    on_gpu = False
    proves_gap = True
    resumes = False
    sets_steps = False
    looks_at_length = True
    calibrated = True
    row_bytes = 80
    """The dual variable of each row, and where the row lies."""

    def operators(
        self, problem: Problem, plan: Plan, start: Floats, deadline: float | None
    ) -> Operators:
        return on_all_rows(
            problem, plan, deadline, StageDual(plan, start), Gap(), DualEpoch(plan, deadline)
        )

    def refusal(self, task: LinearTask) -> str | None:
        return None if task.name == "svm" else "it trains only svm"

    def unfit(self, options: LinearOptions, task: LinearTask | None = None) -> Unfit | None:
        if options.l1 > 0:
            return Unfit("l1", "its dual has no l1")
        if options.l2 == 0:
            return Unfit("l2", "without the penalty there is no dual")
        if options.warm_start is not None:
            return Unfit("warm_start", "a model does not contain its dual variables")
        return None

    def why_not(self, question: Question, memory: float) -> str | None:
        if memory > MOST_BYTES:
            return f"its dual variables would take {memory / 2**20:,.0f} MiB"
        return None

    def cost(
        self, costs: Costs, plan: Plan, iterations: float = TYPICAL, on_sample: float = 0.0
    ) -> Cost:
        """The cost without the evaluations of the gap that later iterations save."""
        gradient = costs.rows_pass("gradient")
        spared = SPARED * (1 - min(SELDOM / max(iterations, 1.0), 1.0))
        epoch = (1 - spared) * costs.rows_pass(self.name, alone=True)
        begin = VARIABLES * costs.question.seen.rows + 2 * LOSS_ALONE * gradient
        return Cost(
            costs.common() + begin,
            epoch + costs.on_weights(),
            LOSS_ALONE * gradient,
            0.0,
            self.memory(costs),
        )

    def usual(self, question: Question, k: float) -> Interval:
        """Iterations from the problem's condition."""
        seen, l2 = question.seen, question.options.l2
        known = question.length is not None
        length = question.length or (1.0 if seen.sparse else float(seen.n_features))
        condition = min(length / max(l2 * question.rows_of_one, 1e-300), WORST)
        found = by_decade(USUAL, k).scale(growth(question, condition))
        unsure = 1.0 if known else 4.0
        point = max(found.point, 1.0 + SWEEPS_A_DECADE * k)
        return Interval.around(found.low / unsure, point, found.high * unsure + 1.0 + k)

    def one_epoch(self, problem: Problem, plan: Plan, v: Floats) -> Callable[[], object]:
        """An iteration with a look at the gap, of the hinge whatever the task."""
        rows = replace(problem.rows, loss=LINEAR["svm"].loss, positive=np.ones(1), smoothing=0.0)
        dual = Dual.of_rows(rows, problem.shift, TIMED_L2, 0.0, 0, np.zeros(1))
        weights = np.zeros((1, rows.p))

        def work() -> None:
            dual.epoch(rows, weights)
            dual.check(rows, weights)

        return work


def growth(question: Question, condition: float) -> float:
    """The factor by which iterations grow with the condition."""
    if question.seen.n_features > question.rows_of_one:
        return WIDE_ROOTS * math.sqrt(condition)
    if question.seen.sparse:
        grown = SPARSE * math.pow(condition, SPARSE_POWER)
        return grown if grown < MUCH else MUCH * (grown / MUCH) ** OF_MUCH
    return condition + ROOTS * math.sqrt(condition)


ALGORITHM = Dcd()
