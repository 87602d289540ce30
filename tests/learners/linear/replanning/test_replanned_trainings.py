"""Trainings whose share of the cores changes go on by the plan that takes least (QOOP).

What threads gain is made up here, so that another plan takes less with another share whatever
machine runs the tests. Trainings, plans and switches are real.
"""

import json
import re

import numpy as np
import pytest

from tuskml.kernels.structures import MemoryUse
from tuskml.learners.linear.planner import replanning
from tuskml.learners.linear.planner.cost import Costs
from tuskml.schedule import budget, shares

pytestmark = pytest.mark.native


@pytest.fixture
def rows(correlated):
    return correlated


@pytest.fixture(autouse=True)
def short_trainings_too(monkeypatch):
    monkeypatch.setattr(budget, "processors", lambda: 2)  # on a machine with one, too
    monkeypatch.setattr(replanning, "SHORT", 0.0)
    monkeypatch.setattr(replanning, "LEAST_LEFT", 0.0)


def gains(monkeypatch, alone, together):
    """Passes are so many times faster than they are, by one thread and by two: those for the
    curvature, and those for the gradient."""

    def speedup(self, kind, alone_in_group=False):
        return (alone if self.question.threads == 1 else together)[kind != "curvature"]

    monkeypatch.setattr(Costs, "speedup", speedup)


NEWTON, FIRST_ORDER = (10.0, 0.02), (0.02, 1.0)
"""What makes newton the best plan, and what makes it the worst."""


def by_looks(monkeypatch, *threads):
    """The training's share at its first looks, of which the first is before its plan begins; then
    the last of them."""
    told = iter(threads)
    monkeypatch.setattr(replanning.shares, "now", lambda wanted: next(told, threads[-1]))


def replayed(monkeypatch, tmp_path, *lines):
    path = tmp_path / "shares"
    path.write_text("\n".join(lines))
    monkeypatch.setenv(shares.REPLAY, str(path))


def trained(con, **options):
    options = {"epsilon": 1e-9, **options}
    text = f"SELECT train_model('logistic', y, x, '{json.dumps(options)}') FROM rows"
    return con.execute(text).fetchone()[0]


SWITCH = re.compile(r"(\w+) -> (\w+) at iteration ([\d,]+): share (\d+) -> (\d+)")


def test_a_smaller_share_goes_on_by_the_plan_that_takes_less(rows, monkeypatch):
    gains(monkeypatch, alone=FIRST_ORDER, together=NEWTON)
    kept = trained(rows)
    assert kept["plan"].startswith("newton")
    by_looks(monkeypatch, 2, 2, 1)
    model = trained(rows)
    ((before, after, made, *share),) = SWITCH.findall(model["plan"])
    assert (before, after, share) == ("newton", "lbfgs", ["2", "1"])
    assert model["plan"].startswith("lbfgs, newton -> lbfgs at iteration")
    assert int(made) == 1
    assert model["iterations"] > 1
    assert model["converged"]
    assert np.allclose(model["coef"], kept["coef"], rtol=0, atol=1e-7)
    given_up = json.loads(model["options"])["actual"]["given_up"]
    assert [one["algorithm"] for one in given_up] == ["newton"]


def test_shares_may_be_replayed(rows, monkeypatch, tmp_path):
    gains(monkeypatch, alone=NEWTON, together=FIRST_ORDER)
    replayed(monkeypatch, tmp_path, "0 2", "0.0001 1")
    model = trained(rows)
    ((before, after, *_),) = SWITCH.findall(model["plan"])
    assert (before, after) == ("lbfgs", "newton")
    assert model["converged"]


def test_there_and_back(rows, monkeypatch):
    gains(monkeypatch, alone=FIRST_ORDER, together=NEWTON)
    by_looks(monkeypatch, 2, 2, 1, 1, 2)
    model = trained(rows)
    names = [one[:2] for one in SWITCH.findall(model["plan"])]
    assert names[:2] == [("newton", "lbfgs"), ("lbfgs", "newton")]
    assert model["converged"]


def test_a_plan_that_takes_a_little_less_changes_nothing(rows, monkeypatch, tmp_path):
    gains(monkeypatch, alone=FIRST_ORDER, together=NEWTON)
    replayed(monkeypatch, tmp_path, "0 2", "0.0001 1")
    monkeypatch.setattr(replanning, "next_plan", lambda left, running: real(left, running, 1e9))
    assert SWITCH.search(trained(rows)["plan"]) is None


real = replanning.next_plan


@pytest.mark.parametrize(
    "options",
    [
        {"deterministic": True},
        {"algorithm": "newton"},
        {"max_iter": 50},
        {"validation": 0.1},
        {"converge": "loss"},
    ],
    ids=str,
)
def test_trainings_that_keep_their_plan(rows, monkeypatch, tmp_path, options):
    gains(monkeypatch, alone=FIRST_ORDER, together=NEWTON)
    replayed(monkeypatch, tmp_path, "0 2", "0.0001 1")
    assert SWITCH.search(trained(rows, **options)["plan"]) is None


def test_deterministic_trainings_are_the_same_bits_at_any_share(rows, monkeypatch, tmp_path):
    alone = trained(rows, deterministic=True)
    replayed(monkeypatch, tmp_path, "0 1", "0.003 2", "0.006 1")
    model = trained(rows, deterministic=True)
    assert model["coef"] == alone["coef"]
    assert model["plan"] == alone["plan"]


@pytest.mark.parametrize("name", ["SHORT", "LEAST_LEFT"])
def test_short_trainings_keep_their_plan(rows, monkeypatch, tmp_path, name):
    gains(monkeypatch, alone=FIRST_ORDER, together=NEWTON)
    replayed(monkeypatch, tmp_path, "0 2", "0.0001 1")
    monkeypatch.setattr(replanning, name, 1e9)
    assert SWITCH.search(trained(rows)["plan"]) is None


def test_plans_that_no_longer_fit_the_memory_are_left(rows, monkeypatch):
    gains(monkeypatch, (10.0, 1.0), (10.0, 1.0))
    monkeypatch.setattr(replanning, "FLOOR", 0)
    told = iter([1 << 40] * 3)

    def use(memory):
        return MemoryUse(budget=next(told, 20_000))  # which lbfgs fits in

    monkeypatch.setattr(replanning, "memory_use", use)
    model = trained(rows)
    assert "newton -> lbfgs at iteration" in model["plan"]
    assert "memory 1,048,576 -> 0.02 MiB" in model["plan"]


def test_the_best_weights_are_where_it_goes_on(rows, monkeypatch):
    """Those of an earlier plan, where the one after it has worse ones (backtracking)."""
    seen = replanning.Replanning(None, None, 2, 0, replanning.Resources(2, np.inf))

    class State:
        def __init__(self, at):
            self.v = np.array([[at]])

    for at, error in [(1.0, 0.5), (2.0, 0.1), (3.0, 0.7)]:
        seen.points = [(1, error)]
        seen.keep(State(at))
    assert seen.beginning().v == [[2.0]]


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "expected lines"), ("0 2\n0 1", "expected lines"), ("0 zero", "cannot be read"),
     ("0 0", "at least 1"), (None, "cannot be read"), ("0 2 9\n1 2", "cannot be read"),
     ("0 2 -1", "in all lines or none MiB"), ("0 2 nan", "MiB"), ("0 2 9 9", "MiB")],
)  # fmt: skip
def test_shares_that_cannot_be_replayed(rows, monkeypatch, tmp_path, text, why):
    path = tmp_path / "shares"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(shares.REPLAY, str(path))
    with pytest.raises(Exception, match=why):
        trained(rows)
