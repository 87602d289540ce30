"""The option `time` and a cancel end what takes long in an iteration: curvature and Cholesky."""

import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from fitting import model_of, put
from rows import block, rows_pass

from tuskml.errors import Interrupted
from tuskml.udas import kernels
from tuskml.udas.algorithms import newton
from tuskml.udas.kernels import solve
from tuskml.udas.library import OutOfTime
from tuskml.udas.operators import run
from tuskml.udas.plan import Plan
from tuskml.udas.problem import Problem
from tuskml.udas.tasks import TASKS

WIDE = 1500
"""Weights whose system takes some 10^9 multiplications one after another, far beyond 20 ms."""


def system(p):
    """A packed identity, (1, p (p + 1) / 2), and a right side."""
    packed = np.zeros((1, p * (p + 1) // 2))
    j = np.arange(p)
    packed[:, j * (j + 1) // 2 + j] = 1.0
    return packed, np.ones((1, p))


def test_a_deadline_ends_a_cholesky_factorization():
    packed, right = system(WIDE)
    for wait in (-1.0, 0.02):
        with pytest.raises(OutOfTime):
            solve(packed, right, 1, deadline=time.monotonic() + wait)


def test_a_cancel_ends_a_cholesky_factorization():
    packed, right = system(WIDE)
    mark = kernels.cancel_count()
    threading.Timer(0.02, kernels.cancel).start()
    with pytest.raises(Interrupted):
        solve(packed, right, 1, cancel_mark=mark)


def test_without_a_deadline_nothing_changes():
    packed, right = system(40)
    there = solve(packed, right, 1, deadline=time.monotonic() + 3600, cancel_mark=-1)
    assert np.array_equal(there.step, right)


@pytest.fixture
def problem():
    """Rows of more features than the curvature's product takes between two looks at the clock."""
    rng = np.random.default_rng(0)
    rows = rows_pass(block(rng.normal(size=(40, 600)), rng.normal(size=40)), "linear")
    return Problem(rows, TASKS["linear"], 0.0, 0.1, np.zeros((1, 600)), np.ones((1, 600)))


def plan_of(max_iter=5):
    return Plan(
        "newton", max_iter, 1e-9, "gradient", "auto", "constant", 1, False, False, False, 0, 1,
        (0.0,), 1, "",
    )  # fmt: skip


@pytest.mark.parametrize("left", [-1.0, 3600.0])
def test_a_pass_for_the_curvature_ends_the_loop(problem, left):
    """The weights are those before the pass; the state says why."""
    part = problem.on(replace(problem.rows, deadline=time.monotonic() + left))
    start = np.full((1, part.d + 1), 0.25)
    state = run(part, newton.operators(part, plan_of(1), start, None))
    assert state.out_of_time == (left < 0)
    assert np.array_equal(state.v, start) == (left < 0)


def test_through_sql(con):
    """A model comes back, with the status and a loss that is that of its weights."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(50, 900)), rng.normal(size=50)
    put(con, x, y)
    options = {"algorithm": "newton", "l2": 0.1, "time": "0.001s"}
    query = f"SELECT train_model('linear', y, x, '{json.dumps(options)}') FROM t"
    model = model_of(con.execute(query).fetchone()[0])
    assert (model.status, model.iterations) == ("time limit", 0)
    assert model.loss == pytest.approx(((y - y.mean()) ** 2).mean() / 2, rel=1e-9)
