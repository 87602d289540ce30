"""Planning a batch: auto ends at the optimum whatever is chosen, and explanations are of use."""

import json
import re
import time

import numpy as np
import pytest
from fitting import fit, put
from rows import block, rows_pass

from tuskml.learners.linear import descent
from tuskml.learners.linear.algorithms import ALGORITHMS
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import calibration, choice, planning, trials
from tuskml.learners.linear.planner.choice import ELSEWHERE, assess
from tuskml.learners.linear.planner.explanation import by_total
from tuskml.learners.linear.planner.planning import (
    by_statistics,
    decide,
    first_plan,
    worth_trying,
)
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.tasks import LINEAR
from tuskml.learners.machine import constants
from tuskml.learners.machine.constants import shipped_constants

pytestmark = pytest.mark.native


@pytest.fixture
def everything_pays(monkeypatch):
    """Small trainings are planned like large ones, and time is no reason to stop."""
    monkeypatch.setattr(planning, "TRIVIAL", 0.0)
    monkeypatch.setattr(choice, "INSTANT", 0.0)
    monkeypatch.setattr(choice, "WORTH_TRYING", 0.0)
    monkeypatch.setattr(planning, "gain", lambda one, best: 1.0)
    monkeypatch.setattr(planning, "budget", lambda expected: 0.3)


def data(task, n=6000, d=40, seed=0):
    """Correlated features, a label that follows them with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) + 2 * rng.normal(size=(n, 1))
    y = x @ rng.normal(size=d) / np.sqrt(d) + rng.logistic(size=n)
    return x, y if task == "linear" else (y > 0).astype(float)


def problem(task="logistic", **sizes):
    """Its groups, and the objective."""
    x, y = data(task, **sizes)
    groups = block(x, y, "dense float32")
    shift, scale = x.mean(axis=0)[None], 1 / x.std(axis=0)[None]
    return groups, Problem(rows_pass(groups, task), LINEAR[task], 0.0, 0.0, shift, scale)


def explained(con, task, **options):
    query = f"SELECT explain_training('{task}', y, x, $1) FROM t"
    return con.execute(query, [json.dumps(options)]).fetchall()[0][0]


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("l1", [0.0, 0.01])
def test_auto_ends_at_the_optimum(con, everything_pays, task, l1):
    """Of every other algorithm that can; the plan tells what was expected of it."""
    put(con, *data(task))
    epsilon = 1e-3 if task == "svm" else 1e-6
    options = {"l1": l1, "l2": 0.01, "epsilon": epsilon}
    found = fit(con, task, **options)
    best = fit(con, task, algorithm="lbfgs", **options | {"epsilon": epsilon / 10})
    assert found.converged
    assert found.loss == pytest.approx(best.loss, rel=1e-6 if task != "svm" else 2e-3)
    assert re.search(r", estimated [\d,]+ iterations, [\d.,]+ (ms|s|min|h)$", found.plan)
    told = found.options["estimated"]
    assert told["iterations"] >= 0
    assert told["seconds"] > 0


def test_explanations_name_every_family(con, everything_pays):
    """Those that may run before the others, which have reasons; one of them is the plan."""
    put(con, *data("logistic"))
    text = explained(con, "logistic")
    lines = text.splitlines()
    table = lines[[i for i, line in enumerate(lines) if "iterations  " in line][-1] + 1 :]
    listed = [re.split(r"  +", line.strip())[0] for line in table]
    names = [name for names in listed for name in names.split(", ")]
    assert sorted(names) == sorted([*ALGORITHMS, *ELSEWHERE])
    plan = next(line.split()[1].rstrip(",") for line in lines if line.startswith("  plan "))
    assert [line.split()[0] for line in table if "chosen" in line] == [plan]
    refused = ["not possible: " in line for line in table]
    assert refused == sorted(refused)
    assert "max_iter is 20" in next(line for line in table if re.match(r"  sgd\b", line))


def test_explanations_say_what_cannot_be_met(con, everything_pays):
    """With the constraint to revisit and the best plan; the training still runs to its limit."""
    put(con, *data("logistic"))
    text = explained(con, "logistic", time="0.000001s")
    line = next(line for line in text.splitlines() if line.startswith("  cannot "))
    assert re.search(
        r"time 1e-06 s is too short for epsilon 1e-06: the best plan without it, \w+, is", line
    )
    model = fit(con, "logistic", time="0.000001s")
    assert model.status == "time limit"
    assert model.plan.endswith(", time is too little for epsilon 1e-06")
    assert "  cannot " not in explained(con, "logistic", time="1h")


def test_a_time_that_is_ample_does_not_change_the_plan_of_a_short_training(con):
    """Three rows on which dcd's steps shrink: as without `time` it is newton that trains."""
    x = np.array([[0.08, 0.845], [0.0886, 1.1486], [-0.101, 1.36]])
    put(con, x, [1.0, 0.0, 1.0])
    for options in ({}, {"time": "20s"}, {"time": "20s", "deterministic": True}):
        model = fit(con, "svm", l2=1000, **options)
        assert (model.status, model.options["algorithm"]) == ("ok", "newton")


