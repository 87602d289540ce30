"""The seven operators of gradient descent, and the loop that runs them.

After Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017, section
4: Transform, Stage, Sample, Compute, Update, Converge, Loop. An algorithm is a choice of one
implementation each. Operators process all groups of a batch at once: arrays have the groups first,
and finished groups drop out of `state.active`.

One difference to the paper's order: Converge tests the result of Compute before Update moves on,
so the result of a group is always a point whose optimality was measured.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Floats, Triangles
from tuskml.learners.linear.problem import Found, Index, Problem, room_for
from tuskml.learners.linear.request import Plan

Bools = NDArray[np.bool_]
LEAST_SIZE = 1e-12
"""Share of the first objective: the unit for changes of a smaller one."""


@dataclass
class State:
    """The state of each of G groups.

    v: weights (G, p) in coordinates of z; objective and violation (G,) at v where known (G,) is
    true; running (G,): still moving; history: objectives (G,) by iteration, NaN while a group was
    inactive. found: what is known at v of the active groups already; current (G, p): the last
    iterate, where v is a mean of iterates; step (G,): of stochastic steps; below (G,): a number
    that no objective is below; line (G, 2): where nothing penalises, that number at weights of no
    length, and how it falls with their length; rejected (G,): whether the last move was taken
    back; diverged (G,): whether steps led above the start, where the weights are again; stopped
    (G,): whether held-out rows ended it; gaps_seen: iterations at which a duality gap was looked
    at, and the largest one that was found. hessian: the curvature, packed, at v but where stale
    (G,), of products in double where precise (G,). own: what one algorithm alone keeps; enough:
    whether it takes too long, by the products with the curvature in all and the errors of the
    system that is being solved; memory: what the user's own operators keep. most (G,): iterations
    that each may make, None: as many as the loop allows; tired (G,): whether it has made them all.
    """

    v: Floats
    objective: Floats
    violation: Floats
    known: Bools
    running: Bools
    converged: Bools
    iterations: NDArray[np.int64]
    iteration: int = 0
    history: list[Floats] = field(default_factory=list)
    out_of_time: bool = False
    found: Found | None = None
    current: Floats | None = None
    step: Floats = field(init=False)
    below: Floats = field(init=False)
    line: Floats | None = None
    rejected: Bools = field(init=False)
    diverged: Bools = field(init=False)
    stopped: Bools = field(init=False)
    gaps_seen: list[tuple[int, float]] = field(default_factory=list)
    hessian: Triangles | None = None
    stale: Bools = field(init=False)
    precise: Bools = field(init=False)
    own: Any = None
    enough: Callable[[int, list[float]], bool] | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    most: NDArray[np.int64] | None = None
    tired: Bools = field(init=False)

    def __post_init__(self) -> None:
        n = len(self.v)
        self.tired = np.zeros(n, bool)
        self.step, self.below = np.ones(n), np.zeros(n)
        self.rejected, self.stopped = np.zeros(n, bool), np.zeros(n, bool)
        self.diverged = np.zeros(n, bool)
        self.stale, self.precise = np.zeros(n, bool), np.zeros(n, bool)

    @classmethod
    def at(cls, v: Floats) -> "State":
        n = len(v)
        return cls(
            v.copy(),
            np.full(n, np.nan),
            np.full(n, np.inf),
            np.zeros(n, bool),
            np.ones(n, bool),
            np.zeros(n, bool),
            np.zeros(n, np.int64),
        )

    @property
    def active(self) -> Index:
        """The groups that still move."""
        return self.running.nonzero()[0]

    def left(self) -> NDArray[np.int64]:
        """The iterations that each group has left, (G,)."""
        if self.most is None:
            return np.full(len(self.v), np.iinfo(np.int64).max)
        return self.most - self.iterations

    def ends_next(self, most: int) -> Bools:
        """Tests which of the active groups make their last iteration now; most: the iterations of
        all, where a group has none of its own.
        """
        last = self.left()[self.active] == 1
        return np.asarray(last if self.most is not None else last | (self.iteration + 1 >= most))

    def put(self, which: Index, ended: "State") -> None:
        """Takes over where a later descent of some groups ended; its iterations are added."""
        for name in PER_GROUP:
            getattr(self, name)[which] = getattr(ended, name)
        self.iterations[which] += ended.iterations
        self.iteration = max(self.iteration, ended.iteration)
        self.out_of_time |= ended.out_of_time
        self.current = self.found = None  # of the descent before
        if ended.hessian is None:
            self.stale[which] = True
        else:
            if self.hessian is None:
                self.hessian = room_for(ended.hessian, len(self.v))
                self.stale[:] = True
                self.stale[which] = ended.stale
            self.hessian[which] = ended.hessian
        for number, objective in enumerate(ended.history):
            if number == len(self.history):
                self.history.append(np.full(len(self.v), np.nan))
            self.history[number][which] = objective
        for entry in self.history[len(ended.history) :]:
            entry[which] = np.nan


PER_GROUP = (
    *("v", "objective", "violation", "known", "running", "converged", "step", "below"),
    *("rejected", "diverged", "stopped", "stale", "precise"),
)
"""What `State.put` takes over as it is."""
Transform = Callable[[Problem], Problem]
"""Puts a batch into the coordinates that the algorithm works in."""
Stage = Callable[[Problem], State]
"""The starting point and whatever the first iteration requires."""
Sample = Callable[[Problem, State], Problem]
"""The rows of the active groups that this iteration reads."""
Compute = Callable[[Problem, State], Found | None]
"""The rows' sums at the current weights; None when an iteration does not need them."""
Update = Callable[[Problem, State, Found | None], None]
"""Moves the weights of the active groups; found has their results alone, in their order."""
Converge = Callable[[State, Index, Found | None], NDArray[np.bool_]]
"""Tests which of the active groups are done."""
Loop = Callable[[State], bool]
"""Decides whether to continue."""


