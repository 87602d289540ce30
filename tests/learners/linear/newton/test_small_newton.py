"""Newton's descents of many small groups in one call go where its iterations go."""

from dataclasses import replace

import numpy as np
import pytest
from rows import block, rows_pass, together
from sklearn.linear_model import LogisticRegression

from tuskml.errors import Interrupted
from tuskml.kernels import passes
from tuskml.learners.linear.algorithms.newton import ALGORITHM as NEWTON
from tuskml.learners.linear.algorithms.newton import NewtonStep
from tuskml.learners.linear.algorithms.parts import small
from tuskml.learners.linear.algorithms.parts.fused import NewtonInPlace
from tuskml.learners.linear.operators import run
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan
from tuskml.learners.linear.tasks import LINEAR

SIZES = (60, 90, 41, 150, 33, 77) * 4
LEVELS = (4, 6, 3)
FEATURES = 2 + sum(LEVELS)


def plan_of(epsilon=1e-9, max_iter=100):
    return Plan(
        "newton", max_iter, epsilon, "gradient", "auto", "constant", 1, False, False, False, 0, 2,
        (0.0,), 1, "",
    )  # fmt: skip


def coded(n, rng):
    """Rows of two numbers and three categories, each level a feature."""
    parts = [rng.normal(size=(n, 2))]
    parts += [np.eye(k)[rng.integers(0, k, n)] for k in LEVELS]
    return np.hstack(parts)


def data_of(task, seed=0):
    """Each group's rows, labels and weights."""
    rng = np.random.default_rng(seed)
    made = []
    for n in SIZES:
        x = coded(n, rng)
        margin = x @ rng.normal(size=FEATURES) * 0.7
        numbers = {"poisson": rng.poisson(np.exp(margin)), "linear": margin + rng.normal(size=n)}
        y = numbers.get(task, rng.random(n) < 1 / (1 + np.exp(-margin)))
        made.append((x, np.asarray(y, float), rng.integers(1, 4, n).astype(float)))
    return made


def problem_of(task="logistic", l2=1e-4, fit_intercept=True, **how):
    """A problem of sparse rows; how: threads, class_weight, weighted, kind."""
    weighted, kind = how.pop("weighted", False), how.pop("kind", "sparse float64")
    data = data_of(task)
    blocks = [block(x, y, kind, 40, weight=w if weighted else None) for x, y, w in data]
    rows = replace(rows_pass(together(blocks), task, **how), fit_intercept=fit_intercept)
    shape = len(SIZES), FEATURES
    size = None
    if task == "linear":
        size = np.array([np.sqrt((y**2).mean()) for _, y, _ in data])
    return Problem(rows, LINEAR[task], 0.0, l2, np.zeros(shape), np.ones(shape), None, size), data


def trained(problem, plan, monkeypatch=None, deadline=None):
    """Where a training ends, by iterations of all groups together if they are not to be alone."""
    if monkeypatch is not None:
        monkeypatch.setattr(small, "LEAST_GROUPS", 10**9)
    start = np.zeros((problem.n_groups, problem.d + 1))
    operators = NEWTON.operators(problem, plan, start, deadline)
    assert isinstance(operators.update, NewtonStep if monkeypatch else NewtonInPlace)
    return run(problem, operators)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"kind": "sparse float32"},
        {"class_weight": (0.5, 3.0)},
        {"weighted": True},
        {"fit_intercept": False},
        {"task": "poisson"},
        {"task": "linear"},
        {"task": "linear", "l2": 0.0},
        {"task": "squared_hinge"},
    ],
)
def test_the_same_optimum(how, monkeypatch):
    problem, _ = problem_of(**how)
    found = trained(problem, plan_of())
    right = trained(problem, plan_of(), monkeypatch)
    assert found.converged.all()
    assert right.converged.all()
    assert np.allclose(found.objective, right.objective, rtol=1e-10)
    if problem.l2:  # all levels of several categories determine no weights by themselves
        assert np.allclose(found.v, right.v, atol=1e-5)
    there = problem.evaluate(found.v)
    assert np.array_equal(found.objective, there.objective) or np.allclose(
        found.objective, there.objective, rtol=1e-13
    )
    assert np.all(there.violation <= 1e-9)


def test_weights_are_scikit_learn_s():
    problem, data = problem_of(l2=0.02)
    found = problem.to_caller(trained(problem, plan_of()).v)
    for g in (0, 3, 4):
        x, y, _ = data[g]
        peer = LogisticRegression(C=1 / (0.02 * len(y)), tol=1e-10, max_iter=5000).fit(x, y)
        assert np.allclose(found[g, :-1], peer.coef_[0], atol=1e-4)
        assert found[g, -1] == pytest.approx(peer.intercept_[0], abs=1e-4)


def test_bits_do_not_depend_on_threads_or_on_other_groups():
    plan = plan_of()
    one, _ = problem_of(threads=1)
    many, _ = problem_of(threads=4)
    whole = trained(one, plan)
    assert np.array_equal(whole.v, trained(many, plan).v)
    some = np.arange(3, 22)
    assert np.array_equal(whole.v[some], trained(one.of(some), plan).v)


def test_history_falls_and_counts_iterations():
    problem, _ = problem_of()
    state = trained(problem, plan_of())
    history = np.array(state.history)
    for g in range(problem.n_groups):
        objectives = history[~np.isnan(history[:, g]), g]
        assert len(objectives) == state.iterations[g] + 1
        assert np.all(np.diff(objectives) <= 1e-12)
    assert len(np.unique(state.iterations)) > 1


def test_iterations_are_at_most_those_asked_for():
    problem, _ = problem_of(l2=1e-6)
    state = trained(problem, plan_of(1e-13, max_iter=3))
    assert state.iterations.max() == 3
    assert not state.converged.all()


def test_collinear_features_need_no_more_iterations(monkeypatch):
    """Without a penalty nothing determines the levels of several categories."""
    problem, _ = problem_of("poisson", l2=0.0)
    state = trained(problem, plan_of(1e-8))
    right = trained(problem, plan_of(1e-8), monkeypatch)
    assert state.converged.all()
    assert state.iterations.max() <= right.iterations.max() + 5


def test_a_deadline_that_has_passed():
    problem, _ = problem_of()
    state = trained(problem, plan_of(), deadline=1e-9)
    assert state.out_of_time
    assert not state.converged.any()


def test_a_cancel_ends_it():
    problem, _ = problem_of()
    rows = replace(problem.rows, cancel_mark=passes.cancel_count())
    passes.cancel()
    with pytest.raises(Interrupted):
        trained(problem.on(rows), plan_of())


@pytest.mark.parametrize(
    "change",
    [
        {"stride": 2},
        {"groups": 3},
        {"plan": {"canonical": True}},
        {"plan": {"converge": "loss"}},
        {"plan": {"epsilon": 0.0}},
        {"plan": {"base": "newton"}},
    ],
)
def test_other_trainings_keep_their_iterations(change):
    problem, _ = problem_of()
    plan = replace(plan_of(), **change.get("plan", {}))
    if "groups" in change:
        problem = problem.of(np.arange(change["groups"]))
    rows = replace(problem.rows, stride=change.get("stride", 1))
    assert small.update(problem.on(rows), plan, None) is None
    assert small.update(problem_of()[0], plan_of(), None) is not None
