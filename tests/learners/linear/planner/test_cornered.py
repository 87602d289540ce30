"""Trainings of the hinge on a sample tell the iterations of those on all rows."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from tuskml.kernels import passes
from tuskml.kernels.hinge import Corner
from tuskml.kernels.passes import Pass
from tuskml.kernels.speculated import Method
from tuskml.learners.linear import training
from tuskml.learners.linear.objective import describe, start
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import choice, planning, trials
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.planner.candidates import corners
from tuskml.learners.linear.planner.choice import assess
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine import constants

pytestmark = pytest.mark.native
METHODS = {"lbfgs": Method.QUASI_NEWTON, "bgd": Method.SPECTRAL_STEPS}


def made(n, d, condition=10.0, seed=0):
    """Rows whose features have a common factor, and noisy classes."""
    rng = np.random.default_rng(seed)
    share = np.sqrt(1 - 1 / condition)
    common = rng.standard_normal((n, 1))
    x = share * common + np.sqrt(1 / condition) * rng.standard_normal((n, d))
    margin = x @ rng.standard_normal(d)
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * margin / margin.std()))).astype(float)
    return np.ascontiguousarray(3 * x + 1, np.float32), y


def asked(x, y, task="svm", **options):
    """The problem, where it starts, and the question to the planner; the rows must be kept."""
    segment, groups = groups_of(y, [x], 0, "dense float32", x.shape[1])
    request = Request(LINEAR[task], parse(json.dumps(options)))
    plan, question = planning.first_plan(groups, request)
    loss, mark = request.task.loss, passes.cancel_mark()
    rows = Pass(groups, loss, None, None, True, plan.threads, cancel_mark=mark)
    labels = rows.labels()
    problem = describe(rows, labels, plan, request)
    return (
        segment,
        groups,
        request,
        plan,
        problem,
        start(problem, labels, request.options),
        question,
    )


def trained(groups, request, algorithm):
    options = replace(request.options, algorithm=algorithm)
    return next(iter(training.train(groups, replace(request, options=options), 0)))


@pytest.mark.parametrize("l2", [0.0, 1e-3])
@pytest.mark.parametrize(("d", "epsilon"), [(10, 0.01), (6, 0.001)])
@pytest.mark.parametrize("algorithm", ["lbfgs", "bgd"])
def test_on_all_rows_it_makes_the_iterations_of_the_training(algorithm, d, epsilon, l2) -> None:
    """Rounding changes which corners are met, so not to the last one."""
    _kept, groups, request, _, problem, begin, question = asked(
        *made(1000, d, seed=d), epsilon=epsilon, l2=l2
    )
    found = trials.try_methods(problem, begin, question, 60.0)
    seen = found.corner[METHODS[algorithm]]
    models = trained(groups, request, algorithm)
    assert models.converged[0]
    assert seen.ended
    within = 1.6 if algorithm == "lbfgs" else 3  # steps of Barzilai and Borwein are chaotic
    assert models.iterations[0] / within <= seen.iterations <= within * models.iterations[0] + 5


def test_its_end_is_an_optimum() -> None:
    """By scikit-learn: the same objective, in a million iterations."""
    x, y = made(400, 5, seed=3)
    z, sign, l2 = (x - x.mean(axis=0)) / x.std(axis=0), np.where(y > 0, 1.0, -1.0), 0.01
    given = Corner(z.T, sign, np.full(5, l2), corners(1e-3, LINEAR["svm"]), 1e-3, 1.0, False, 5000)
    peer = LinearSVC(C=1 / (400 * l2), loss="hinge", fit_intercept=False, max_iter=1_000_000)
    weights = peer.fit(z, y).coef_[0]
    least = np.maximum(0, 1 - sign * (z @ weights)).mean() + l2 / 2 * weights @ weights
    for method in METHODS.values():
        v = np.zeros(6)
        iterations, ended = given.try_from(method, v, 60.0)
        at = given.weights(method, v, 60.0)[:5]
        assert ended
        assert iterations > 3
        found = np.maximum(0, 1 - sign * (z @ at)).mean() + l2 / 2 * at @ at
        assert least - 1e-6 <= found <= least + 1e-3 / 2 + 1e-6


def test_a_sample_tells_the_iterations_of_all_rows() -> None:
    *_kept, request, _, problem, begin, question = asked(*made(40_000, 12), epsilon=0.01)
    found = trials.try_methods(problem, begin, question, 60.0)
    groups = problem.rows.groups
    for algorithm, method in METHODS.items():
        actual = int(trained(groups, request, algorithm).iterations[0])
        assert actual / 2 <= found.corner[method].iterations <= 2 * actual


def test_bgd_is_chosen_at_the_hinge_after_a_trial_alone(monkeypatch) -> None:
    """Nothing else tells its iterations: it took 520 for 42 expected, on nearly collinear rows."""
    *_kept, plan, problem, begin, question = asked(*made(60_000, 12, 1e4, 3), epsilon=1e-3)
    seen = planning.with_rows_seen(problem, question)
    seen = planning.sampling.add_sketch(problem, begin, seen, 60.0)
    every = assess(seen, constants.shipped_constants())
    cheap = tuple(
        replace(one, iterations=one.iterations.scale(0.2)) if one.plan.algorithm == "bgd" else one
        for one in every
    )
    assert choice.select(seen, cheap, plan).plan.algorithm != "bgd"
    with monkeypatch.context() as patched:
        patched.setattr(choice, "WILD", np.inf)
        assert choice.select(seen, cheap, plan).plan.algorithm == "bgd"
    found = trials.try_methods(problem, begin, seen, 60.0)
    assert choice.dependable(choice.assess(found, constants.shipped_constants(), only=["bgd"])[0])


def test_it_ends_when_its_time_is_over() -> None:
    *_, problem, begin, question = asked(*made(3000, 60, 1000.0), epsilon=1e-6)
    least = trials.FEWEST * trials.iteration_seconds(question)
    assert trials.try_methods(problem, begin, question, 0.5 * least) is question
    found = trials.try_methods(problem, begin, question, 2 * least)
    assert len(trials.open_methods(found)) == len(METHODS)
    plain, told = (
        {
            one.plan.algorithm: one.iterations
            for one in assess(given, constants.shipped_constants())
        }
        for given in (question, found)
    )
    for algorithm, method in METHODS.items():
        made_so_far = found.corner[method].iterations
        assert told[algorithm].low >= made_so_far
        assert told[algorithm].point >= max(plain[algorithm].point, made_so_far)


def test_a_tolerance_that_time_does_not_suffice_for_is_extrapolated(monkeypatch) -> None:
    *_, problem, begin, question = asked(*made(4000, 10), epsilon=1e-3)
    loose = replace(question, options=replace(question.options, epsilon=trials.LOOSE))
    first = trials.try_methods(problem, begin, loose, 60.0).corner
    run = Corner.try_from

    def until_it_is_loose(given, method, v, seconds):
        return run(given, method, v, seconds if given.epsilon == trials.LOOSE else 0.0)

    monkeypatch.setattr(Corner, "try_from", until_it_is_loose)
    found = trials.try_methods(problem, begin, question, 60.0)
    for method, seen in found.corner.items():
        expected = trials.GROWTH[method] * first[method].iterations
        assert (seen.ended, seen.whole) == (True, False)
        assert seen.iterations == pytest.approx(expected)
    assert len(trials.open_methods(found)) == len(METHODS)


@pytest.mark.parametrize(
    "options",
    [{"l1": 0.01}, {"class_weight": "balanced"}, {"converge": "loss"}],
)
def test_what_it_is_not_for(options) -> None:
    *_, problem, begin, question = asked(*made(500, 4), **options)
    assert trials.try_methods(problem, begin, question, 60.0) is question


def test_smooth_losses_have_none() -> None:
    *_, problem, begin, question = asked(*made(500, 4), task="logistic")
    assert trials.try_methods(problem, begin, question, 60.0) is question


def test_the_planner_tries_where_that_is_a_small_share(monkeypatch) -> None:
    """What it was told is what it expects; a short training is not worth it."""
    *_kept, plan, problem, begin, question = asked(*made(20_000, 8), epsilon=0.01)
    chosen = planning.decide(problem, begin, plan, question)
    assert chosen.asked is None or not chosen.asked.corner
    monkeypatch.setattr(planning, "most_overhead", lambda _: 60.0)
    monkeypatch.setattr(choice, "INSTANT", 0.0)
    chosen = planning.decide(problem, begin, plan, question)
    assert chosen.asked is not None
    corner = chosen.asked.corner
    expected = {one.plan.algorithm: one.iterations.point for one in chosen.candidates}
    for algorithm, method in METHODS.items():
        assert corner[method].ended
        assert expected[algorithm] == pytest.approx(corner[method].iterations)
