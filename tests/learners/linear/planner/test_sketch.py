"""Iterations by a sketch of the curvature, against those that trainings took."""

import json
import time

import numpy as np
import pytest

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.learners.learner import Request
from tuskml.learners.linear import training
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.algorithms.parts.batch import Beginning
from tuskml.learners.linear.descent import Timing, descend
from tuskml.learners.linear.objective import describe, start
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import planning, sampling
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.planner.candidates import candidate, why_not
from tuskml.learners.linear.planner.curves import decades, shrunk
from tuskml.learners.linear.planner.trials import trial
from tuskml.learners.linear.tasks import LINEAR


def rows(condition, n=4000, d=20, seed=5):
    """Normal features whose covariance has eigenvalues from 1 to 1 / condition; both labels."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    x = rng.standard_normal((n, d)) * np.sqrt(condition ** -np.linspace(0, 1, d)) @ turn
    margin = x @ rng.standard_normal(d)
    margin /= margin.std()
    classes = (rng.random(n) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    return np.ascontiguousarray(x, np.float32), margin + rng.standard_normal(n), classes


def asked(condition, task, **options):
    """The segment, the groups and the request."""
    x, number, classes = rows(condition)
    label = classes if LINEAR[task].classifies else number
    segment, groups = groups_of(label, [x], 0, "dense float32", x.shape[1])
    return segment, groups, Request(LINEAR[task], parse(json.dumps(options)))


def question_of(groups, request, seconds=1.0):
    plan, question = planning.first_plan(groups, request)
    given = Pass(groups, request.task.loss, None, None, True, 1, cancel_mark=passes.cancel_mark())
    labels = given.labels()
    problem = describe(given, labels, plan, request)
    begin = start(problem, labels, request.options)
    return question, sampling.add_sketch(problem, begin, question, seconds)


def taken(groups, request, algorithm):
    options = json.dumps({"epsilon": request.options.epsilon, "algorithm": algorithm})
    models = next(iter(training.train(groups, Request(request.task, parse(options)), 0)))
    assert models.converged[0]
    return int(models.iterations[0])


@pytest.mark.parametrize("task", ["linear", "logistic"])
@pytest.mark.parametrize("condition", [1.0, 30.0, 1000.0, 10_000.0])
@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd"])
def test_iterations_within_twice_of_what_a_training_takes(task, condition, algorithm):
    segment, groups, request = asked(condition, task, epsilon=1e-5)
    _, seen = question_of(groups, request)
    found = ALGORITHMS[algorithm].usual(seen, decades(1e-5))
    took = taken(groups, request, algorithm)
    assert (took + 1) / 2 <= found.point + 1 <= 2 * (took + 1)
    assert found.low <= found.point <= found.high
    del segment


def test_without_a_sketch_an_ill_conditioned_problem_is_not_known():
    """What the tables say of it is several times too little: that is what the sketch is for."""
    segment, groups, request = asked(10_000.0, "linear", epsilon=1e-6)
    blind, seen = question_of(groups, request)
    k, took = decades(1e-6), taken(groups, request, "lbfgs")
    assert took > 3 * ALGORITHMS["lbfgs"].usual(blind, k).point
    assert took < 2 * ALGORITHMS["lbfgs"].usual(seen, k).point
    del segment


def test_a_sketch_that_takes_too_long_is_not_made():
    segment, groups, request = asked(1.0, "linear")
    blind, seen = question_of(groups, request, seconds=1e-4)
    assert seen is blind
    del segment


def test_at_the_hinge_iterations_follow_the_condition():
    found = []
    for condition in (1.0, 10_000.0):
        segment, groups, request = asked(condition, "svm", epsilon=1e-2)
        _, seen = question_of(groups, request)
        found.append(ALGORITHMS["lbfgs"].usual(seen, 2.0).point)
        del segment
    assert found[1] > 1.5 * found[0]


@pytest.mark.parametrize("condition", [1.0, 30.0, 1000.0, 10_000.0])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-3])
def test_at_the_hinge_too_iterations_are_within_three_times(condition, epsilon):
    segment, groups, request = asked(condition, "svm", epsilon=epsilon)
    _, seen = question_of(groups, request)
    found = ALGORITHMS["lbfgs"].usual(seen, decades(epsilon))
    took = taken(groups, request, "lbfgs")
    assert (took + 1) / 3 <= found.point + 1 <= 3 * (took + 1)
    del segment


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("seconds", [0.0, 1.0])
@pytest.mark.parametrize("condition", [1.0, 1000.0])
def test_a_smaller_tolerance_takes_no_fewer_iterations(task, seconds, condition):
    """Of any algorithm that can train the task, with a sketch and without."""
    segment, groups, request = asked(condition, task, epsilon=1e-6, l2=1e-4)
    question, seen = question_of(groups, request, seconds)
    assert (seen.sketch is not None) == (seconds > 0)
    for one in ALGORITHMS.values():
        if one.refusal(question.task) is None:
            points = [one.usual(seen, k / 4).point for k in range(2, 29)]
            assert np.all(np.diff(points) >= -1e-9 * np.array(points[1:])), one.name
    del segment


def test_a_samples_eigenvalues_are_corrected():
    """Of 120 rows with 60 independent features of variance 1 each eigenvalue should be 1."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((120, 60))
    seen = np.linalg.eigvalsh(z.T @ z / 120)
    found = shrunk(seen, 0.5)
    assert found.sum() == pytest.approx(seen.sum())
    assert seen[-1] / seen[0] > 20
    assert found.max() / found.min() < 3
    assert np.array_equal(shrunk(seen, 0.0), seen)


