"""Newton's method for many small groups at once: Compute and Update in one kernel.

Arrays with an item per group and weight are small compared to the rows, but the host takes longer
to process those of 100,000 groups than the GPU takes to read the rows. So an Update makes several
iterations, as an epoch of `sgd` makes several steps: one block for each group, line search
included (`cuda/newton.cu`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.passes import DevicePass, DeviceTriangles
from tuskml.kernels.passes import Floats, raise_if_cancelled
from tuskml.kernels.segments import dense_bytes, value_size
from tuskml.learners.linear.algorithms.parts.batch import settle_move
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Found, Problem
from tuskml.learners.linear.request import Plan

LEAST_GROUPS = 32
"""Fewer leave most of a GPU idle when each has one block."""
MOST_ROWS = 1 << 14
"""Rows of a group, so that one block's iterations take milliseconds."""
AT_ONCE = 8
"""Iterations of a launch: after it the clock and a cancel are looked at."""


AT_ONCE_BYTES = 1 << 36
"""Bytes of rows that a launch reads if no step is halved: tens of milliseconds."""

Launch = Callable[[Problem, Floats, float, int], tuple[Any, Found, Any, Any, Any]]


def operators(problem: Problem, plan: Plan) -> "tuple[LookInPlace, NewtonInPlace] | None":
    """Compute and Update for groups on a device; None for those that are not for this kernel."""
    rows = problem.rows
    if not isinstance(rows, DevicePass) or not fits(rows, problem, plan):
        return None
    at_once = max(1, min(AT_ONCE, AT_ONCE_BYTES // max(1, dense_bytes(rows.groups))))
    return LookInPlace(launch), NewtonInPlace(plan, launch, at_once)


def fits(rows: DevicePass, problem: Problem, plan: Plan) -> bool:
    """Returns whether these groups are for this kernel."""
    return (
        rows.at_hand
        and rows.on_device is not None
        and rows.on_device.resident
        and rows.n_groups >= LEAST_GROUPS
        and rows.n_features <= source.MOST_GROUPED
        and int(rows.groups["n_rows"].max()) <= MOST_ROWS
        and rows.stride == 1
        and problem.task.smooth
        and plan.converge == "gradient"
        and plan.epsilon > 0
    )


class LookInPlace:
    """Compute: the kernel's result without a step, unless the last Update left it.

    The host makes no arrays by group and weight from it, which would take longer than the rows.
    """

    def __init__(self, launch: Launch) -> None:
        self.launch = launch

    def __call__(self, part: Problem, state: State) -> Found:
        kept, state.found = state.found, None
        return kept or self.launch(part, state.v[state.active], 0.0, 0)[1]


class NewtonInPlace:
    """Update: up to `at_once` iterations of each group, until its violation is at most epsilon.

    launch: runs the kernel.
    """

    def __init__(self, plan: Plan, launch: Launch, at_once: int = AT_ONCE) -> None:
        self.max_iter, self.epsilon = plan.max_iter, plan.epsilon
        self.launch, self.at_once = launch, at_once

    def __call__(self, part: Problem, state: State, found: Found | None) -> None:
        active = state.active
        if not len(active):
            return
        left = min(self.max_iter - state.iteration, int(state.left()[active].min()))
        most = min(self.at_once, left)
        v, there, done, stuck, history = self.launch(part, state.v[active], self.epsilon, most)
        longest = int(done.max())
        for i in range(longest - 1):  # the last objective is noted as any other is
            entry = np.full(len(state.v), np.nan)
            further = done > i + 1
            entry[active[further]] = history[further, i]
            state.history.append(entry)
        state.iterations[active] += np.maximum(done + stuck - 1, 0)
        state.iteration += max(longest - 1, 0)
        settle_move(state, v, there, stuck == 0, False)


def launch(part: Problem, v: Any, epsilon: float, most: int) -> tuple[Any, Found, Any, Any, Any]:
    """Runs the kernel from v (G, p).

    Returns the weights, the results there, iterations (G,), whether the last found no better point
    (G,), and objectives by iteration (G, most).
    """
    rows: Any = part.rows
    raise_if_cancelled(rows.cancel_mark)
    device, held, n, p = rows.device, rows.on_device, rows.n_groups, rows.p
    xp, put, host = device.xp, device.to_device, device.to_host
    (place,) = held.visit()
    at, triangle = put(v), p * (p + 1) // 2
    seen, gradient = xp.empty((n, 3), np.float64), xp.empty((n, p), np.float64)
    curvature = xp.empty((n, triangle), np.float64)
    done, stuck = xp.empty(n, np.int64), xp.empty(n, np.int64)
    history = xp.zeros((n, max(most, 1)), np.float64)
    known = part.label_size, part.gradient_unit, part.weight_unit
    units = [None if one is None else put(one) for one in known]
    arguments = [
        place.values, place.labels, put(held.start[:-1][rows.which]),
        put(held.n_rows[rows.which]), held.constant("shift", part.shift),
        held.constant("scale", part.scale), *units,
        *rows.losses_on_device(), np.int32(rows.fit_intercept), np.float64(part.l2),
        np.float64(epsilon), np.int32(most), at, seen, gradient, curvature, done, stuck, history,
    ]  # fmt: skip
    device.launch(source.newton(rows.n_features, value_size(held.kind)), (n, 1), arguments)
    numbers = host(seen)
    found = Found(
        numbers[:, 0].copy(), host(gradient), numbers[:, 1].copy(), numbers[:, 2].copy(),
        DeviceTriangles(device, curvature, p),
    )  # fmt: skip
    return host(at), found, host(done), host(stuck), host(history)