@pytest.mark.parametrize("n", [200, 6000])
def test_too_few_iterations_are_told_before_training(con, n):
    """Of small trainings too, which are not planned otherwise."""
    put(con, *data("logistic", n=n))
    few = {"max_iter": 1, "l2": 0.01}
    line = next(
        line for line in explained(con, "logistic", **few).splitlines() if "  cannot " in line
    )
    assert "no plan reaches epsilon 1e-06 within max_iter 1" in line
    assert "raise max_iter or epsilon" in line
    model = fit(con, "logistic", **few)
    assert model.status == "not converged"
    assert "max_iter is too little for epsilon 1e-06" in model.plan
    enough = {"max_iter": 50, "l2": 0.01}
    assert "  cannot " not in explained(con, "logistic", **enough)
    assert "too little" not in fit(con, "logistic", **enough).plan


def test_what_was_said_to_be_too_little_and_was_not_is_not_told_again(con):
    """A feature that says nothing: no iteration is needed."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2.0
    put(con, np.stack([rng.permutation(400), y * 0], axis=1), y)
    loose = {"max_iter": 1, "epsilon": 0.3, "l2": 0.01}
    assert fit(con, "logistic", **loose).converged
    assert "too little" not in fit(con, "logistic", **loose).plan


def test_models_tell_what_iterations_took(con, everything_pays):
    """Beside the estimate; deterministic ones, which are the same bits each time, do not."""
    put(con, *data("logistic"))
    model = fit(con, "logistic", epsilon=1e-6)
    told = model.options["actual"]
    assert told["planning"] > 0
    stages = [told[name] for name in ("sample", "all rows") if name in told]
    assert sum(stage["iterations"] for stage in stages) == model.iterations
    for stage in stages:
        assert 0 < stage["each"] < 60
        assert 0 < stage["each_estimated"] < 60
    assert "actual" not in fit(con, "logistic", deterministic=True).options


@pytest.mark.parametrize("refine", [True, False])
def test_trainings_report_where_the_host_wants_to_know(con, everything_pays, monkeypatch, refine):
    monkeypatch.setattr(descent, "LEAST_SECONDS", 0.0)
    wanted = json.loads(constants.SHIPPED.read_text()) | {"refine": refine}
    constants.save(wanted, constants.host_file())
    put(con, *data("svm"))
    model = fit(con, "svm", epsilon=1e-2)
    fit(con, "svm", epsilon=1e-2, deterministic=True)
    reports = constants.read(constants.reports_file(constants.host_file()))
    assert len(reports) == refine
    for key, ratios in reports.items():
        assert key.startswith(f"{model.options['algorithm']} dense ")
        assert len(ratios) == 1


def test_what_was_asked_for_is_not_planned(con, everything_pays):
    put(con, *data("logistic"))
    model = fit(con, "logistic", algorithm="bgd")
    assert model.plan == f"bgd, step line_search, {model.options['threads']} threads"
    assert "estimated" not in model.options
    assert "iterations  " not in explained(con, "logistic", algorithm="bgd")


@pytest.mark.parametrize("how", [{"deterministic": True}, {"threads": 1}])
def test_deterministic_plans_try_nothing(con, everything_pays, monkeypatch, how):
    """Nor do they ask a clock, or this host's constants."""

    def never(*arguments):
        raise AssertionError("a deterministic training looks at no clock")

    monkeypatch.setattr(planning, "speculate", never)
    monkeypatch.setattr(constants, "of_host", never)
    put(con, *data("svm"))
    assert "estimated" not in fit(con, "svm", epsilon=1e-2, **how).plan
    assert "chosen" in explained(con, "svm", epsilon=1e-2, **how)


