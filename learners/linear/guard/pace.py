"""How far a stage of a linear training is, by its errors, for the host's list of trainings."""

import time
from dataclasses import dataclass, field, replace

from tuskml.kernels.rows.meter import Meter
from tuskml.learners import events
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.estimates.costs import LOSS_ALONE
from tuskml.learners.linear.guard.progress import Point, iterations_left
from tuskml.learners.linear.operators import Loop, Operators, State
from tuskml.learners.linear.plan import Plan
from tuskml.learners.linear.problem import Problem
from tuskml.schedule import devices

FEWEST = 3
"""Errors that tell something."""


@dataclass
class Telling:
    """Loop: as the inner one, telling how far the stage is; before: iterations of earlier ones."""

    inner: Loop
    problem: Problem
    plan: Plan
    pace: events.Pace
    meter: Meter
    before: int
    points: list[Point] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def __call__(self, state: State) -> bool:
        if state.running.any() and self.pace.is_due():
            self.points.append((state.iteration, float(state.violation[state.active].max())))
            self.tell(state)
        return self.inner(state)

    def tell(self, state: State) -> None:
        """TurnError with the weights, where the training loses its turn at the GPU, or gets it."""
        part = self.part(state)
        try:
            self.pace.tell(part, self.passes(state))
            if devices.hopes():
                devices.look(self.seconds_left(state, part))
        except devices.TurnError as turn:
            turn.weights = self.problem.to_caller(state.v)
            turn.iterations = self.before + state.iteration
            raise

    def seconds_left(self, state: State, part: float) -> float:
        """At the pace of this stage; 0 where nothing tells. part: of the work that is done."""
        if not (state.iteration and part > 0):
            return 0.0
        each = (time.monotonic() - self.began) / state.iteration
        return each * (self.before + state.iteration) * (1 - part) / part

    def part(self, state: State) -> float:
        """Of the iterations that the stage is expected to take, how many were made."""
        made = self.before + state.iteration
        if self.plan.epsilon == 0:
            return made / self.plan.max_iter
        if state.iteration and len(self.points) >= FEWEST:
            goal = self.plan.epsilon
            return made / (made + min(iterations_left(self.points, goal), self.plan.max_iter))
        expected = self.plan.max_iter if self.plan.estimated is None else self.plan.estimated[0]
        return made / max(expected, made + 1)

    def passes(self, state: State) -> float:
        """Over all rows, at least one an iteration: some kernels make several and count none."""
        iterations = float(self.before + state.iteration)
        if ALGORITHMS[self.plan.family].stochastic:
            return iterations
        made = self.meter
        counted = made.gradients + LOSS_ALONE * made.losses + made.curvatures + made.products
        return max(iterations, counted)


def telling(operators: Operators, problem: Problem, plan: Plan, before: int) -> Operators:
    """The same operators on a problem, whose rows have a meter, after so many iterations."""
    rows, meter = problem.rows, problem.rows.meter
    if rows.stride > 1 or meter is None:
        return operators
    pace = events.Pace(problem.n_groups, int(rows.groups["n_rows"].sum()))
    return replace(operators, loop=Telling(operators.loop, problem, plan, pace, meter, before))
