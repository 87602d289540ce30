"""The first pass of a training, made during planning and reused by the training.

Algorithm 1 of Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD
2017, discards the results of its trials. Where the plan that is likely to train begins by a pass
over the rows, that pass is made first: it tells more about the other plans than any sample, and
costs nothing if the plan stays the same.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.algorithms.parts.batch import Evaluate
from tuskml.learners.linear.operators import Operators, Stage, State
from tuskml.learners.linear.problem import Found, Problem


@dataclass(frozen=True)
class Kept:
    """The result of a pass at the start, on every stride-th chunk of the rows; seconds: its
    duration.
    """

    found: Found
    stride: int
    seconds: float

    def taken_over(self, operators: Operators, problem: Problem) -> Operators:
        """The operators of a training's first stage, which reuse the result."""
        compute = operators.compute
        if problem.rows.stride != self.stride or not isinstance(compute, Evaluate):
            return operators
        found = self.found if compute.curvature else replace(self.found, hessian=None)
        return replace(operators, stage=Begun(operators.stage, found))


@dataclass(frozen=True)
class Begun:
    """Stage: the same start, with the result of the first pass known."""

    inner: Stage
    found: Found

    def __call__(self, problem: Problem) -> State:
        state = self.inner(problem)
        state.found = self.found
        return state


@dataclass(frozen=True)
class Beginning:
    """The start of a training: weights v (G, p) and results known there."""

    v: Floats
    kept: Kept | None = None


def first_pass(problem: Problem, start: Floats, stride: int) -> Kept:
    """The pass for the curvature at the start (G, p)."""
    began = time.perf_counter()
    with np.errstate(all="ignore"):
        found = problem.on(replace(problem.rows, stride=stride)).evaluate(start, curvature=True)
    return Kept(found, stride, time.perf_counter() - began)
