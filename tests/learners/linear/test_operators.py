"""The seven operators: their order, what they hand on, and a user's own in their places."""

import time
from dataclasses import replace

import numpy as np
import pytest
from rows import block, rows_pass, together

from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.operators import (
    Budget,
    Operators,
    StartAt,
    State,
    Tolerance,
    all_rows,
    as_given,
    run,
)
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner.candidates import choose
from tuskml.learners.linear.planner.curves import Statistics
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LINEAR

pytestmark = pytest.mark.native

SEEN = Statistics(300, 3, False)
TRUTH = np.array([[1.0, -2.0, 0.5, 0.25], [-1.0, 0.0, 3.0, -0.5]])
"""Weights that the labels of the two groups follow, intercept last."""


@pytest.fixture
def problem():
    """Least squares for two groups of 300 and 40 rows, without noise."""
    rng = np.random.default_rng(0)
    blocks = []
    for n, weights in zip((300, 40), TRUTH, strict=True):
        x = rng.normal(size=(n, 3))
        blocks.append(block(x, x @ weights[:-1] + weights[-1], segment_rows=64))
    rows = rows_pass(together(blocks), "linear")
    return Problem(rows, LINEAR["linear"], 0.0, 0.0, np.zeros((2, 3)), np.ones((2, 3)))


def operators(problem, text='{"algorithm": "bgd"}', **replaced):
    """An algorithm's operators, some of them replaced."""
    plan = choose(problem.task, parse(text), SEEN)
    made = ALGORITHMS[plan.algorithm].operators(problem, plan, np.zeros((2, 4)), None)
    return replace(made, **replaced)


def problem_for(problem, algorithm):
    """The problem, or for the algorithm of the hinge one with classes, and options with it."""
    if algorithm != "dcd":
        return problem, ""
    blocks = []
    rng = np.random.default_rng(1)
    for n in (300, 40):
        x = rng.normal(size=(n, 3))
        blocks.append(block(x, (x[:, 0] + rng.normal(size=n) > 0).astype(float), segment_rows=64))
    rows = rows_pass(together(blocks), "svm")
    return replace(problem, rows=rows, task=LINEAR["svm"], l2=0.1), ', "l2": 0.1'


class Recorded:
    """An operator that notes when it is called."""

    def __init__(self, name, operator, calls):
        self.name, self.operator, self.calls = name, operator, calls

    def __call__(self, *arguments):
        self.calls.append(self.name)
        return self.operator(*arguments)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_order(problem, algorithm):
    """Transform and Stage once; then Sample, Compute, Converge, Loop, Sample, Update in turn."""
    calls = []
    problem, more = problem_for(problem, algorithm)
    made = operators(problem, f'{{"algorithm": "{algorithm}", "max_iter": 2, "epsilon": 0{more}}}')
    names = ("transform", "stage", "sample", "compute", "update", "converge", "loop")
    watched = {name: Recorded(name, getattr(made, name), calls) for name in names}
    run(problem, Operators(**watched))
    look = ["sample", "compute", "converge", "loop"]
    assert calls == ["transform", "stage", *look, *(["sample", "update", *look] * 2)]


@pytest.mark.parametrize("algorithm", ["bgd", "lbfgs", "newton", "svrg"])
def test_algorithms_solve(problem, algorithm):
    """The loop alone, without trainer and SQL."""
    text = f'{{"algorithm": "{algorithm}", "epsilon": 1e-10, "max_iter": 1000}}'
    state = run(problem, operators(problem, text))
    assert state.converged.all()
    np.testing.assert_allclose(state.v, TRUTH, atol=1e-8)


def test_own_update(problem):
    """Heavy-ball momentum, Polyak 1964, in place of the gradient step."""

    def momentum(part, state, found):
        active = state.active
        last = state.memory.setdefault("move", np.zeros_like(state.v))
        last[active] = 0.5 * last[active] - 0.5 * found.gradient
        state.v[active] += last[active]

    text = '{"algorithm": "bgd", "schedule": "constant", "epsilon": 1e-9}'
    state = run(problem, operators(problem, text, update=momentum))
    assert state.converged.all()
    np.testing.assert_allclose(state.v, TRUTH, atol=1e-7)
    plain = run(problem, operators(problem, text))
    assert state.iterations.max() < plain.iterations.max()


def test_own_converge(problem):
    """Each group stops by a rule of one's own, and no group moves once it is done."""
    stopped_at, wanted = {}, np.array([1e-6, 1.0])

    def good_enough(state, active, found):
        done = found.objective <= wanted[active]
        stopped_at.update({int(g): state.v[g].copy() for g in active[done]})
        return done

    state = run(problem, operators(problem, converge=good_enough))
    assert state.converged.all()
    assert (state.objective <= wanted).all()
    assert state.iterations[0] > state.iterations[1] > 0
    for group, v in stopped_at.items():
        np.testing.assert_array_equal(state.v[group], v)


