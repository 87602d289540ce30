"""Algorithms of the user's own as candidates of the planner."""

import json
from dataclasses import replace

import numpy as np
import pytest
from fitting import fit, put
from own import POISSON, own_things
from rows import block, together
from scipy.optimize import minimize

import tuskml
from tuskml.kernels.passes import Pass
from tuskml.learners.linear.objective import describe, start
from tuskml.learners.linear.operators import State
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import planning, trials
from tuskml.learners.linear.planner.curves import CustomSeconds
from tuskml.learners.linear.planner.planning import first_plan
from tuskml.learners.linear.request import Request
from tuskml.learners.registry import task_named

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def _registered():
    with own_things():
        tuskml.register_task("own_poisson", **POISSON)
        yield


@pytest.fixture
def counts(con):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(4000, 3))
    y = rng.poisson(np.exp(x @ [0.5, -0.3, 0.0]))
    put(con, x, y)
    return x, y


def candidates(con, task="own_poisson", **options):
    """The candidates of an explanation, by name."""
    text = json.dumps(options | {"format": "json"})
    (found,) = con.execute(f"SELECT explain_training('{task}', y, x, '{text}') FROM t").fetchone()
    return {one["algorithm"]: one for one in json.loads(found)["candidates"]}


def test_it_is_listed_with_measured_costs(con, counts):
    tuskml.register_algorithm("mine", "bgd")
    tuskml.register_algorithm("shy", "bgd", candidate=False)
    found = candidates(con)
    assert "shy" not in found
    assert found["mine"]["refusal"] is None
    assert found["mine"]["seconds_per_iteration"] > 0
    assert "only a trial shows its time" in candidates(con, threads=1)["mine"]["refusal"]
    assert "mine" in candidates(con, "linear")


def test_one_that_fails_is_none_and_harms_nobody(con, counts):
    tuskml.register_algorithm("broken", "bgd", update=lambda setting: 1 / 0)
    refusal = candidates(con)["broken"]["refusal"]
    assert "update of algorithm 'broken' raised ZeroDivisionError" in refusal
    assert fit(con, "own_poisson").status == "ok"


def test_costs_grow_with_the_rows(con, counts, monkeypatch):
    """By a clock that the rows drive: two seconds of setup, a second for each row and pass."""
    clock = [0.0]
    monkeypatch.setattr(trials.time, "perf_counter", lambda: clock[0])
    real = Pass.gradient

    def gradient(rows, weights):
        clock[0] += float(rows.groups["n_rows"].sum())
        return real(rows, weights)

    def stage(setting):
        def begin(problem):
            clock[0] += 2.0
            return State.at(setting.start)

        return begin

    monkeypatch.setattr(Pass, "gradient", gradient)
    tuskml.register_algorithm("mine", "bgd", stage=stage, update=lambda s: lambda *given: None)
    monkeypatch.setattr(trials, "FEW", 500)
    monkeypatch.setattr(trials, "MORE", 1000)
    x, y = counts
    groups = together([block(x, y.astype(float))])
    request = Request(task_named("own_poisson"), parse("{}"))
    plan, question = first_plan(groups, request)
    rows = Pass(groups, 0, None, None, True, 1)
    labels = rows.labels()
    problem = describe(rows, labels, plan, request)
    found = trials.time_custom_code(
        problem, start(problem, labels, request.options), question
    ).measured
    assert found["pass gradient"].iteration == pytest.approx(4000)
    assert found["mine"].iteration == pytest.approx(4000)
    assert found["mine"].setup == pytest.approx(4000 + 2)  # the first look, before any iteration


def test_auto_takes_it_where_it_is_best(con, counts, monkeypatch):
    """An algorithm that starts at the optimum, and so has nothing left to do."""
    x, y = counts
    wide = np.column_stack([x, np.ones(len(x))])
    optimum = minimize(
        lambda w: (np.exp(wide @ w) - y * (wide @ w)).mean(),
        np.zeros(4),
        jac=lambda w: wide.T @ (np.exp(wide @ w) - y) / len(y),
        options={"gtol": 1e-10},
    ).x

    def known(setting):
        return lambda problem: State.at(problem.from_caller(optimum[None]))

    fixed = {
        "pass gradient": CustomSeconds(0.0, 1.0, None),
        "pass curvature": CustomSeconds(0.0, 3.0, None),
    }
    fixed |= {name: CustomSeconds(0.1, 1.0, None) for name in ("known", "mgd")}
    monkeypatch.setattr(
        planning,
        "time_custom_code",
        lambda problem, start, question: replace(question, measured=fixed),
    )
    monkeypatch.setattr(planning, "trivial", lambda question: False)
    monkeypatch.setattr(planning, "budget", lambda seconds: 60.0)
    monkeypatch.setattr(
        planning, "worth_trying", lambda them: [one for one in them if one.refusal is None]
    )
    plain = fit(con, "own_poisson", epsilon=1e-7)
    tuskml.register_algorithm("known", "lbfgs", stage=known)
    model = fit(con, "own_poisson", epsilon=1e-7)
    assert plain.options["algorithm"] != "known"
    assert model.options["algorithm"] == "known"
    assert (model.iterations, model.status) == (0, "ok")
    np.testing.assert_allclose([*model.coef, model.intercept], optimum, rtol=1e-6)
