"""What travels when a training moves between the GPU and the CPU."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from tuskml.kernels.gpu import placement
from tuskml.learners import registry
from tuskml.learners.learner import Request
from tuskml.learners.linear.gpu import MOST_MOVES, Moving
from tuskml.learners.linear.request import Plan
from tuskml.schedule import devices

PLAN = Plan(
    "lbfgs", 100, 1e-6, "gradient", "auto", "constant", 64, False, True, False, 0, 1, (0.0,), 1, ""
)
GROUPS = np.array([(4,), (1,)], np.dtype([("place", np.int32)]))
WEIGHTS = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def moving(monkeypatch: pytest.MonkeyPatch, fit, **options):
    monkeypatch.setattr(placement, "saved_seconds", lambda groups: 0.5)
    monkeypatch.setattr(placement, "least_left", lambda groups: 1.0)
    task = registry.task_named("logistic")
    request = Request(task, registry.options_of(task, json.dumps(options)))
    rows = SimpleNamespace(groups=GROUPS, cancel_mark=0)
    return Moving(rows, PLAN, request, fit)


def lost(iterations, kind=devices.BusyError):
    error = kind()
    error.weights, error.iterations = WEIGHTS, iterations
    return error


def test_weights_and_iterations_travel(monkeypatch):
    found = moving(monkeypatch, None)
    found.follow(lost(3))
    assert not found.on_gpu
    assert np.array_equal(found.request.near.start(GROUPS["place"], 3), WEIGHTS)
    found.follow(lost(4, devices.FreeError))
    assert found.on_gpu
    assert found.plan.after == (
        "gpu -> cpu at iteration 3: others have the gpu; cpu -> gpu at iteration 7: it is free"
    )


def test_a_training_that_never_had_a_turn_begins_as_ever(monkeypatch):
    found = moving(monkeypatch, None)
    found.follow(devices.BusyError())
    assert (found.on_gpu, found.request.near, found.plan.after) == (False, None, None)


@pytest.mark.parametrize(
    ("moves", "options", "expected"),
    [(0, {}, True), (MOST_MOVES, {}, False), (0, {"deterministic": True}, False)],
)
def test_who_moves_hopes_to_come_back(monkeypatch, moves, options, expected):
    hopes = []
    found = moving(monkeypatch, lambda *_: hopes.append(devices.hopes()), **options)
    found.on_gpu, found.moves = False, ["a move"] * moves
    found.train()
    assert hopes == [expected]
    assert not devices.hopes()
