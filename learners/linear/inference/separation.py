"""Decides whether a likelihood of classes or counts has an optimum: no direction separates rows.

Without a penalty there is none if and only if there is a direction u, not 0 on all rows, along
which no margin y (z.u) is below 0 (Albert and Anderson, On the existence of maximum likelihood
estimates in logistic regression models, 1984). Newton's step s = H^-1 g at any weights proves
either, so that no linear program has to be solved (Konis, Linear programming algorithms for
detecting separated data, 2007):

* g = -mean(q y z) with q = P(wrong class) > 0. As H s = g, the numbers q (1 + (1 - q) y (z.s))
  times y z add up to 0. Where all are above 0 no such u exists: y (z.u) would add up to more
  than 0. That is so wherever (1 - q) |z.s| < 1 in all rows, which Newton's method reaches near
  every optimum, and nowhere if there is none.
* Where all margins are above 0, the weights are such a direction. Where no margin falls along -s,
  -s is one: along it the method runs away if there is no optimum, one unit of the closest
  margins an iteration, while all that is not parted comes to rest.

Counts y with mean exp(m) have no optimum if and only if there is a direction along which no margin
changes where y > 0, none rises where y = 0, and some fall (Correia, Guimaraes and Zylkin,
Verifying the existence of maximum likelihood estimates for generalized linear models, 2019). Here
g = mean((exp(m) - y) z), so that the numbers exp(m) (1 - z.s) - y times z add up to 0, and no such
direction exists where z.s < 1 in all rows of y = 0. That holds for a negative binomial loss too.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.parts.sharded import entry_sums, margin_reach, pass_of_squares
from tuskml.kernels.passes import Floats, Pass, most_rows, solve
from tuskml.learners.linear.objective import best_constant
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LINEAR

Bools = NDArray[np.bool_]

SURE = 0.9
"""The share of a proof must stay below this, not 1, so that rounding cannot matter."""
LEVEL = 1e-7
"""Part of a step's unit by which margins may fall and have not moved: of the largest move, but of
1 where far rows move by more, since the closest margins move by about 1.
"""
GONE = 746.0
"""A margin on the correct side at which q = exp(-margin) is 0 in a double: such rows are far away,
add nothing to a gradient, and move by much when the others hardly do.
"""
CLEAR = 1e-9
"""Relative pivot of H below which its steps prove nothing."""
MOST_STEPS, MOST_NEAR = 60, 6
"""Steps of Newton's method: from v = 0, and from the final weights of a training."""
HALVINGS = 30
LOOKED_AT_FIRST = 4096
"""Rows in which a row on the wrong side is looked for before all others."""


@dataclass(frozen=True)
class Reach:
    """Over each group's rows, all (G,): the least y m, the least and the largest move y (z.u),
    and the largest (1 - q) |z.u|.
    """

    least_margin: Floats
    least_move: Floats
    most_move: Floats
    most_share: Floats


def reach(rows: Pass, weights: Floats, direction: Floats, far: Floats | None = None) -> Reach:
    """Evaluates margins at weights (G, d + 1) along a direction (G, d + 1), both in the caller's
    units; far (G,): margins on the correct side beyond which rows do not count.
    """
    beyond = np.full(len(weights), np.inf) if far is None else far
    out = margin_reach(rows, weights, direction, beyond)
    return Reach(*(np.ascontiguousarray(column) for column in out.T))


def find_backed(found: Reach) -> Bools:
    """Groups (G,) in which some margins grow along minus the direction, and none falls."""
    unit = np.minimum(-found.least_move, 1.0)
    return (found.most_move <= LEVEL * unit) & (unit > 0)


def along(problem: Problem, v: Floats, step: Floats, far: Floats | None = None) -> Reach:
    """Evaluates the margins along a step (G, p) at v (G, p)."""
    return reach(problem.rows, problem.to_caller(v), problem.to_caller(step), far)


@dataclass(frozen=True)
class Verdict:
    """Proofs for G groups. exists (G,): there is an optimum; parted (G,): there is none; where
    neither holds it is undecided.
    """

    exists: Bools
    parted: Bools


def unit_of(problem: Problem) -> Floats:
    """The largest curvature that tells of the rows, (G,): of counts about their mean."""
    if not problem.task.counts:
        return np.ones(problem.n_groups)
    mean = problem.rows.labels()["mean"]
    return np.where(mean > 0, mean, 1.0)


def begin(problem: Problem) -> Floats:
    """Weights v (G, p) to look from: of counts the best constant, of classes none."""
    v = np.zeros((problem.n_groups, problem.d + 1))
    if problem.task.counts and problem.rows.fit_intercept:
        v[:, -1] = best_constant(problem, problem.rows.labels())
    return v


def as_logistic(problem: Problem) -> Problem:
    """The same rows with the logistic loss and equal weights."""
    task = LINEAR["logistic"]
    rows = replace(problem.rows, loss=task.loss, class_weight=None, open=None)
    return replace(problem, rows=rows, task=task, gradient_unit=None)