@dataclass(frozen=True)
class Operators:
    """One implementation of each operator: an algorithm."""

    transform: Transform
    stage: Stage
    sample: Sample
    compute: Compute
    update: Update
    converge: Converge
    loop: Loop


Monitor = Callable[[Problem, State], None]


def run(
    problem: Problem,
    operators: Operators,
    monitor: Monitor | None = None,
    most: NDArray[np.int64] | None = None,
) -> State:
    """Trains all groups of the batch; returns where each ended.

    most: as in `State`.
    """
    problem = operators.transform(problem)
    state = operators.stage(problem)
    state.most = most
    try:
        loop(problem, state, operators, monitor)
    except OutOfTime:  # within a pass or a system: the weights are those before it
        state.out_of_time = True
    state.running |= state.tired
    return state


def loop(problem: Problem, state: State, operators: Operators, monitor: Monitor | None) -> None:
    """Iterations until the operators say that it is enough. Raises OutOfTime."""
    for _ in steps(problem, state, operators, monitor):
        pass


def steps(
    problem: Problem, state: State, operators: Operators, monitor: Monitor | None
) -> Iterator[None]:
    """Runs the loop with a stop before each Update, so that its data can be prepared."""
    while True:
        part = operators.sample(problem, state)
        found = operators.compute(part, state)
        note(state, found)
        found = settle(state, operators.converge(state, state.active, found), found)
        if monitor is not None:
            found = show_state(problem, state, found, monitor)
        found = rest(state, found)
        if not operators.loop(state):
            return
        yield
        active = state.active
        part = operators.sample(problem, state)
        operators.update(part, state, found)
        state.iterations[active] += 1
        state.iteration += 1


def show_state(
    problem: Problem, state: State, found: Found | None, monitor: Monitor
) -> Found | None:
    """Shows the state to the monitor, which may stop groups; returns the results of the others."""
    before = state.active
    monitor(problem, state)
    after = state.active
    if found is None or len(after) == len(before):
        return found
    return found.of(np.isin(before, after))


def rest(state: State, found: Found | None) -> Found | None:
    """Stops groups that have made all of their iterations, so that no neighbour gives them more;
    returns the results of the others.
    """
    active = state.active
    going = state.left()[active] > 0
    if going.all():
        return found
    state.tired[active[~going]] = True
    state.running[active[~going]] = False
    return None if found is None else found.of(going)


