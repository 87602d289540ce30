"""Trainings whose spilled rows no longer fit into memory go on by a plan of fewer passes (QOOP).

What the system says of its memory is made up here, and so is what its disk takes, so that the same
plan takes less on whatever machine runs the tests. Rows, plans and switches are real.
"""

import json
import math
import re

import numpy as np
import pytest

from tuskml.learners.linear.algorithms.newton import NewtonStep
from tuskml.learners.linear.planner import planning, replanning
from tuskml.learners.linear.planner.cost import Costs
from tuskml.learners.linear.planner.curves import CustomSeconds, Question, Statistics
from tuskml.learners.machine import constants, reading
from tuskml.schedule import shares

pytestmark = pytest.mark.native

N, D = 40_000, 24
ROWS = f"""
CREATE TABLE rows AS
SELECT (hash(i, 99) % 1000 / 1000 < 1 / (1 + exp(-3 * x[1] + 2 * x[2])))::INT AS y, x
FROM (SELECT i, [list_sum([hash(i, j + k) % 1000 FOR k IN range(8)]) / 4000 - 1
                 FOR j IN range({D})]::FLOAT[] AS x
      FROM range({N}) r(i))
"""
"""Neighbouring features are alike, so that plans which follow gradients take many passes."""
LIMIT = 1 << 20
"""Bytes of rows in memory, of 4 MB."""
SWITCH = re.compile(r"(\w+) -> (\w+) at iteration ([\d,]+): rows (\w+) -> (\w+)")


