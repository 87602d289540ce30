"""Trainings by all learners with kernels for a GPU, without a database: the truth is elsewhere.

Linear models are held against closed forms and SciPy, nets and factorizations against the CPU.
"""

import json
import threading
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from nets import rules
from rows import block, rows_pass, together
from scipy.optimize import minimize
from scipy.special import expit

from tuskml.errors import Interrupted
from tuskml.kernels import passes
from tuskml.kernels.gpu import cuda, placement
from tuskml.kernels.nets.training import ByGroup
from tuskml.learners import events, registry
from tuskml.learners.learner import Request
from tuskml.learners.linear.gpu import patience
from tuskml.learners.models import join_models
from tuskml.learners.nets.training import train_somewhere
from tuskml.schedule import devices as turns
from tuskml.schedule import shares
from tuskml.schedule.devices import gpu_in_turn

rng = np.random.default_rng(11)
X = (rng.normal(size=(900, 5)) * [0.1, 1, 30, 2, 1] + [3, 0, 100, -1, 0]).astype(np.float32)
SIGNAL = ((X - X.mean(0)) / X.std(0)) @ rng.normal(size=5) + 0.4
NUMBERS = SIGNAL + rng.normal(size=900)
AVAILABILITY = cuda.availability
CLASSES = (SIGNAL + 2 * rng.normal(size=900) > 0).astype(float)


def trained(groups, task, **options):
    """The models of groups, as the databases get them."""
    chosen = registry.task_named(task)
    request = Request(chosen, registry.options_of(chosen, json.dumps(options)))
    learner = registry.learner_of(chosen)
    return join_models(list(learner.train(groups, request, 0)))


def coefs(models):
    """Coefficients (G, d), in the groups' order."""
    found = models.coef.values.reshape(len(models.group), -1)
    return found[np.argsort(models.group)]


def plans(models):
    """What the plans say."""
    return {models.plan.pool[code] for code in models.plan.code}


@pytest.fixture
def on(device, monkeypatch):
    """Options that train on the device."""
    monkeypatch.setattr(cuda, "availability", lambda: None)
    monkeypatch.setattr(cuda, "device", lambda: device)
    return {"device": "gpu"}


@pytest.mark.parametrize("algorithm", ["newton", "lbfgs", "bgd"])
def test_least_squares_are_those_of_the_normal_equations(on, device, algorithm):
    models = trained(block(X, NUMBERS, "dense float32"), "linear", algorithm=algorithm, **on)
    design = np.column_stack([X, np.ones(len(X))]).astype(float)
    truth, *_ = np.linalg.lstsq(design, NUMBERS, rcond=None)
    assert np.allclose(coefs(models)[0] * X.std(0), truth[:-1] * X.std(0), atol=1e-4)
    assert any(device.name in plan for plan in plans(models))


@pytest.mark.parametrize("algorithm", ["newton", "lbfgs", "bgd", "svrg"])
def test_logistic_models_are_scipy_s(on, algorithm):
    """Of many groups, some of which train in one kernel."""
    l2, sizes = 0.1, (300, 260, 340)
    ends = np.cumsum(sizes)
    parts = [slice(end - n, end) for n, end in zip(sizes, ends, strict=True)]
    groups = together([block(X[p], CLASSES[p], "dense float32") for p in parts] * 4)
    given = {"algorithm": algorithm, "l2": l2, "epsilon": 1e-5, "max_iter": 3000}
    models = trained(groups, "logistic", **given, **on)
    order = np.argsort(models.group)
    found = np.column_stack([coefs(models), models.intercept[order]])
    assert len(found) == 12
    for part, ours in zip(parts, found[:3], strict=True):
        x, y = X[part].astype(float), CLASSES[part]

        def objective(v, x=x, y=y):
            m = x @ v[:-1] + v[-1]
            return np.mean(np.logaddexp(0, m) - y * m) + l2 / 2 * v[:-1] @ v[:-1]

        def slopes(v, x=x, y=y):
            off = expit(x @ v[:-1] + v[-1]) - y
            return np.append(x.T @ off, off.sum()) / len(y) + l2 * np.append(v[:-1], 0)

        truth = minimize(objective, ours, jac=slopes, method="BFGS", options={"gtol": 1e-9})
        assert objective(ours) <= truth.fun + 1e-6
    assert np.allclose(found[:3], found[9:], rtol=1e-6, atol=1e-9)


PAIRS = rng.integers(0, [40, 30], (3000, 2)).astype(np.float32)
RATINGS = 3 + (PAIRS[:, 0] % 5 - 2) * 0.3 + (PAIRS[:, 1] % 3 - 1) * 0.2


