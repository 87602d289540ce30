"""Newton's iterations of many groups in one kernel go where the CPU's operators go."""

import numpy as np
import pytest
from rows import rows_pass
from standin import StandIn
from test_passes import groups_of

from tuskml.kernels.gpu.passes import on_device
from tuskml.kernels.passes import solve
from tuskml.learners.linear.algorithms import newton
from tuskml.learners.linear.algorithms.newton import ALGORITHM as NEWTON
from tuskml.learners.linear.algorithms.parts import fused
from tuskml.learners.linear.operators import run
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan
from tuskml.learners.linear.tasks import LINEAR

SIZES = (60, 90, 41, 150, 33, 77) * 6


def plan_of(epsilon=1e-9, max_iter=50):
    return Plan(
        "newton", max_iter, epsilon, "gradient", "auto", "constant", 1, False, False, False, 0, 1,
        (0.0,), 1, "",
    )  # fmt: skip


def problem_of(d, task="logistic", l2=0.05, fit_intercept=True, kind="dense float32", weight=None):
    groups, data = groups_of(SIZES, d, kind, task)
    plain = rows_pass(groups, task, class_weight=weight)
    rows = type(plain)(**{**vars(plain), "fit_intercept": fit_intercept})
    shift = np.array([x.mean(0) for x, _ in data], float)
    spread = np.array([x.std(0) for x, _ in data], float)
    if not fit_intercept:
        shift, spread = np.zeros_like(shift), np.sqrt(spread**2 + shift**2)
    size = None
    if task == "linear":
        size = np.array([np.sqrt((y**2).mean()) for _, y in data])
    return Problem(rows, LINEAR[task], 0.0, l2, shift, 1 / spread, None, size)


def trained(problem, rows, plan):
    part = problem.on(rows)
    start = np.zeros((problem.n_groups, problem.d + 1))
    return run(part, NEWTON.operators(part, plan, start, None)), part


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "how",
    [
        {"d": 4},
        {"d": 4, "weight": (0.5, 2.0)},
        {"d": 4, "fit_intercept": False},
        {"d": 3, "task": "linear", "l2": 0.0},
        {"d": 20, "kind": "dense float64"},
    ],
)
def test_the_same_optimum(device, how):
    problem, plan = problem_of(**how), plan_of()
    cpu, _ = trained(problem, problem.rows, plan)
    gpu, part = trained(problem, on_device(problem.rows, device), plan)
    assert gpu.converged.all()
    assert cpu.converged.all()
    assert np.allclose(gpu.v, cpu.v, atol=1e-7)
    assert np.allclose(gpu.objective, cpu.objective, rtol=1e-12)
    there = problem.evaluate(gpu.v, curvature=True)
    assert np.allclose(gpu.objective, there.objective, rtol=1e-12)
    assert np.all(there.violation <= 2e-9)
    kept = np.asarray(gpu.hessian)
    assert np.allclose(kept, there.hessian, rtol=1e-4, atol=1e-5 * np.abs(there.hessian).max())
    assert isinstance(NEWTON.operators(part, plan, cpu.v, None).update, fused.NewtonInPlace)


def test_history_falls_and_counts_iterations(device):
    problem = problem_of(5, l2=1e-3)
    state, _ = trained(problem, on_device(problem.rows, device), plan_of())
    history = np.array(state.history)
    for g in range(problem.n_groups):
        objectives = history[~np.isnan(history[:, g]), g]
        assert len(objectives) == state.iterations[g] + 1
        assert np.all(np.diff(objectives) <= 1e-12)
    assert len(np.unique(state.iterations)) > 1


def test_iterations_are_at_most_those_asked_for(device):
    problem = problem_of(5, l2=1e-6)
    state, _ = trained(problem, on_device(problem.rows, device), plan_of(1e-13, max_iter=3))
    assert state.iteration == 3
    assert state.iterations.max() == 3


@pytest.mark.nightly
def test_steps_are_halved_where_the_objective_would_rise(device):
    """From far out a full step of the logistic loss goes further still."""
    problem, plan = problem_of(2, l2=1e-4), plan_of()
    rows = on_device(problem.rows, device)
    start = np.tile([6.0, -6.0, 5.0], (problem.n_groups, 1))
    part = problem.on(rows)
    before = problem.evaluate(start, curvature=True)
    full = start - solve(before.hessian, before.gradient, 1).step
    worse = ~(problem.evaluate(full).objective <= before.objective)
    assert worse.any()
    state = run(part, NEWTON.operators(part, plan, start, None))
    cpu = run(problem, NEWTON.operators(problem, plan, start, None))
    assert np.array_equal(state.converged, cpu.converged)
    assert state.converged.all()
    assert np.allclose(state.objective, cpu.objective, rtol=1e-9)


@pytest.mark.sample(1)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_threads_may_run_in_any_order(order):
    problem, plan = problem_of(4), plan_of()
    found, _ = trained(problem, on_device(problem.rows, StandIn(order)), plan)
    first, _ = trained(problem, on_device(problem.rows, StandIn(0)), plan)
    assert np.array_equal(found.v, first.v)


def test_a_single_launch_trains_all():
    device = StandIn()
    problem = problem_of(4)
    trained(problem, on_device(problem.rows, device), plan_of(1e-6))
    assert [kernel for kernel, _ in device.launches] == ["newton"] * 2  # the first makes no step


def test_large_groups_keep_their_own_update():
    groups, _ = groups_of((20,) * 31, 3)
    rows = on_device(rows_pass(groups, "logistic"), StandIn())
    shift = np.zeros((31, 3))
    few = Problem(rows, LINEAR["logistic"], 0.0, 0.1, shift, shift + 1)
    assert isinstance(
        NEWTON.operators(few, plan_of(), np.zeros((31, 4)), None).update,
        newton.NewtonStep,
    )