def test_one_class_and_three_are_explained(con, everything_pays):
    """One class, of which a training says so, and three, which have a plan of their own."""
    x, _ = data("linear", n=100)
    put(con, x, np.ones(100))
    assert "chosen" in explained(con, "logistic")
    put(con, x, np.arange(100.0) % 3)
    assert "3 classes" in explained(con, "logistic")


def test_trivial_trainings_are_not_looked_at(monkeypatch):
    groups, rows = problem(n=50, d=3)
    request = Request(LINEAR["logistic"], parse("{}"))
    own, question = first_plan(groups, request)
    monkeypatch.setattr(planning, "by_statistics", None)  # whoever calls it fails
    assert decide(rows, np.zeros((1, 4)), own, question).plan is own


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("n", [300, 5000, 50_000])
@pytest.mark.parametrize("epsilon", [0.1, 1e-3, 1e-6])
def test_a_look_at_a_few_families_chooses_like_one_at_all(task, n, epsilon):
    """What a quick training is planned by, and what an explanation shows."""
    groups, _ = problem(task, n=n, d=30)
    options = parse(json.dumps({"epsilon": epsilon}))
    own, question = first_plan(groups, Request(LINEAR[task], options))
    every, few = by_statistics(own, question), by_statistics(own, question, choice.BATCH)
    assert few.plan == every.plan
    assert few.note == every.note


def test_epsilon_zero_leaves_the_rule():
    groups, _ = problem(n=20_000, d=100)
    own, question = first_plan(groups, Request(LINEAR["svm"], parse('{"epsilon": 0}')))
    chosen = by_statistics(own, question)
    assert chosen.plan.algorithm == own.algorithm
    assert "epsilon 0" in chosen.plan.reason


def test_speculation_sees_what_training_sees():
    """Without a limit of time the sample is all rows: the errors are those of a training."""
    groups, rows = problem(n=3000, d=20)
    request = Request(LINEAR["logistic"], parse('{"epsilon": 1e-6}'))
    _, question = first_plan(groups, request)
    candidates = [
        one
        for one in assess(question, shipped_constants())
        if one.plan.algorithm in ("newton", "lbfgs")
    ]
    known = trials.speculate(rows, np.zeros((1, 21)), candidates, 60.0)
    assert set(known) == {"newton", "lbfgs"}
    for one in candidates:
        errors = known[one.plan.algorithm].curve.errors
        assert errors[0] > 0.01
        assert errors[-1] <= 1e-6
    for name, seen in known.items():
        found = {one.plan.algorithm: one for one in assess(question, shipped_constants(), known)}[
            name
        ]
        assert found.seen
        assert found.counted_iterations.point == len(seen.curve.errors) - 1


def test_speculation_without_time_tries_nothing():
    groups, rows = problem(n=3000, d=20)
    _, question = first_plan(groups, Request(LINEAR["logistic"], parse("{}")))
    candidates = assess(question, shipped_constants())
    assert trials.speculate(rows, np.zeros((1, 21)), candidates, 0.0) == {}


