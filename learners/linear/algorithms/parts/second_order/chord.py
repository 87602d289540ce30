"""Newton's method for many small groups that start with a curvature, in one kernel.

Operations on arrays with an item per group and entry of a curvature take longer than reading the
rows of small groups. So each group makes all its passes and steps by itself
(`kernels/native/newton/chord.cpp`), by the same rules. If a group needs more than that, the loop
of operators continues from its weights.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.newton.chord import Arrived, Coordinates, Rules, descend
from tuskml.kernels.passes import Pass, Triangles, counts_all
from tuskml.learners.linear.algorithms.parts.second_order.pairs import LastStep
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Found, Problem

MOST_ROWS = 1 << 14
"""Rows of a group: the passes of larger ones share the threads."""
MOST_FEATURES = 256
MOST_PASSES = 10


@dataclass(frozen=True)
class Steepness:
    """A violation above `far`, one that shrank by less than `slow`, or a lesser pivot asks for
    another curvature.
    """

    far: float
    slow: float
    pivot: float


class Chord:
    """Moves its groups to their optimum, or as close as one curvature suffices."""

    def __init__(self, goal: LastStep, steepness: Steepness) -> None:
        self.goal, self.steepness = goal, steepness

    def __call__(
        self, part: Problem, state: State, hessian: Triangles, known: NDArray[np.bool_]
    ) -> Found | None:
        """The last pass's results; the slack of groups that did not move is NaN.

        known: (G,), which of the groups have a curvature.
        """
        if not fits(part) or not isinstance(hessian, np.ndarray):
            return None
        which = np.flatnonzero(known & (part.rows.groups["n_rows"] <= MOST_ROWS))
        if not len(which):
            return None
        before = part.before
        arrived = descend(
            part.rows,
            which,
            state.v,
            hessian,
            coordinates(part),
            None if before is None else (before.v, before.gradient, before.violation),
            self.rules(),
        )
        self._note(state, arrived)
        seen = arrived.objective, arrived.gradient, arrived.violation, arrived.slack
        return Found(*seen, hessian)

    def rules(self) -> Rules:
        """The rules for ending a group and for returning it to the loop."""
        goal, steep = self.goal, self.steepness
        given = goal.epsilon, goal.enough, steep.far, steep.slow, steep.pivot
        return Rules(*given, MOST_PASSES)

    def _note(self, state: State, arrived: Arrived) -> None:
        """Notes iterations, previous objectives, and the state from which the loop continues."""
        state.iterations += arrived.steps
        looks = (~np.isnan(arrived.history)).sum(axis=0)
        for number in range(int(looks.max(initial=0)) - 1):
            state.history.append(np.where(number < looks - 1, arrived.history[number], np.nan))
        self.goal.ended = arrived.ended
        some = np.flatnonzero((arrived.steps > 0) & ~arrived.ended)
        if len(some):
            update = self.goal.update
            if update.violation is None:
                update.violation = np.full(len(state.v), np.inf)
            update.violation[some] = arrived.last[some]


def fits(part: Problem) -> bool:
    """Returns whether the kernel has such rows and losses."""
    rows = part.rows
    return (
        type(rows) is Pass
        and not rows.sparse
        and rows.open is None
        and not counts_all(rows.meter)
        and rows.stride == 1
        and rows.smoothing == 0
        and not part.task.flat
        and not part.task.quadratic
        and not part.l1
        and part.d <= MOST_FEATURES
    )


def coordinates(part: Problem) -> Coordinates:
    """The coordinates of the problem."""
    units = part.label_size, part.gradient_unit, part.weight_unit
    return Coordinates(part.shift, part.scale, part.l2, *units)
