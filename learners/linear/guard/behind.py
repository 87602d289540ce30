"""Whether a running plan fell so far behind its estimate that another one would take less.

The planner's estimate of iterations is a guess before the first of them. While a plan runs, its
errors tell how many are left: log e falls as fast as in the mean of all iterations and of the last
half of them (the geometric mean of what both say; on the fitted half of the bench's data sets, at
half of the way, nine of ten such guesses were 0.5 to 1.3 times what followed). Once a plan has
taken LOOK times what the next one is expected to take in all, and what is left of it would take
longer than the next one, it is given up. Newton's methods come the nearer the faster, so that
their first errors tell nothing: they are given up when they have taken their own estimate, and the
next plan's. Of conjugate gradients the errors within an iteration tell.

What a plan is given up for has to be known well, or it might be worse.

All is in estimated seconds: iterations that were made, times what the planner expects one to take.
So other work on the machine does not change the plan.
"""

import math
from dataclasses import dataclass, field, replace

from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.operators import Loop, Operators, State
from tuskml.learners.linear.planner.choice import Candidate

LOOK, AGAIN = 0.3, 1.3
"""Of the next plan's seconds, from which on a plan is looked at, and how much later again."""
LEAST_SECONDS = 0.002
"""Before that nothing is looked at."""
SURE = 1.2
"""Times the next plan's seconds, that what is left has to take."""
FEWEST = 8
"""Errors that tell something."""


@dataclass
class Guard:
    """Of one plan of one group: what it was expected to take, and the plan that would be next.

    spent: estimated seconds so far; made: iterations on all rows; errors: the criterion's value by
    iteration of the last stage; given_up: whether the next plan is to go on.
    """

    mine: Candidate
    other: Candidate
    spent: float = 0.0
    made: int = 0
    errors: list[float] = field(default_factory=list)
    given_up: bool = False
    due: float = 0.0
    products_due: float = 0.0

    def __post_init__(self) -> None:
        self.spent = self.mine.cost.setup
        self.due = max(LOOK * self.other.expected, LEAST_SECONDS)

    def watching(self, operators: Operators, on_sample: bool, last: bool) -> Operators:
        """The same operators under guard; last: whether the stage ends at the tolerance."""
        self.errors = []
        tells = last and self.mine.plan.smoothing == (0.0,)
        return replace(operators, loop=Watched(operators.loop, self, on_sample, tells))

    def look(self) -> None:
        """Gives the plan up where what is left of it takes longer than the next one."""
        self.due = AGAIN * self.spent
        self.given_up = self.left() > SURE * self.other.expected

    def left(self) -> float:
        """Seconds that the plan is still expected to take."""
        speeds_up = ALGORITHMS[self.mine.plan.family].speeds_up
        if len(self.errors) > FEWEST and not speeds_up:
            left = iterations_left(self.errors, self.mine.plan.epsilon)
            return left * self.mine.cost.iteration
        expected = self.mine.seconds.point
        if self.spent < expected:
            return expected - self.spent
        return SURE * self.spent  # nothing tells: it may well take as long again

    def enough(self, products: int, errors: list[float]) -> bool:
        """Whether conjugate gradients take too long, after so many products in all.

        errors: of the system that is being solved, by product, in units of the tolerance.
        """
        cost = self.mine.cost
        beyond = cost.product * (products - cost.products)
        if products < self.products_due or beyond < max(LOOK * self.other.expected, LEAST_SECONDS):
            return False
        self.products_due = AGAIN * products
        left = cost.product * iterations_left(errors, 1.0)
        self.given_up = left > SURE * self.other.expected
        return self.given_up


def iterations_left(errors: list[float], epsilon: float) -> float:
    """Until the error is at most epsilon, by how fast the lowest one fell."""
    lowest, logs = math.inf, []
    for error in errors:
        lowest = min(lowest, max(error, 1e-300))
        logs.append(math.log(lowest))
    last = len(logs) - 1
    guesses = []
    for first in (0, last // 2):
        fell = logs[first] - logs[last]
        if fell <= 0:
            return math.inf
        guesses.append((logs[last] - math.log(epsilon)) * (last - first) / fell)
    return math.sqrt(max(guesses[0], 0.0) * max(guesses[1], 0.0))


@dataclass
class Watched:
    """Loop: as the inner one, until the guard gives the plan up.

    on_sample: whether iterations are on a sample; tells: whether errors lead to the tolerance.
    """

    inner: Loop
    guard: Guard
    on_sample: bool
    tells: bool

    def __call__(self, state: State) -> bool:
        guard = self.guard
        state.enough = guard.enough
        if self.tells and state.known.all():
            guard.errors.append(float(state.violation.max()))
        if not self.inner(state):
            return False
        if not self.on_sample and guard.spent >= guard.due:
            guard.look()
        if guard.given_up:
            return False
        cost = guard.mine.cost
        guard.spent += cost.sampled if self.on_sample else cost.iteration
        guard.made += not self.on_sample
        return True
