"""The option `time` and a cancel end what takes long in an iteration: curvature and Cholesky."""

import ctypes
import json
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from fitting import model_of, put
from rows import block, rows_pass

from tuskml.errors import Interrupted
from tuskml.kernels import passes
from tuskml.kernels.hinge import CORRECTED, DUAL_LOW, Interior
from tuskml.kernels.library import OutOfTime, check_code, library
from tuskml.kernels.passes import solve
from tuskml.learners.linear import result
from tuskml.learners.linear.algorithms.newton import ALGORITHM as NEWTON
from tuskml.learners.linear.inference import outcome
from tuskml.learners.linear.inference.tempered import temper
from tuskml.learners.linear.operators import State, run
from tuskml.learners.linear.options import OPTIONS
from tuskml.learners.linear.problem import Problem
from tuskml.learners.linear.request import Plan
from tuskml.learners.linear.tasks import LINEAR

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
    mark = passes.cancel_count()
    threading.Timer(0.02, passes.cancel).start()
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
    return Problem(rows, LINEAR["linear"], 0.0, 0.1, np.zeros((1, 600)), np.ones((1, 600)))


@pytest.mark.parametrize("kind", ["dense float32", "sparse float64"])
def test_a_cancel_amid_a_chunk_ends_the_pass(kind):
    """A chunk of a wide model takes long, and the sums that it leaves are no curvature."""
    rng = np.random.default_rng(0)
    rows = rows_pass(
        block(rng.normal(size=(2 * WIDE, WIDE)), rng.normal(size=2 * WIDE), kind), "linear"
    )
    rows = replace(rows, cancel_mark=passes.cancel_count())
    threading.Timer(0.02, passes.cancel).start()
    with pytest.raises(Interrupted):
        rows.curvature(np.zeros((1, WIDE + 1)), np.zeros((1, WIDE)), np.ones((1, WIDE)), True)


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
    state = run(part, NEWTON.operators(part, plan_of(1), start, None))
    assert state.out_of_time == (left < 0)
    assert np.array_equal(state.v, start) == (left < 0)


@pytest.fixture
def parted():
    """Two rows of two classes, whose weights are where some training left them."""
    rows = rows_pass(block(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0])), "logistic")
    problem = Problem(rows, LINEAR["logistic"], 0.0, 0.0, np.zeros((1, 1)), np.ones((1, 1)))
    state = State.at(np.array([[30.0, 0.0]]))
    state.converged[:], state.running[:] = True, False
    return problem, state


@pytest.mark.parametrize("left", [-1.0, 3600.0])
def test_time_ends_the_ridge_of_separable_classes(parted, left):
    """Weights that the ridge did not get to stay, and are not said to have it."""
    problem, state = parted
    before = state.v.copy()
    options = OPTIONS.parse("{}", "logistic")
    took = temper(problem, state, np.array([0]), plan_of(), options, time.monotonic() + left)
    assert took.tolist() == [left > 0]
    assert np.array_equal(state.v, before) == (left < 0)


@pytest.mark.parametrize(("left", "status"), [(-1.0, "time limit"), (3600.0, "ok")])
def test_time_ends_the_proof_that_there_is_an_optimum(left, status):
    """From far off a step proves nothing; what is not known to be an optimum is not `ok`."""
    x, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0.0, 1.0, 0.0, 1.0])
    rows = rows_pass(block(x, y), "logistic")
    problem = Problem(rows, LINEAR["logistic"], 0.0, 0.0, np.zeros((1, 1)), np.ones((1, 1)))
    state = State.at(np.array([[8.0, 0.0]]))
    state.converged[:] = True
    seen = outcome.infer(problem, state, plan_of(), time.monotonic() + left)
    assert statuses(problem, state, seen) == [status]
    assert not seen.parted.any()


