"""The pass that planning makes in place of a training's first one."""

import json

import numpy as np
import pytest

from tuskml.kernels import passes
from tuskml.kernels.passes import Pass
from tuskml.learners.learner import Request
from tuskml.learners.linear import training
from tuskml.learners.linear.objective import describe, start
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.own.assembled import operators_of
from tuskml.learners.linear.planner import planning
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.tasks import LINEAR


def made(task, n=20_000, d=40, groups=1, **options):
    """Correlated normal features; the segment, the groups and the request."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((n, d)) @ (np.eye(d) + 0.3 * rng.standard_normal((d, d)))
    margin = x @ rng.standard_normal(d)
    margin /= margin.std()
    label = margin + rng.standard_normal(n)
    if LINEAR[task].classifies:
        label = (rng.random(n) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    kept, found = groups_of(label, [np.ascontiguousarray(x, np.float32)], 0, "dense float32", d)
    return kept, found, Request(LINEAR[task], parse(json.dumps(options)))


def planned(groups, request):
    plan, question = planning.first_plan(groups, request)
    rows = Pass(groups, request.task.loss, None, None, True, 1, cancel_mark=passes.cancel_mark())
    labels = rows.labels()
    problem = describe(rows, labels, plan, request)
    return planning.decide(problem, start(problem, labels, request.options), plan, question)


class Counted:
    """How many passes for the gradient alone, and for the curvature too, trainings make."""

    def __init__(self, monkeypatch):
        self.gradients = self.curvatures = 0
        evaluate = Problem.evaluate

        def counting(problem, v, curvature=False):
            self.curvatures += curvature
            self.gradients += not curvature
            return evaluate(problem, v, curvature)

        monkeypatch.setattr(Problem, "evaluate", counting)


@pytest.mark.parametrize("task", ["linear", "logistic"])
def test_a_training_makes_no_pass_more_than_its_plan_alone(monkeypatch, task):
    """Where the plan that begins by the curvature is chosen, the look at it costs no pass."""
    taken = {}
    for algorithm in ("auto", "newton"):
        with monkeypatch.context() as patch:
            seen = Counted(patch)
            kept, groups, request = made(task, algorithm=algorithm)
            models = next(iter(training.train(groups, request, 0)))
            del kept
        taken[algorithm] = seen.curvatures, seen.gradients, models.coef.values.tobytes()
    assert taken["auto"] == taken["newton"]


def test_the_look_is_made_and_tells_of_all_rows():
    kept, groups, request = made("logistic", epsilon=1e-4)
    chosen = planned(groups, request)
    assert chosen.kept is not None
    assert chosen.kept.stride == chosen.plan.sample_stride == 1
    assert chosen.asked.sketch.ratio == 0.0
    told = {one.plan.algorithm: one.counted_iterations.point for one in chosen.candidates}
    for name in ("lbfgs", "bgd"):
        options = parse(json.dumps({"algorithm": name, "epsilon": 1e-4}))
        models = next(iter(training.train(groups, Request(LINEAR["logistic"], options), 0)))
        took = int(models.iterations[0])
        assert (took + 1) / 2 <= told[name] + 1 <= 2 * (took + 1)
    del kept


def test_other_plans_take_over_the_gradient():
    """Those that begin by the gradient alone have that, too."""
    kept, groups, request = made("linear")
    chosen = planned(groups, request)
    rows = Pass(groups, request.task.loss, None, None, True, 1, cancel_mark=passes.cancel_mark())
    problem = describe(rows, rows.labels(), chosen.plan, request)
    first = np.zeros((1, problem.d + 1))
    for name, curved in (("newton", True), ("lbfgs", False), ("bgd", False)):
        request = Request(LINEAR["linear"], parse(json.dumps({"algorithm": name})))
        plan, _ = planning.first_plan(groups, request)
        operators = chosen.kept.reuse(operators_of(problem, plan, first, None), problem)
        state = operators.stage(problem)
        found = operators.compute(problem, state)
        assert np.array_equal(found.gradient, chosen.kept.found.gradient)
        assert (found.hessian is not None) == curved
    stochastic = Request(LINEAR["linear"], parse('{"algorithm": "svrg"}'))
    plan, _ = planning.first_plan(groups, stochastic)
    operators = operators_of(problem, plan, first, None)
    assert chosen.kept.reuse(operators, problem) is operators
    del kept


def test_what_has_to_be_reproducible_is_not_looked_at():
    kept, groups, request = made("logistic", deterministic=True)
    assert planned(groups, request).kept is None
    del kept


def test_a_short_time_limit_leaves_no_time_for_a_look():
    kept, groups, request = made("logistic", time="0.001s")
    assert planned(groups, request).kept is None
    del kept