def test_speculation_ends_when_its_time_does():
    """After the iteration in work: the deadline was in the past before it began."""
    groups, rows = problem(n=3000, d=20)
    request = Request(LINEAR["logistic"], parse('{"epsilon": 1e-9}'))
    _, question = first_plan(groups, request)
    plan = next(
        one.plan for one in assess(question, shipped_constants()) if one.plan.algorithm == "bgd"
    )
    errors = trials.trial(rows, np.zeros((1, 21)), plan, 1, time.monotonic() - 1)
    assert len(errors) == 1


def test_a_trial_of_the_hinge_that_cannot_end_in_time_is_not_begun(monkeypatch):
    """Its end is all that tells: what would not be reached costs time and says nothing."""
    groups, rows = problem("svm", n=20_000, d=20)
    _, question = first_plan(groups, Request(LINEAR["svm"], parse("{}")))
    one = next(c for c in assess(question, shipped_constants()) if c.plan.algorithm == "lbfgs")
    begun = []
    monkeypatch.setattr(trials, "to_the_gap", lambda *args: begun.append(args))
    least = one.iterations.low * one.cost.iteration
    for seconds, tried in ((0.01 * least, 0), (2 * least, 1)):
        trials.speculate(rows, np.zeros((1, 21)), [one], seconds)
        assert len(begun) == tried


def test_only_what_may_matter_is_tried():
    groups, _ = problem(n=50_000, d=100)
    _, question = first_plan(groups, Request(LINEAR["linear"], parse("{}")))
    tried = worth_trying(assess(question, shipped_constants()))
    assert "newton" not in [one.plan.algorithm for one in tried]  # one iteration, for sure
    assert "bgd" not in [one.plan.algorithm for one in tried]  # never less than lbfgs
    ordered = by_total(assess(question, shipped_constants()))
    assert ordered[0].refusal is None


def test_budgets():
    """5 % of the training, or 2 ms."""
    assert trials.budget(10.0) == pytest.approx(0.5)
    assert trials.budget(0.2) == pytest.approx(0.01)
    assert trials.budget(0.01) == pytest.approx(0.002)


def test_a_calibration_measures_what_constants_need(monkeypatch):
    """On rows so few that it takes no time: the file that comes out is read."""
    monkeypatch.setattr(calibration, "ENTRIES", 1 << 10)
    monkeypatch.setattr(calibration, "TRIANGLES", 1 << 10)
    monkeypatch.setattr(calibration, "WIDTHS", {"dense": (8, 32), "sparse": (64, 128)})
    monkeypatch.setattr(calibration, "CURVED", {"dense": (8, 32), "sparse": (8, 32)})
    for algorithm in ALGORITHMS.values():
        if algorithm.step_widths:
            monkeypatch.setattr(type(algorithm), "step_widths", (8, 16))
    monkeypatch.setattr(calibration, "SIZES", {"dense": (1 << 9, 1 << 11), "sparse": (1 << 9,)})
    monkeypatch.setattr(calibration, "SIZED_WIDTH", {"dense": 8, "sparse": 64})
    told = []
    measured = calibration.measure(told.append)
    assert told == [*calibration.PASSES, "sizes", "steps"]
    path = constants.host_file()
    constants.save(measured, path)
    assert constants.of_host().source == str(path)
    assert constants.of_host().entry("gradient", "sparse float64", 100) > 0


@pytest.mark.parametrize("storage", constants.STORAGE)
def test_made_rows_are_rows(storage):
    """The layout is the packers': kernels see as many rows, of both classes."""
    with calibration.make_group(storage, 500, 40) as groups:
        rows = calibration.problem_of(groups, 1, "logistic").rows
        sums = rows.gradient(np.zeros((1, 41)))
        assert sums[0, 1] == 500
        assert sums[0, 0] == pytest.approx(500 * np.log(2), rel=1e-6)
        labels = rows.labels()
        assert (labels["low"][0], labels["high"][0]) == (0, 1)
        if rows.sparse:
            assert rows.nonzeros() == pytest.approx(500 * calibration.SPARSE_ROW, rel=0.1)