def note(state: State, found: Found | None) -> None:
    """Records the results at the weights of the active groups."""
    active = state.active
    if found is None or not len(active):
        return
    state.objective[active] = found.objective
    state.violation[active] = found.violation
    state.known[active] = True
    if found.hessian is not None:
        if state.hessian is None:
            state.hessian = room_for(found.hessian, len(state.v))
        state.hessian[active] = found.hessian
    entry = np.full(len(state.v), np.nan)
    entry[active] = found.objective
    state.history.append(entry)


def settle(state: State, done: NDArray[np.bool_], found: Found | None) -> Found | None:
    """Removes finished groups from the active ones; returns the results of the rest."""
    if not done.any():
        return found
    active = state.active
    state.converged[active[done]] = True
    state.running[active[done]] = False
    return None if found is None else found.of(~done)


def as_given(problem: Problem) -> Problem:
    """Transform: rows were described when the problem was made; kernels transform them lazily."""
    return problem


def all_rows(problem: Problem, state: State) -> Problem:
    """Sample: every row of the active groups."""
    return problem.of(state.active)


@dataclass(frozen=True)
class StartAt:
    """Stage: weights v (G, p)."""

    v: Floats

    def __call__(self, problem: Problem) -> State:
        return State.at(self.v)


@dataclass
class Tolerance:
    """Converge: the criterion fell to epsilon; never when epsilon is 0.

    unit (G,): the unit of changes of the weights, None: 1. The objective's are relative to its
    size, or to a trillionth of the first objective if it falls to nothing.
    """

    criterion: str
    epsilon: float
    unit: Floats | None = None
    first: Floats | None = None
    before: Floats | None = None
    before_v: Floats | None = None

    def __call__(self, state: State, active: Index, found: Found | None) -> NDArray[np.bool_]:
        measured = None if self.epsilon == 0 else self.measure(state, active, found)
        if measured is None:
            return np.zeros(len(active), bool)
        return np.asarray(measured <= self.epsilon)

    @classmethod
    def of(cls, problem: Problem, plan: Plan) -> "Tolerance":
        """The plan's, in the units of the problem."""
        return cls(plan.converge, plan.epsilon, problem.weight_unit)

    def measure(self, state: State, active: Index, found: Found | None) -> Floats | None:
        """The criterion by active group; None where nothing was computed."""
        if found is None:
            return None
        return found.violation if self.criterion == "gradient" else self._change(state, active)

    def _change(self, state: State, active: Index) -> Floats:
        """The change of the weights, or of the objective relative to its size."""
        if self.before is None or self.before_v is None:
            self.before, self.before_v = state.objective.copy(), state.v.copy()
            self.first = LEAST_SIZE * np.abs(self.before)
            return np.full(len(active), np.inf)
        if self.criterion == "weights":
            change = np.abs(state.v[active] - self.before_v[active]).max(axis=1)
            change = change if self.unit is None else change / self.unit[active]
        else:
            assert self.first is not None
            size = np.maximum(np.abs(state.objective[active]), self.first[active])
            change = np.abs(state.objective[active] - self.before[active])
            change = np.divide(change, size, where=change > 0, out=np.zeros_like(change))
        self.before, self.before_v = state.objective.copy(), state.v.copy()
        # An epoch that was taken back changed nothing.
        return np.where(state.rejected[active], np.inf, change)


@dataclass(frozen=True)
class Budget:
    """Loop: until no group moves, max_iter iterations are done, or the deadline has passed."""

    max_iter: int
    deadline: float | None = None

    def __call__(self, state: State) -> bool:
        if state.iteration >= self.max_iter or not state.running.any():
            return False
        if self.deadline is not None and time.monotonic() >= self.deadline:
            state.out_of_time = True
            return False
        return True


def on_all_rows(
    problem: Problem,
    plan: Plan,
    deadline: float | None,
    stage: Stage,
    compute: Compute,
    update: Update,
    converge: Converge | None = None,
) -> Operators:
    """The operators of an algorithm that reads every row, by default to the plan's tolerance.

    deadline: of `time.monotonic()`.
    """
    return Operators(
        as_given,
        stage,
        all_rows,
        compute,
        update,
        converge or Tolerance.of(problem, plan),
        Budget(plan.max_iter, deadline),
    )