def test_factorizations_are_the_cpu_s(on):
    groups = block(PAIRS, RATINGS, "dense float32")
    options = {"rank": 3, "max_iter": 30, "algorithm": "sgd"}
    there = trained(groups, "matrix_factorization", **options, **on)
    here = trained(groups, "matrix_factorization", **options)
    assert np.allclose(there.loss, here.loss, rtol=0.1)
    assert there.loss[0] < 0.2 * RATINGS.var() / 2
    assert np.isfinite(there.coef.values).all()


class OutOfMemoryError(MemoryError):
    """As CuPy's."""

    __module__ = "cupy.cuda.memory"


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""

    __module__ = "cupy_backends.cuda.api.runtime"


@contextmanager
def launches(device, monkeypatch, failing):
    """Within it, failing is called before each launch, and may raise."""
    kind = type(device)
    real = kind.launch

    def launch(self, *given):
        failing()
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "launch", launch)
        yield


@pytest.mark.parametrize("error", [OutOfMemoryError, CUDARuntimeError])
@pytest.mark.parametrize("task", ["linear", "matrix_factorization"])
def test_auto_trains_on_the_cpu_where_the_gpu_fails(on, device, monkeypatch, error, task):
    """And with 'gpu' the failure is one sentence."""
    monkeypatch.setattr(placement, "NEVER_BELOW", 0)
    monkeypatch.setattr(placement, "least_bytes", lambda: 0)
    x, y = (X, NUMBERS) if task == "linear" else (PAIRS, RATINGS)
    groups = block(x, y, "dense float32")

    def fails():
        raise error("no more\nand more")

    with launches(device, monkeypatch, fails):
        models = trained(groups, task, device="auto", max_iter=5)
        with pytest.raises(cuda.GpuError, match=rf"the GPU failed \({error.__name__}: no more\);"):
            trained(groups, task, device="gpu", max_iter=5)
    alone = trained(groups, task, device="cpu", max_iter=5)
    assert np.allclose(models.loss, alone.loss, rtol=0.05)
    assert not any(device.name in plan for plan in plans(models))


@contextmanager
def gpu_of_another_training(table, monkeypatch):
    """Within it, another thread's training has the GPU until the event that it yields is set."""
    monkeypatch.setenv(shares.SETTING, str(table))
    has, go = threading.Event(), threading.Event()

    def hold():
        with shares.training(b"mlp", 1), gpu_in_turn(passes.cancel_mark()):
            has.set()
            go.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert has.wait(30)
        yield go
    finally:
        go.set()
        thread.join()


def test_a_busy_gpu_is_waited_for_as_long_as_it_spares(on, device, monkeypatch, tmp_path):
    monkeypatch.setattr(placement, "NEVER_BELOW", 0)
    monkeypatch.setattr(placement, "least_bytes", lambda: 0)
    monkeypatch.setattr(placement, "saved_seconds", lambda groups: 0.01)
    groups = block(X, NUMBERS, "dense float32")
    with gpu_of_another_training(tmp_path / "table", monkeypatch), shares.training(b"linear", 1):
        models = trained(groups, "linear", device="auto")
    assert not any(device.name in plan for plan in plans(models))
    assert np.array_equal(models.coef.values, trained(groups, "linear", device="cpu").coef.values)


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_training_follows_its_turn(on, device, monkeypatch, tmp_path, comes_back):
    """To the CPU, and back if the GPU is free, from the weights that it has reached."""
    monkeypatch.setattr(placement, "NEVER_BELOW", 0)
    monkeypatch.setattr(placement, "least_bytes", lambda: 0)
    monkeypatch.setattr(placement, "saved_seconds", lambda groups: 0.01)
    monkeypatch.setattr(placement, "least_left", lambda groups: 0.0)
    monkeypatch.setattr(turns, "TURN", 0.0)
    monkeypatch.setattr(events, "FIRST", 0.0)
    monkeypatch.setattr(events, "EVERY", 0.0)
    monkeypatch.setenv(shares.SETTING, str(tmp_path / "table"))
    groups, go, others = block(X, CLASSES, "dense float32"), threading.Event(), []
    real_look = turns.look

    def hold():
        with shares.training(b"mlp", 1), gpu_in_turn(passes.cancel_mark()):
            go.wait(60)

    def another_wants_it():
        if not others:
            others.append(threading.Thread(target=hold))
            others[0].start()
            while not any(one.device and not one.has_device for one in shares.activity()):
                time.sleep(0.001)

    def look(left):
        if comes_back:
            go.set()
            others[0].join()
        real_look(left)

    monkeypatch.setattr(turns, "look", look)
    given = {"algorithm": "lbfgs", "l2": 0.01, "epsilon": 1e-6}
    try:
        with launches(device, monkeypatch, another_wants_it), shares.training(b"logistic", 1):
            models = trained(groups, "logistic", device="auto", **given)
    finally:
        go.set()
        others[0].join()
    (plan,) = plans(models)
    assert "gpu -> cpu at iteration" in plan
    assert ("cpu -> gpu at iteration" in plan) == comes_back
    assert (device.name in plan) == comes_back
    alone = trained(groups, "logistic", device="cpu", **given)
    assert np.allclose(models.coef.values, alone.coef.values, rtol=1e-3, atol=1e-5)


