"""A plan that falls behind its estimate is given up for one that is known well."""

import json
import re

import numpy as np
import pytest
from fitting import put

from tuskml.learners.linear.algorithms import bgd, newton_cg
from tuskml.learners.linear.planner import guard
from tuskml.learners.linear.planner.curves import Interval
from tuskml.learners.linear.planner.iterations import iterations_left

pytestmark = pytest.mark.native


def ill_conditioned(task, n=16_000, d=300, condition=1e4, seed=3):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.standard_normal((d, d)))
    x = rng.standard_normal((n, d)) * np.sqrt(condition ** -np.linspace(0, 1, d)) @ turn
    margin = x @ rng.standard_normal(d)
    y = margin / margin.std() + rng.logistic(size=n)
    return x.astype(np.float32), y if task == "linear" else (y > 0).astype(float)


def few_iterations(monkeypatch, algorithm):
    """The planner believes that an algorithm takes next to nothing."""
    monkeypatch.setattr(type(algorithm), "usual", lambda self, question, k: Interval(2, 3, 4))


def few_products(monkeypatch):
    """The same of conjugate gradients."""
    few_iterations(monkeypatch, newton_cg.ALGORITHM)
    monkeypatch.setattr(newton_cg, "products_of", lambda question, k: 2.0)


def train(con, task, **options):
    given = json.dumps({"epsilon": 1e-6, "l2": 1e-6} | options)
    query = f"SELECT unnest([train_model('{task}', y, x, $1)]) FROM t"
    return con.execute(query, [given]).fetchall()[0][0]


def believing(monkeypatch, name):
    few_products(monkeypatch) if name == "newton_cg" else few_iterations(
        monkeypatch, bgd.ALGORITHM
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("task", ["linear", "logistic"])
@pytest.mark.parametrize("wrong", ["bgd", "newton_cg"])
def test_another_plan_goes_on(con, monkeypatch, task, wrong):
    put(con, *ill_conditioned(task), storage="FLOAT")
    truth = train(con, task, algorithm="newton")
    believing(monkeypatch, wrong)
    model = train(con, task)
    told = re.search(rf"^newton, after ([\d,]+) iterations of {wrong}, ", model["plan"])
    assert told, model["plan"]
    assert model["converged"]
    assert model["status"] == "ok"
    before = json.loads(model["options"])["actual"]["given_up"]
    assert [one["algorithm"] for one in before] == [wrong]
    assert model["iterations"] > before[0]["iterations"] == int(told[1].replace(",", ""))
    np.testing.assert_allclose(model["coef"], truth["coef"], rtol=2e-3, atol=2e-3)


@pytest.mark.nightly
def test_without_the_guard_the_plan_stays(con, monkeypatch):
    put(con, *ill_conditioned("linear"), storage="FLOAT")
    believing(monkeypatch, "bgd")
    monkeypatch.setattr(guard, "guard_for", lambda *args: None)
    assert train(con, "linear", time="1s")["plan"].startswith("bgd, step line_search")


def test_explanations_name_the_switch(con, monkeypatch):
    put(con, *ill_conditioned("linear"), storage="FLOAT")
    believing(monkeypatch, "bgd")
    told = train(con, "linear", explain=True)["plan"]
    assert re.search(
        r"because   bgd fell behind its estimate of 3 iterations .* newton goes", told
    )


@pytest.mark.parametrize(
    "option",
    [
        *(
            pytest.param(one, marks=pytest.mark.nightly)
            for one in ({"deterministic": True}, {"threads": 1})
        ),
        {"max_iter": 50},
    ],
)
def test_what_has_to_be_reproducible_keeps_its_plan(con, monkeypatch, option):
    put(con, *ill_conditioned("linear"), storage="FLOAT")
    believing(monkeypatch, "bgd")
    assert "given_up" not in train(con, "linear", **option)["options"]


def test_a_plan_that_does_as_expected_stays(con):
    put(con, *ill_conditioned("logistic", condition=1.0), storage="FLOAT")
    assert "given_up" not in train(con, "logistic")["options"]


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("epsilon", [1e-4, 1e-9])
def test_iterations_that_are_left_of_a_linear_rate(rate, epsilon):
    errors = [rate**i for i in range(20)]
    every = np.log(epsilon) / np.log(rate)
    assert iterations_left(list(enumerate(errors)), epsilon) == pytest.approx(
        max(every - 19, 0.0), rel=1e-9
    )


def test_what_does_not_fall_never_arrives():
    assert iterations_left(list(enumerate([1.0] * 10)), 1e-3) == np.inf
    assert iterations_left([(0, 1.0), (1, 1e-4)], 1e-3) == 0.0


@pytest.mark.nightly
def test_a_plan_that_used_up_its_iterations_is_not_the_last(con, monkeypatch):
    """Nobody has asked for so few: the next plan goes on. Of a `max_iter` that was asked for the
    plan is the last."""
    put(con, *ill_conditioned("linear"), storage="FLOAT")
    believing(monkeypatch, "bgd")
    monkeypatch.setattr(guard, "LEAST_SECONDS", 1e9)  # no look at errors tells
    monkeypatch.setattr(type(bgd.ALGORITHM), "max_iter", 30)
    model = train(con, "linear")
    assert model["plan"].startswith("newton, after 30 iterations of bgd, ")
    assert model["converged"]
    told = train(con, "linear", explain=True)["plan"]
    assert "because   bgd did not converge within its estimate of 3 iterations" in told
    assert not train(con, "linear", max_iter=30, algorithm="bgd")["converged"]