def sparse_asked(seed, task, **options):
    """Rows of eight of 120 features, whose frequencies follow Zipf's law: rare ones beside common
    ones, which no scale makes alike."""
    rng = np.random.default_rng(seed)
    n, d, each = 6000, 120, 8
    ids = np.minimum(d ** rng.random((n, each)), d).astype(np.int32) - 1
    ids.sort(axis=1)
    margin = rng.standard_normal(d)[ids].sum(axis=1)
    margin /= margin.std()
    classes = (rng.random(n) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    label = classes if LINEAR[task].classifies else margin + rng.standard_normal(n)
    arrays = [np.arange(0, n * each + 1, each, dtype=np.uint32), ids.ravel()]
    arrays.append((0.5 + rng.random(n * each)).astype(np.float32))
    segment, groups = groups_of(label, arrays, n * each, "sparse float32", d)
    return segment, groups, Request(LINEAR[task], parse(json.dumps(options)))


@pytest.mark.parametrize("task", ["linear", "logistic"])
@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd"])
@pytest.mark.parametrize("l2", [1e-3, 1e-5])
@pytest.mark.parametrize("epsilon", [1e-3, 1e-5])
def test_of_sparse_rows_too_they_are_within_twice(task, algorithm, l2, epsilon):
    """The condition that counts is the one behind each method's own preconditioner."""
    given = {"epsilon": epsilon, "l2": l2}
    segment, groups, request = sparse_asked(11, task, **given)
    _, seen = question_of(groups, request)
    found = ALGORITHMS[algorithm].usual(seen, decades(epsilon))
    text = json.dumps(given | {"algorithm": algorithm})
    models = next(iter(training.train(groups, Request(request.task, parse(text)), 0)))
    assert models.converged[0]
    took = int(models.iterations[0])
    assert (took + 1) / 2 <= found.point + 1 <= 2 * (took + 1)
    del segment


def test_at_the_hinge_sparse_rows_are_not_sketched():
    segment, groups, request = sparse_asked(12, "svm", l2=1e-3)
    blind, seen = question_of(groups, request)
    assert seen is blind
    del segment


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("task", ["linear", "logistic", "huber", "quantile", "svm"])
def test_time_that_is_over_ends_trials_and_trainings_without_an_error(task, algorithm):
    """Also where what comes before its first iteration takes too long."""
    segment, groups, request = asked(30.0, task, algorithm="auto")
    plan, question = planning.first_plan(groups, request)
    tried = candidate(question, algorithm)
    if why_not(question, tried, 1e12) is not None:
        pytest.skip("no candidate of this task")
    given = Pass(groups, request.task.loss, None, None, True, 1, cancel_mark=passes.cancel_mark())
    labels = given.labels()
    problem = describe(given, labels, plan, request)
    begin = start(problem, labels, request.options)
    over = time.monotonic() - 1
    assert len(trial(problem, begin, tried, 1, over)) <= 2
    state = descend(problem, Beginning(begin), None, tried, over, Timing())
    assert state.out_of_time
    assert not state.converged.any()
    del segment