def test_who_asks_for_the_gpu_waits_for_it(on, device, monkeypatch, tmp_path):
    monkeypatch.setattr(placement, "saved_seconds", lambda groups: 0.0)
    with gpu_of_another_training(tmp_path / "table", monkeypatch) as go:
        timer = threading.Timer(0.2, go.set)
        timer.start()
        with shares.training(b"linear", 1):
            models = trained(block(X, NUMBERS, "dense float32"), "linear", device="gpu")
    assert all(device.name in plan for plan in plans(models))


@pytest.mark.parametrize(
    ("options", "waits"),
    [({}, 0.5), ({"device": "gpu"}, None), ({"deterministic": True}, None)],
)
def test_bits_and_wishes_do_not_depend_on_others(monkeypatch, options, waits):
    monkeypatch.setattr(placement, "saved_seconds", lambda groups: 0.5)
    task = registry.task_named("linear")
    request = Request(task, registry.options_of(task, json.dumps(options)))
    assert patience(block(X, NUMBERS, "dense float32"), request) == waits


def test_nets_too(on, device, monkeypatch):
    monkeypatch.setattr(placement, "NEVER_BELOW", 0)
    monkeypatch.setattr(placement, "least_bytes", lambda: 0)
    rows = rows_pass(block(X, NUMBERS, "dense float32"))
    options = SimpleNamespace(device="auto", dropout=None, validation=None, time=None)

    def fails(*_):
        raise OutOfMemoryError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(type(device), "to_device", fails)
        found = train_somewhere(rows, rules(epochs=2), 0, ByGroup(), options)
        options.device = "gpu"
        with pytest.raises(cuda.GpuError):
            train_somewhere(rows, rules(epochs=2), 0, ByGroup(), options)
    options.device = "cpu"
    alone = train_somewhere(rows, rules(epochs=2), 0, ByGroup(), options)
    assert np.array_equal(found.weights, alone.weights)


def test_rows_without_room_for_all_train_in_parts(on, device, monkeypatch):
    """Memory that is out once is asked for less of the rows."""
    groups, left = block(X, NUMBERS, "dense float32"), [1]

    def fails_once():
        if left:
            left.pop()
            raise OutOfMemoryError("no more")

    with launches(device, monkeypatch, fails_once):
        models = trained(groups, "linear", algorithm="lbfgs", **on)
    whole = trained(groups, "linear", algorithm="lbfgs", **on)
    assert np.allclose(coefs(models), coefs(whole), rtol=1e-6)
    assert any(device.name in plan for plan in plans(models))


def test_a_gpu_that_answers_no_more_is_left_alone(on, device, monkeypatch):
    monkeypatch.setattr(cuda, "_broken", [])

    def fault(*_):
        raise CUDARuntimeError("an illegal memory access")

    with launches(device, monkeypatch, fault), monkeypatch.context() as patch:
        patch.setattr(type(device), "mark_launches", fault)
        with pytest.raises(cuda.GpuError):
            trained(block(X, NUMBERS, "dense float32"), "linear", **on)
    assert AVAILABILITY() == "the GPU failed earlier in this process (an illegal memory access)"


@pytest.mark.parametrize("task", ["logistic", "linear"])
def test_a_cancel_between_launches_ends_the_training(on, device, monkeypatch, task):
    """Of many groups too, which train in one kernel."""
    labels = CLASSES if task == "logistic" else NUMBERS
    count = 40 if task == "logistic" else 1
    groups = together([block(X, labels, "dense float32")] * count)
    seen = []

    def cancels():
        seen.append(threading.get_ident())
        passes.cancel()

    with launches(device, monkeypatch, cancels), pytest.raises(Interrupted):
        trained(groups, task, algorithm="newton", **on)
    assert len(seen) <= 2  # the linear system behind a pass is solved by a launch of its own


def test_signals_stay_with_the_thread_that_waits_for_them():
    import signal

    with cuda.signals_blocked():
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