def test_own_sample(problem):
    """The first rows only: the answer is theirs."""

    def first_thirty(problem, state):
        part = problem.of(state.active)
        return part.on(part.rows.head(30))

    rows_read = []

    def compute(part, state):
        rows_read.append(part.rows.gradient(part.to_caller(state.v[state.active]))[:, 1].tolist())
        return part.evaluate(state.v[state.active])

    text = '{"algorithm": "bgd", "schedule": "constant", "max_iter": 3, "epsilon": 0}'
    run(problem, operators(problem, text, sample=first_thirty, compute=compute))
    assert rows_read == [[30, 30]] * 4


def test_own_transform_and_stage(problem):
    """Other units inside, another start: the same optimum in the caller's units."""
    shift, scale = np.full((2, 3), 0.7), np.tile([0.1, 3.0, 1.0], (2, 1))

    def transform(problem):
        return replace(problem, shift=shift, scale=scale)

    made = operators(
        problem,
        '{"algorithm": "newton", "epsilon": 1e-10}',
        transform=transform,
        stage=StartAt(np.full((2, 4), 5.0)),
    )
    state = run(problem, made)
    np.testing.assert_allclose(transform(problem).to_caller(state.v), TRUTH, atol=1e-8)


def test_own_compute(problem):
    """A gradient with errors still leads there when they vanish with it."""

    def scaled(part, state):
        found = part.evaluate(state.v[state.active])
        return replace(found, gradient=found.gradient * [1.0, 0.5, 0.8, 0.9])

    text = '{"algorithm": "bgd", "schedule": "constant", "epsilon": 1e-8}'
    state = run(problem, operators(problem, text, compute=scaled))
    assert state.converged.all()
    np.testing.assert_allclose(state.v, TRUTH, atol=1e-6)


def test_own_loop(problem):
    """Ends when it says so, with what was found last."""
    text = '{"algorithm": "bgd", "epsilon": 0}'
    state = run(problem, operators(problem, text, loop=lambda state: state.iteration < 3))
    assert state.iteration == 3
    assert state.known.all()
    np.testing.assert_allclose(state.objective, problem.evaluate(state.v).objective, rtol=1e-12)


def test_monitor_sees_every_iteration(problem):
    seen = []
    text = '{"algorithm": "bgd", "max_iter": 5, "epsilon": 0}'
    run(problem, operators(problem, text), lambda _, state: seen.append(state.iteration))
    assert seen == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_monitor_may_stop_a_group(problem, algorithm):
    """As early stopping does, between iterations: the other group goes on."""

    def stop_first(_, state):
        if state.iteration == 2:
            state.running[0] = False

    problem, more = problem_for(problem, algorithm)
    text = f'{{"algorithm": "{algorithm}", "max_iter": 6, "epsilon": 0{more}}}'
    state = run(problem, operators(problem, text), stop_first)
    assert state.iterations.tolist() == [2, 6]


def found_at(problem, v):
    return problem.evaluate(np.asarray(v))


def test_tolerance_by_gradient(problem):
    state = State.at(TRUTH + np.array([[0.0], [1e-3]]))
    found = found_at(problem, state.v)
    done = Tolerance("gradient", 1e-4)(state, state.active, found)
    assert done.tolist() == [True, False]
    assert not Tolerance("gradient", 0.0)(state, state.active, found).any()
    assert not Tolerance("gradient", 1e-4)(state, state.active, None).any()


@pytest.mark.parametrize("criterion", ["weights", "loss"])
def test_tolerance_by_change(problem, criterion):
    """Not before there is a change to look at; then by group."""
    converge = Tolerance(criterion, 1e-6)
    state = State.at(TRUTH + 1.0)
    state.objective[:] = [1.0, 2.0]
    found = found_at(problem, state.v)
    assert not converge(state, state.active, found).any()
    state.v[1] += 0.1
    state.objective[1] -= 0.1
    assert converge(state, state.active, found).tolist() == [True, False]


def test_budget():
    state = State.at(np.zeros((2, 4)))
    assert Budget(5)(state)
    assert not Budget(5, time.monotonic() - 1)(state)
    assert state.out_of_time
    state = State.at(np.zeros((2, 4)))
    state.iteration = 5
    assert not Budget(5)(state)
    assert not state.out_of_time
    state.iteration = 0
    state.running[:] = False
    assert not Budget(5)(state)


def test_plain_operators(problem):
    """as_given changes nothing; all_rows leaves out the groups that are done."""
    assert as_given(problem) is problem
    state = State.at(np.zeros((2, 4)))
    assert all_rows(problem, state) is problem
    state.running[0] = False
    assert all_rows(problem, state).rows.groups["n_rows"].tolist() == [40]