def completely(problem: Problem, v: Floats) -> Bools:
    """Groups (G,) whose weights v put every row on its side.

    A sample of the rows is read first, which shows a row on the wrong side in most other groups.
    """
    parted = np.ones(problem.n_groups, bool)
    sampled = most_rows(problem.rows.groups) // LOOKED_AT_FIRST
    for stride in (sampled, 1) if sampled > 1 else (1,):
        left = np.flatnonzero(parted)
        if len(left):
            part = problem.of(left)
            rows, weights = replace(part.rows, stride=stride), part.to_caller(v[left])
            parted[left] = reach(rows, weights, np.zeros_like(weights)).least_margin > 0
    return parted


def verdict(problem: Problem, v: Floats, step: Floats, pivot: Floats) -> Verdict:
    """Decides from Newton's step (G, p) at v (G, p); pivot (G,) as returned by `solve`."""
    return judge_margins(along(problem, v, step, np.full(len(v), GONE)), pivot)


def judge_margins(found: Reach, pivot: Floats) -> Verdict:
    """Decides from the margins along Newton's step."""
    exists = (found.most_share < SURE) & (pivot > CLEAR)
    parted = (found.least_margin > 0) | (find_backed(found) & ~exists)
    return Verdict(exists & ~parted, parted)


def never_counted(problem: Problem, v: Floats) -> Bools:
    """Tests which groups (G,) of counts have no optimum because of features that occur only in
    rows of 0, if features are too many for Newton's steps. v (G, p): any weights.
    """
    rows, direction = problem.rows, np.zeros((problem.n_groups, problem.d + 1))
    counted = pass_of_squares(rows).gradient(direction)[:, 2:-1]  # -sum(y x)
    size = entry_sums(rows)[0][:, :-1] if rows.sparse else problem.shift
    direction[:, :-1] = np.where(counted == 0, np.sign(size), 0.0)
    return find_backed(reach(rows, problem.to_caller(v), direction))


@dataclass(frozen=True)
class NewtonEnd:
    """The end of Newton's step from the final weights of trainings: the weights (G, p), and the
    rank (G,) of the rows, 0 where unknown.
    """

    v: Floats
    rank: NDArray[np.int64]


@dataclass(frozen=True)
class Proof:
    """parted (G,): there is no optimum; left (G,): undecided; near: the end of Newton's step for
    undecided groups.
    """

    parted: Bools
    left: Bools
    near: NewtonEnd


def decide(
    problem: Problem,
    v: Floats,
    threads: int,
    proof: Callable[..., Verdict] = verdict,
    ended: NewtonEnd | None = None,
) -> Bools:
    """Tests which groups (G,) have no optimum, by Newton's method from v = 0 until a proof; groups
    that rounding leaves undecided count as having one.

    proof: as `verdict`; ended: of trainings that came near an optimum if there is one; a few steps
    from there are tried first, and usually suffice. Raises OutOfTime at the rows' deadline.
    """
    problem = replace(problem, precise=True)
    parted, left = np.zeros(problem.n_groups, bool), np.arange(problem.n_groups)
    near = np.flatnonzero(ended.rank) if ended is not None else left[:0]
    if ended is not None and len(near):
        given = problem.of(near), ended.v[near], threads, proof, MOST_NEAR, ended.rank[near]
        parted[near], rest = follow_separation(*given)
        left = np.sort(np.concatenate([np.setdiff1d(left, near), near[rest]]))
    if len(left):
        part = problem.of(left)
        parted[left] = follow_separation(part, v[left], threads, proof, MOST_STEPS)[0]
    return parted


def follow_separation(
    problem: Problem,
    v: Floats,
    threads: int,
    proof: Callable[..., Verdict],
    most: int,
    whole: NDArray[np.int64] | None = None,
) -> tuple[Bools, NDArray[np.intp]]:
    """Returns groups (G,) proved to have no optimum, and the indices of those not decided.

    whole: the rows' rank; None where v is 0, where the curvature has it.
    """
    parted, left = np.zeros(problem.n_groups, bool), np.arange(problem.n_groups)
    for _ in range(most):
        part = problem.of(left)
        found = part.evaluate(v, curvature=True)
        solution = solve(
            np.asarray(found.hessian),
            found.gradient,
            threads,
            cancel_mark=part.rows.cancel_mark,
            deadline=part.rows.deadline,
        )
        if whole is None:  # all rows weigh the same: the rank of the rows themselves
            whole = solution.rank
        clear = np.where(solution.rank == whole[left], 1.0, 0.0)
        said = proof(part, v, solution.step, clear)
        parted[left[said.parted]] = True
        rest = np.flatnonzero(~(said.exists | said.parted))
        left, v = left[rest], v[rest]
        if not len(rest):
            break
        v = halve_step(part.of(rest), v, solution.step[rest], found.objective[rest])
    return parted, left


def halve_step(problem: Problem, v: Floats, step: Floats, objective: Floats) -> Floats:
    """Newton's step, halved by group until the objective is not above `objective`."""
    by = np.ones(len(v))
    for _ in range(HALVINGS):
        worse = ~(problem.objective(v - by[:, None] * step) <= objective)
        if not worse.any():
            break
        by[worse] *= 0.5
    return np.asarray(v - by[:, None] * step)
