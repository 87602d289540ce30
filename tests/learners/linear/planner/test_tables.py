"""What tables say where there is no sketch, against what trainings take."""

import json

import numpy as np
import pytest

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.learners.learner import Request
from tuskml.learners.linear import training
from tuskml.learners.linear.algorithms import ALGORITHMS, newton_cg
from tuskml.learners.linear.objective import describe, start
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import guard, planning
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.planner.candidates import choose
from tuskml.learners.linear.planner.choice import assess, select
from tuskml.learners.linear.planner.curves import decades
from tuskml.learners.linear.planner.guard import Before, next_best
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine.constants import shipped_constants

FEATURES, EACH = 700, 12


def words(n=6000, seed=4):
    """Rows of twelve of 700 features, mostly of one topic: the segment and the groups."""
    rng = np.random.default_rng(seed)
    near = 35 * rng.integers(0, 20, (n, 1)) + rng.integers(0, 50, (n, EACH))
    far = np.minimum(FEATURES ** rng.random((n, EACH)), FEATURES - 1)
    ids = np.where(rng.random((n, EACH)) < 0.7, near % FEATURES, far).astype(np.int32)
    ids.sort(axis=1)
    margin = rng.standard_normal(FEATURES)[ids].sum(axis=1)
    margin /= margin.std()
    classes = (rng.random(n) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    arrays = [np.arange(0, n * EACH + 1, EACH, dtype=np.uint32), ids.ravel()]
    arrays.append(np.ones(n * EACH, np.float32))
    return groups_of(classes, arrays, n * EACH, "sparse float32", FEATURES)


def tones(n=20_000, d=12, seed=8):
    """Sines and cosines of a time, nearly collinear: the segment and the groups."""
    rng = np.random.default_rng(seed)
    t = rng.random(n) * 20
    frequency = np.sort(rng.uniform(0.2, 3.0, d // 2))
    x = np.concatenate([np.sin(np.outer(t, frequency)), np.cos(np.outer(t, frequency))], axis=1)
    margin = np.sin(1.3 * t) + 0.5 * np.cos(2.1 * t)
    classes = (rng.random(n) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    return groups_of(classes, [np.ascontiguousarray(x, np.float32)], 0, "dense float32", d)


def asking(task, **options):
    return Request(LINEAR[task], parse(json.dumps(options)))


def trained(groups, task, **options):
    return next(iter(training.train(groups, asking(task, **options), 0)))


@pytest.mark.parametrize("l2", [1e-3, 1e-5])
@pytest.mark.parametrize("algorithm", ["lbfgs", "newton_cg"])
def test_of_sparse_rows_the_penalty_tells(monkeypatch, algorithm, l2):
    """Without a sketch too iterations, or products, are within 2.5 times."""
    segment, groups = words()
    made = []
    times = newton_cg.Curvature.times

    def counted(self, direction):
        made.append(1)
        return times(self, direction)

    monkeypatch.setattr(newton_cg.Curvature, "times", counted)
    models = trained(groups, "logistic", epsilon=1e-6, l2=l2, algorithm=algorithm)
    assert models.converged[0]
    _, question = planning.first_plan(groups, asking("logistic", epsilon=1e-6, l2=l2))
    assert question.sketch is None
    if algorithm == "lbfgs":
        told, took = ALGORITHMS["lbfgs"].usual(question, 6.0).point, int(models.iterations[0])
    else:
        told, took = newton_cg.products_of(question, 6.0), len(made)
    assert took / 2.5 <= told <= 2.5 * took
    del segment


def test_on_sparse_rows_conjugate_gradients_may_go_on():
    """Where `lbfgs` falls behind; on dense ones `newton` does, which no condition slows down."""
    for sparse in (True, False):
        segment, groups = words() if sparse else tones()
        plan, question = planning.first_plan(groups, asking("logistic", epsilon=1e-6, l2=1e-5))
        candidates = assess(question, shipped_constants())
        chosen = select(question, candidates, plan)
        mine = next(one for one in candidates if one.plan.algorithm == "lbfgs")
        other = next_best(chosen, mine, Before(), question.seen.sparse)
        assert other.plan.algorithm == ("newton_cg" if sparse else "newton")
        del segment


@pytest.mark.sample(1)
@pytest.mark.parametrize("epsilon", [1e-2, 1e-3])
def test_nearly_collinear_features_are_not_left_to_gradients_at_the_hinge(epsilon):
    """They take `bgd` many times the iterations that are expected of it."""
    segment, groups = tones()
    request = asking("svm", epsilon=epsilon)
    plan, question = planning.first_plan(groups, request)
    rows = Pass(groups, request.task.loss, None, None, True, 1, cancel_mark=passes.cancel_mark())
    problem = describe(rows, rows.labels(), plan, request)
    begin = start(problem, rows.labels(), request.options)
    chosen = planning.decide(problem, begin, plan, question)
    told = {one.plan.algorithm: one.counted_iterations.point for one in chosen.candidates}
    assert chosen.plan.algorithm != "bgd"
    most = 2 * int(told["bgd"]) + 2  # where it ends if it has not converged before
    models = trained(groups, "svm", epsilon=epsilon, algorithm="bgd", max_iter=most)
    assert int(models.iterations[0]) > 2 * told["bgd"]
    del segment


def test_epochs_of_svrg_at_the_hinge_are_within_four_times():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((20_000, 12))
    margin = x @ rng.standard_normal(12)
    classes = (rng.random(len(x)) < 1 / (1 + np.exp(-margin))).astype(float)
    segment, groups = groups_of(classes, [x.astype(np.float32)], 0, "dense float32", 12)
    request = asking("svm", epsilon=1e-2, algorithm="svrg")
    took = int(trained(groups, "svm", epsilon=1e-2, algorithm="svrg").iterations[0])
    _, question = planning.first_plan(groups, asking("svm", epsilon=1e-2))
    told = ALGORITHMS["svrg"].usual(question, decades(request.options.epsilon)).point
    assert took / 4 <= told <= 4 * took
    assert choose(request.task, request.options, question.seen).algorithm == "svrg"
    del segment


def test_the_guard_tells_sparse_rows_from_dense_ones(monkeypatch):
    """`guard_for` hands on how rows are kept."""
    seen = []
    monkeypatch.setattr(guard, "next_best", lambda *given: seen.append(given[3]))
    for segment, groups in (words(), tones()):
        plan, question = planning.first_plan(groups, asking("logistic", epsilon=1e-6, l2=1e-5))
        chosen = select(question, assess(question, shipped_constants()), plan)
        rows = Pass(groups, question.task.loss, None, None, True, 1)
        problem = describe(rows, rows.labels(), plan, asking("logistic", l2=1e-5))
        assert guard.guard_for(problem, chosen, question, Before()) is None
        del segment
    assert seen == [True, False]
