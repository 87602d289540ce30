"""Stochastic variance-reduced gradient descent: an iteration is a full gradient and an epoch.

Johnson and Zhang, Accelerating stochastic gradient descent using predictive variance reduction,
NIPS 2013. Within an epoch the step is constant, so convergence is linear; between epochs it grows
until one does not lower the objective, is taken back, and halves it.
"""

import numpy as np

from tuskml.udas.algorithms.batch import Evaluate
from tuskml.udas.algorithms.sgd import StageEpochs, epoch_of
from tuskml.udas.kernels import Floats
from tuskml.udas.operators import Budget, Operators, State, Tolerance, all_rows, as_given
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Found, Problem

GROW = 1.1
"""Of the step, after an epoch that lowered the objective."""


class Anchor:
    """Compute: the full gradient at the anchor; falls back to the last one that was better."""

    def __init__(self) -> None:
        self.evaluate = Evaluate()

    def __call__(self, part: Problem, state: State) -> Found:
        found = self.evaluate(part, state)
        if "best" not in state.memory:
            state.memory["best"] = np.full(len(state.v), np.inf)
            state.memory["best_v"] = state.v.copy()
            return found
        active = state.active
        best = state.memory["best"][active]
        rejected = state.memory.setdefault("rejected", np.zeros(len(state.v), bool))
        worse = ~(found.objective <= best + found.slack)
        rejected[active] = worse
        state.memory["step"][active[~worse]] *= GROW
        if worse.any():
            back = active[worse]
            state.memory["step"][back] *= 0.5
            state.v[back] = state.memory["best_v"][back]
            known = part.of(np.flatnonzero(worse)).evaluate(state.v[back])
            found.put(np.flatnonzero(worse), known)
        return found


class AnchoredEpoch:
    """Update: one epoch of variance-reduced steps from the anchor."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        assert found is not None
        active = state.active
        anchor = state.v[active]
        state.memory["best"][active] = np.minimum(state.memory["best"][active], found.objective)
        state.memory["best_v"][active] = anchor
        full = found.gradient.copy()
        if part.l2:
            full[:, :-1] -= part.l2 * part.scale**2 * anchor[:, :-1]
        v, mean = anchor.copy(), np.empty_like(anchor)
        epoch = epoch_of(part, self.plan, state.memory["step"][active], 0.0)
        part.rows.svrg(epoch, anchor, full, v, mean)
        bad = ~np.isfinite(v).all(axis=1)
        v[bad] = anchor[bad]
        state.memory["step"][active[bad]] *= 0.25
        state.v[active] = v
        state.known[active] = False


def operators(problem: Problem, plan: Plan, start: Floats, deadline: float | None) -> Operators:
    """SVRG as a choice of operators."""
    return Operators(
        as_given,
        StageEpochs(plan, start),
        all_rows,
        Anchor(),
        AnchoredEpoch(plan),
        Tolerance.of(problem, plan),
        Budget(plan.max_iter, deadline),
    )