@pytest.fixture
def rows(new_con, tmp_path, monkeypatch):
    """A pass for the curvature is slow beside one for the gradient, and a disk beside both."""
    monkeypatch.setattr(replanning, "SHORT", 0.0)
    monkeypatch.setattr(replanning, "LEAST_LEFT", 0.0)
    monkeypatch.setattr(replanning, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(shares, "now", lambda wanted: wanted)  # whatever else trains
    monkeypatch.setattr(Costs, "speedup", lambda self, kind, alone=False: SPEED.get(kind, 1.0))
    monkeypatch.setattr(reading, "PAGE_SECONDS", 0.1)
    new_con.execute("SET threads = 2")
    new_con.execute(ROWS)
    new_con.execute("SELECT tuskml_set_memory(?, ?)", [LIMIT, str(tmp_path)]).fetchall()
    return new_con


SPEED = {"curvature": 0.005}
"""Of passes, beside what they take; 1 of others."""
HELD, LEFT = math.inf, float(2 << 20)
"""Bytes for files, of which spilled rows take more."""


LIGHT = ("lbfgs", "newton_cg")
"""Plans whose passes are light, and many."""


def is_light(plan):
    return re.match(rf"({'|'.join(LIGHT)}), \d threads?", plan) is not None


def by_looks(monkeypatch, *room):
    """What is left for files when the plan is chosen, when it begins, and at later looks."""
    told = iter(room)
    monkeypatch.setattr(shares, "memory", lambda: next(told, room[-1]))


def trained(con, **options):
    options = {"epsilon": 1e-9, **options}
    text = f"SELECT train_model('logistic', y, x, '{json.dumps(options)}') FROM rows"
    return con.execute(text).fetchone()[0]


def test_rows_that_leave_the_memory_are_read_by_a_plan_of_fewer_passes(rows, monkeypatch):
    by_looks(monkeypatch, HELD)
    kept = trained(rows)
    assert is_light(kept["plan"])
    by_looks(monkeypatch, HELD, HELD, HELD, HELD, LEFT)
    model = trained(rows)
    ((before, after, made, *where),) = SWITCH.findall(model["plan"])
    assert (before in LIGHT, after, where) == (True, "newton", ["memory", "disk"])
    assert int(made) == 2
    assert model["converged"]
    assert model["loss"] == pytest.approx(kept["loss"], rel=1e-12)
    assert np.allclose(model["coef"], kept["coef"], rtol=0, atol=1e-6)  # 1e-9 over the curvature
    given_up = json.loads(model["options"])["actual"]["given_up"]
    assert [one["algorithm"] for one in given_up] == [before]


def test_gradients_correct_the_curvature_of_the_plan_that_takes_over(rows, monkeypatch):
    """So that fewer passes follow the one for the curvature."""

    def iterations():
        by_looks(monkeypatch, HELD, HELD, HELD, HELD, LEFT)
        model = trained(rows)
        assert SWITCH.search(model["plan"])
        assert model["converged"]
        return model["iterations"]

    corrected = iterations()
    usual = NewtonStep.__init__

    def uncorrected(self, *given):
        usual(self, *given)
        self.pairs = None

    monkeypatch.setattr(NewtonStep, "__init__", uncorrected)
    assert corrected < iterations()


def test_rows_that_come_back_are_read_by_the_plan_of_light_passes(rows, monkeypatch):
    by_looks(monkeypatch, LEFT, LEFT, LEFT, HELD)
    model = trained(rows)
    ((before, after, _, *where),) = SWITCH.findall(model["plan"])
    assert (before, after in LIGHT, where) == ("newton", True, ["disk", "memory"])
    assert model["converged"]


def test_memory_may_be_replayed(rows, monkeypatch, tmp_path):
    path = tmp_path / "shares"
    path.write_text("0 2 1\n0.0001 2 2")
    monkeypatch.setenv(shares.REPLAY, str(path))
    monkeypatch.setattr(planning, "not_cached", lambda spilled, room: 0.0)
    ((before, after, *_),) = SWITCH.findall(trained(rows)["plan"])
    assert (before in LIGHT, after) == (True, "newton")


def test_rows_that_were_not_spilled_stay_in_memory(rows, monkeypatch, tmp_path):
    rows.execute("SELECT tuskml_set_memory(?, ?)", [1 << 30, str(tmp_path)]).fetchall()
    by_looks(monkeypatch, LEFT)
    assert is_light(trained(rows)["plan"])


@pytest.mark.parametrize(
    "options", [{"deterministic": True}, {"algorithm": "lbfgs"}, {"max_iter": 50}], ids=str
)
def test_trainings_that_keep_their_plan(rows, monkeypatch, options):
    by_looks(monkeypatch, HELD, HELD, HELD, LEFT)
    assert SWITCH.search(trained(rows, **options)["plan"]) is None


def test_deterministic_trainings_are_the_same_bits_in_any_memory(rows, monkeypatch):
    by_looks(monkeypatch, HELD)
    alone = trained(rows, deterministic=True)
    by_looks(monkeypatch, LEFT, HELD, LEFT)
    model = trained(rows, deterministic=True)
    assert (model["coef"], model["plan"]) == (alone["coef"], alone["plan"])


def test_both_changes_are_named():
    before = replanning.Resources(2, 2**30, 0.0)
    after = replanning.Resources(1, 2**30, 4e9)
    assert before.describe_change(after) == "share 2 -> 1 and rows memory -> disk"


def test_no_plan_takes_over_that_needs_much_of_the_memory_that_is_left(rows, monkeypatch):
    """A container that has none left is killed."""
    by_looks(monkeypatch, HELD, HELD, HELD, HELD, LEFT)
    monkeypatch.setattr(replanning, "OF_FREE", 1000 / LEFT)  # newton needs 40 kB
    assert SWITCH.search(trained(rows)["plan"]) is None


def test_the_system_is_not_asked_for_its_memory_at_each_iteration(monkeypatch):
    """Within LOOK_EVERY seconds it is what was found before."""
    asked = []
    monkeypatch.setattr(replanning, "LOOK_EVERY", 1e9)
    monkeypatch.setattr(shares, "memory", lambda: asked.append(1) or LEFT)
    seen = replanning.Replanning(None, None, 2, 0, replanning.Resources(2, np.inf), spilled=10)
    assert [seen.free_memory() for _ in range(3)] == [LEFT] * 3
    assert len(asked) == 1


def test_passes_that_were_timed_on_a_few_rows_read_the_disk_too():
    """The few rows were in memory."""
    seen = Statistics(1 << 20, 10, False, 1 << 20, 10 << 20, on_disk=float(1 << 30))
    timed = {"pass gradient": CustomSeconds(0.0, 0.5, None)}
    costs = Costs(Question(None, None, seen, 2, measured=timed), constants.shipped_constants())
    assert costs.rows_pass("gradient") == 0.5 + reading.scan_seconds(1 << 30)
