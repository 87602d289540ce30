"""Counts whose dispersion is not known: it is estimated between descents.

The joint likelihood is maximised by turns, by the weights for a dispersion and by the dispersion
for the weights, until neither moves: both are asymptotically independent, so few turns suffice
(Lawless, Negative binomial and mixed Poisson regression, 1987; Venables and Ripley, Modern applied
statistics with S, 2002, 7.4).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.linear.inference.dispersion import ROUNDS, SETTLED, likeliest
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import LinearOptions

ENOUGH = 1e-3
"""Of epsilon, to which the logarithm of the dispersion settles."""


ROUNDED, SHRINKS = 1e-5, 0.5
"""Change of that logarithm that may be rounding, which it is where it does not shrink so much."""


def estimates_dispersion(problem: Problem, options: LinearOptions) -> bool:
    """Whether the loss has a dispersion that nobody gave."""
    return problem.task.parameter == "dispersion" and options.dispersion is None


def with_dispersion(
    problem: Problem,
    state: State,
    options: LinearOptions,
    again: Callable[[Problem, NDArray[np.float64]], State],
) -> tuple[Problem, State]:
    """The problem with the likeliest dispersion, and where the descent for it ended.

    state: of the descent for the first one; again: descends from weights v (G, p).
    """
    least, last = max(ENOUGH * options.epsilon, SETTLED), np.full(problem.n_groups, np.inf)
    for _ in range(ROUNDS):
        rows = problem.rows
        assert rows.parameter is not None
        before = rows.parameter[:, 0]
        parameter = rows.parameter.copy()
        parameter[:, 0] = likeliest(rows, problem.to_caller(state.v), before)
        change = np.abs(np.log(parameter[:, 0] / before))
        rounded = (change < ROUNDED) & (change > SHRINKS * last)
        moved, last = (change > least) & ~rounded, change
        if not moved.any() or state.out_of_time:
            break
        problem = problem.on(replace(rows, parameter=parameter))
        iterations = state.iterations
        state = again(problem, state.v)
        state.iterations += iterations
    state.converged &= ~moved
    return problem, state