def test_a_group_that_found_no_better_point_before_time_was_over_is_not_ok(parted):
    problem, state = parted
    state.converged[:], state.out_of_time = False, True
    assert statuses(problem, state, outcome.Inference.none(problem)) == ["not converged"]


def statuses(problem, state, seen):
    found = result.judge(problem, state, plan_of(), seen.constant, seen.dependent, seen.parted)
    return [found.pool[code] for code in found.code]


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


@pytest.fixture
def hinge():
    """The same of an svm, whose Newton's method is that of interior points."""
    rng = np.random.default_rng(0)
    rows = rows_pass(block(rng.normal(size=(40, 600)), rng.choice([0.0, 1.0], 40)), "svm")
    return Problem(rows, LINEAR["svm"], 0.0, 0.1, np.zeros((1, 600)), np.ones((1, 600)))


@pytest.mark.parametrize("left", [-1.0, 3600.0])
def test_a_deadline_ends_a_pass_for_interior_points(hinge, left):
    """Half of a pass's sums are no system to take a step from."""
    part = hinge.on(replace(hinge.rows, deadline=time.monotonic() + left))
    start = np.zeros((1, part.d + 1))
    state = run(part, NEWTON.operators(part, plan_of(3), start, None))
    assert state.out_of_time == (left < 0)
    assert np.array_equal(state.v, start) == (left < 0)


@pytest.mark.parametrize("step", ["curvature", "gradient", "aim", "move"])
def test_a_cancel_ends_each_pass_over_interior_points(hinge, step):
    rows = replace(hinge.rows, cancel_mark=passes.cancel_count())
    weights = np.zeros((1, rows.p))
    inside = Interior.of_rows(rows, weights)
    calls = {
        "curvature": lambda: inside.curvature(rows, hinge.shift, hinge.scale),
        "gradient": lambda: inside.gradient(rows, DUAL_LOW),
        "aim": lambda: inside.aim(rows, weights, CORRECTED),
        "move": lambda: inside.move(rows),
    }
    calls[step]()
    passes.cancel()
    with pytest.raises(Interrupted):
        calls[step]()


def test_interior_points_end_within_their_systems(hinge, monkeypatch):
    given = []

    def note(*arguments, **options):
        given.append(options)
        return solve(*arguments, **options)

    monkeypatch.setattr("tuskml.learners.linear.algorithms.parts.interior.solve", note)
    late = time.monotonic() + 3600
    part = hinge.on(replace(hinge.rows, deadline=late, cancel_mark=passes.cancel_count()))
    run(part, NEWTON.operators(part, plan_of(1), np.zeros((1, part.d + 1)), None))
    assert given == [{"cancel_mark": part.rows.cancel_mark, "deadline": late}] * 2


def test_a_cancel_ends_the_sorting_of_ids():
    """Few ids of very many: they are sorted, which takes half a second of these."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 2**31 - 2, 6_000_000).astype(np.int32)
    entries = [(ids, np.ones(len(ids), np.float32))]
    groups = block(entries, np.zeros(1), "sparse float32", dim=2**31 - 1)
    found = [ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()]
    since = ctypes.c_int64(passes.cancel_count())
    threading.Timer(0.05, passes.cancel).start()
    with pytest.raises(Interrupted):
        check_code(
            library().tk_ids_that_occur(
                ctypes.c_void_p(groups.ctypes.data), None, since, *map(ctypes.byref, found)
            )
        )


def test_a_cancel_within_a_chunk_leaves_no_half_sums():
    """All rows are one chunk, whose product takes some 10^10 multiplications."""
    rng = np.random.default_rng(0)
    groups = block(rng.normal(size=(3000, WIDE)), rng.normal(size=3000))
    rows = replace(rows_pass(groups), cancel_mark=passes.cancel_count())
    flat = np.zeros((1, WIDE))
    threading.Timer(0.1, passes.cancel).start()
    with pytest.raises(Interrupted):
        rows.curvature(np.zeros((1, WIDE + 1)), flat, flat + 1, precise=True)
