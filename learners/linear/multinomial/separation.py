"""Decides whether the loss of several classes has an optimum: no direction separates them.

Without a penalty there is none if and only if there is a direction u, with weights u_k for each
class, along which no margin of a row's own class y against another, m_y - m_k, falls, and some
grow (Albert and Anderson, On the existence of maximum likelihood estimates in logistic regression
models, 1984, section 5). As with two classes (`inference/separation.py`), Newton's step s = H^-1 g
proves either:

* g is the sum of z (p_k - [k = y]), and H s = g. So the numbers t_k = p_k (1 - (m_k - m)) of the
  classes k other than y, with the margins m_k = z.s_k and their mean m by probability, satisfy
  sum t_k z.(u_y - u_k) = 0 for every u. Where all are above 0 no such u exists.
* Where all m_y - m_k at the weights are above 0, the weights are such a direction. Where none
  falls along -s, -s is one.
"""

from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import OutOfTime
from tuskml.kernels.passes import Floats, solve
from tuskml.learners.linear.inference import determined, limit, separation
from tuskml.learners.linear.inference.limit import Frame, Runaways
from tuskml.learners.linear.inference.separation import Verdict
from tuskml.learners.linear.inference.tempered import strength
from tuskml.learners.linear.multinomial.problem import SoftmaxProblem
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.problem import Index, Problem

Bools = NDArray[np.bool_]


def drop_class_weights(problem: SoftmaxProblem) -> SoftmaxProblem:
    """The same rows without weights of classes, which do not affect the existence of an
    optimum.
    """
    classes = replace(problem.softmax, weight=None)
    return replace(problem, classes=classes, gradient_unit=None)


def completely(problem: SoftmaxProblem, v: Floats) -> Bools:
    """Tests for which groups (G,) the weights v predict the class of every row."""
    return np.asarray(along(problem, v, np.zeros_like(v)).least_margin > 0)


def verdict(problem: Problem, v: Floats, step: Floats, pivot: Floats) -> Verdict:
    """Decides from Newton's step (G, K p) at v (G, K p); pivot (G,) as returned by `solve`."""
    return separation.judge_margins(
        along(problem, v, step, np.full(len(v), separation.GONE)), pivot
    )


def along(
    problem: Problem, v: Floats, step: Floats, far: Floats | None = None
) -> separation.Reach:
    """Evaluates the margins along a step (G, K p) at v (G, K p), as for two classes."""
    assert isinstance(problem, SoftmaxProblem)
    weights, moves = (problem.blocks(problem.to_caller(one)) for one in (v, step))
    beyond = np.full(len(v), np.inf) if far is None else far
    found = problem.softmax.reach(problem.rows, weights, moves, beyond)
    return separation.Reach(*(np.ascontiguousarray(column) for column in found.T))


def find_separated(
    problem: SoftmaxProblem,
    state: State,
    which: Index,
    curvature: Floats,
    threads: int,
    deadline: float | None,
) -> Bools:
    """Tests which of some groups (n,) have no optimum. Past the deadline they count as undecided.

    curvature (n, K p, K p): summed, at their weights, without weights of classes.
    """
    part = problem.of(which)
    assert isinstance(part, SoftmaxProblem)
    part, v = drop_class_weights(part), state.v[which]
    packed = part.pack_curvature(curvature, part.rows.weight)
    solution = solve(packed, part.evaluate(v).gradient, threads)
    whole = solution.rank == np.count_nonzero(part.find_used(), axis=(1, 2))
    said = verdict(part, v, solution.step, np.where(whole, solution.pivot, 0.0))
    rest, found = np.flatnonzero(~(said.exists | said.parted)), said.parted
    if not len(rest):
        return found
    timed = replace(part, rows=replace(part.rows, deadline=deadline))
    try:
        found[rest] = separation.decide(timed.of(rest), np.zeros_like(v[rest]), threads, verdict)
    except OutOfTime:
        late = which[rest]
        state.out_of_time, state.running[late], state.converged[late] = True, True, False
    return found


def runaways_of(
    problem: SoftmaxProblem, state: State, which: Index, deadline: float | None
) -> Runaways:
    """As for two classes (`inference/limit.py`); weights of classes change the estimates."""
    given, found = limit.by_processor(problem, deadline), []
    try:
        for block in determined.blocks(len(which), state.v.shape[1]):
            places = which[block]
            part = given.of(places)
            assert isinstance(part, SoftmaxProblem)
            frame = frame_of(part)
            v, settled = limit.follow_newton(part, np.zeros_like(state.v[places]), frame, along)
            bent = determined.unpack_triangles(
                np.asarray(part.evaluate(v, curvature=True).hessian)
            )
            found.append((places, limit.limit_of(frame, v, settled, bent, bent)))
    except OutOfTime:
        state.out_of_time = True
    return found


def frame_of(problem: SoftmaxProblem) -> Frame:
    """The frame of all classes except the first, whose weights are 0."""
    others = np.diag(np.append(0.0, np.ones(problem.softmax.n_classes - 1)))
    each = limit.frame_of(problem)
    return Frame(*(np.kron(others, getattr(each, f.name)) for f in fields(Frame)))


def soften(problem: SoftmaxProblem, state: State, runaways: Runaways) -> Bools:
    """Puts the ridge of two classes on diverging directions; returns which groups (G,) got it. The
    weights sum to 0 over classes.
    """
    ridge, k = np.zeros(problem.n_groups, bool), problem.softmax.n_classes
    features = np.diag(np.append(np.ones(problem.d), 0.0))
    others = np.diag(np.append(0.0, np.ones(k - 1)))
    pull = np.kron(others @ (np.eye(k) - 1 / k) @ others, features)
    for places, limits in runaways:
        some = np.flatnonzero(limits.settled)
        if not len(some):
            continue
        part = problem.of(places[some])
        by = strength(part)[:, None, None] * pull
        found = limit.soften_directions(part, limits.of(some), by)
        state.v[places[some]], state.objective[places[some]] = found
        ridge[places[some]] = True
    return ridge


def leave_directions(problem: SoftmaxProblem, state: State, runaways: Runaways) -> None:
    """Leaves diverging directions where the training ended, and moves the rest to its optimum."""
    for places, limits in runaways:
        some = np.flatnonzero(~limits.complete)
        which = places[some]
        if not len(which):
            continue
        state.v[which] = limits.of(some).with_the_rest(state.v[which])
        state.objective[which] = problem.of(which).objective(state.v[which])
