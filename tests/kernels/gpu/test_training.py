"""Trainings with device 'gpu', through SQL: the CPU's optimum, or plain words why not."""

import json

import numpy as np
import pytest
from fitting import fit, model_of, put, violation
from own import POISSON

import tuskml
from tuskml.errors import OptionError
from tuskml.kernels.gpu import cuda, placement

rng = np.random.default_rng(4)
N, D = 600, 6
X = (rng.normal(size=(N, D)) * [0.01, 1, 100, 3, 0.5, 2] + [5, 0, 1e3, -2, 0, 1]).astype("f4")
MARGIN = ((X - X.mean(0)) / X.std(0)) @ rng.normal(size=D) + 0.3


def labels_of(task):
    noise = np.random.default_rng(6).normal(size=N)
    return MARGIN + noise if task == "linear" else (MARGIN + 2 * noise > 0).astype(float)


def both(con, task, n=N, **options):
    """The models of the CPU and of the device, of the first n rows."""
    put(con, X[:n], labels_of(task)[:n], storage="FLOAT")
    return [fit(con, task, device=device, **options) for device in ("cpu", "gpu")]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("linear", {}),
        ("logistic", {"algorithm": "newton"}),
        ("logistic", {"algorithm": "lbfgs", "l2": 0.01}),
        ("logistic", {"algorithm": "lbfgs", "l1": 0.01, "l2": 0.001}),
        ("logistic", {"algorithm": "bgd", "class_weight": "balanced", "l2": 0.05}),
        ("logistic", {"algorithm": "svrg", "l2": 0.01, "batch_size": 16}),
        ("logistic", {"algorithm": "lbfgs", "fit_intercept": False}),
        ("svm", {"algorithm": "newton", "l2": 0.1}),
        ("linear", {"algorithm": "lbfgs", "l2": 0.1, "deterministic": True}),
    ],
)
def test_the_same_optimum(con, standing_in, task, options):
    n = 200 if task == "svm" else N  # whose steps at a kink are many
    cpu, gpu = both(con, task, n, **options)
    assert gpu.status == cpu.status == "ok"
    assert gpu.loss == pytest.approx(cpu.loss, rel=1e-6)
    scale = X.std(0)
    assert np.allclose(gpu.coef * scale, cpu.coef * scale, atol=2e-5)
    assert standing_in.launches
    assert "on NumPy" in gpu.plan
    assert gpu.options["device"] == "gpu"
    assert "device" not in cpu.options
    if task != "svm":
        penalties = {k: v for k, v in options.items() if k in ("l1", "l2", "fit_intercept")}
        weight = options.get("class_weight")
        off = violation(task, X, labels_of(task), gpu, class_weight=weight, **penalties)
        assert np.max(np.append(off[:-1] / scale, off[-1])) < 2e-4


@pytest.mark.parametrize("algorithm", ["sgd", "mgd", "hogwild", "hogbatch"])
def test_epochs_are_the_cpu_s(con, standing_in, algorithm):
    """With one thread, and so without races, each of them makes the same steps on both."""
    options = {"algorithm": algorithm, "epsilon": 0, "max_iter": 3, "threads": 1}
    cpu, gpu = both(con, "logistic", **options)
    assert np.allclose(gpu.coef, cpu.coef, rtol=1e-7)
    assert gpu.history == pytest.approx(cpu.history, rel=1e-7)
    assert ("epoch", (1, 1)) in standing_in.launches


@pytest.mark.nightly
def test_many_groups_are_one_launch(con, standing_in):
    """Groups of different sizes, some of one class: each as the CPU has it, no launch a group."""
    sizes = rng.integers(20, 60, 40)
    g = np.repeat(np.arange(40), sizes)
    x = rng.normal(size=(len(g), 3)).astype("f4")
    y = (x @ [1.0, -1.0, 0.5] + 2 * rng.normal(size=len(g)) > 0).astype(float)
    y[g == 7] = 1.0
    put(con, x, y, storage="FLOAT", g=g)
    found = {}
    for device in ("cpu", "gpu"):
        options = json.dumps({"device": device, "algorithm": "newton", "l2": 0.01})
        rows = con.execute(
            f"SELECT g, train_model('logistic', y, x, '{options}') FROM t GROUP BY g ORDER BY g"
        ).fetchall()
        found[device] = [model_of(model) for _, model in rows]
    for cpu, gpu in zip(found["cpu"], found["gpu"], strict=True):
        assert gpu.status == cpu.status
        assert np.allclose(gpu.coef, cpu.coef, atol=1e-5)
        assert gpu.loss == pytest.approx(cpu.loss, rel=1e-6)
    assert standing_in.launches[:2] == [("newton", (39, 1))] * 2  # a look at the start, and steps
    assert len(standing_in.launches) < 9
    options = json.dumps({"device": "gpu", "algorithm": "newton", "l2": 0.1})
    few = f"SELECT g, train_model('svm', y, x, '{options}') FROM t WHERE g < 9 GROUP BY g"
    con.execute(few).fetchall()
    assert ("solve", (8, 1)) in standing_in.launches


def test_early_stopping_looks_at_held_out_rows(con, standing_in):
    options = {
        "algorithm": "mgd",
        "validation": 0.2,
        "epsilon": 1e-9,
        "max_iter": 30,
        "threads": 1,
    }
    cpu, gpu = both(con, "logistic", **options)
    assert gpu.status == cpu.status == "early stop"
    assert np.allclose(gpu.coef, cpu.coef, rtol=1e-6)


def test_standard_errors(con, standing_in):
    cpu, gpu = both(con, "linear")
    assert gpu.std_err == pytest.approx(cpu.std_err, rel=1e-4)


@pytest.mark.usefixtures("cancelling")
def test_cancelling_ends_it(con):
    put(con, X, labels_of("logistic"), storage="FLOAT")
    with pytest.raises(Exception, match="interrupted"):
        fit(con, "logistic", device="gpu", algorithm="lbfgs")


@pytest.mark.usefixtures("failing")
def test_a_gpu_that_fails_is_named_in_one_sentence(con):
    words = r"the GPU failed \(OutOfMemoryError: Out of memory allocating 4,096 bytes\); option"
    put(con, X, labels_of("logistic"), storage="FLOAT")
    with pytest.raises(Exception, match=words):
        fit(con, "logistic", device="gpu", algorithm="lbfgs")


MISSING = "CuPy is not installed: pip install 'tuskml[gpu]'"


@pytest.fixture
def without(monkeypatch):
    monkeypatch.setattr(cuda, "availability", lambda: MISSING)


def test_gpu_says_why_it_cannot(con, without):
    put(con, X, labels_of("linear"))
    with pytest.raises(Exception, match="option 'device' is 'gpu', but CuPy is not installed"):
        fit(con, "linear", device="gpu")
    assert fit(con, "linear", device="auto").status == "ok"


def test_the_explanation_lists_the_gpu_as_refused(con, without):
    put(con, X, labels_of("linear"))
    query = "SELECT explain_training('linear', y, x, '{\"device\": \"gpu\"}') FROM t"
    (text,) = con.execute(query).fetchone()
    assert f"  device    cpu; gpu not possible: {MISSING}" in text.splitlines()


def test_auto_takes_a_gpu_for_large_data(con, standing_in, monkeypatch):
    put(con, X, labels_of("linear"), storage="FLOAT")
    assert "NumPy" not in fit(con, "linear").plan
    monkeypatch.setattr(placement, "NEVER_BELOW", 0)
    monkeypatch.setattr(placement, "least_bytes", lambda: 1000)
    assert "on NumPy" in fit(con, "linear").plan
    (text,) = con.execute("SELECT explain_training('linear', y, x) FROM t").fetchone()
    assert "  device    gpu: NumPy" in text.splitlines()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("train_model('linear', y, sparse([1], [2.0]), {})", "features are sparse"),
    ],
)
def test_what_the_gpu_has_no_kernels_for(con, standing_in, query, words):
    put(con, X, labels_of("linear"))
    with pytest.raises(Exception, match=words):
        con.execute(f"SELECT {query.format(repr(json.dumps({'device': 'gpu'})))} FROM t")


def explained(con, task, given):
    """The device of an explanation, and why the planner's table refuses the GPU."""
    text = json.dumps(given | {"format": "json"})
    (found,) = con.execute(f"SELECT explain_training('{task}', y, x, '{text}') FROM t").fetchone()
    found = json.loads(found)
    reasons = [one["refusal"] for one in found["candidates"] if one["algorithm"] == "gpu"]
    return found["device"], reasons


def of_ones_own(what):
    """Registers a task or an operator; its options, and what refusals call it."""
    if what == "task":
        tuskml.register_task("own_poisson", **POISSON)
        return "own_poisson", {}, "task 'own_poisson'"
    if what == "algorithm":
        tuskml.register_algorithm("mine", "bgd")
        return "linear", {"algorithm": "mine"}, "an operator of your own"
    kind, option = what
    makes = {
        "converge": lambda setting: lambda state, active, found: np.ones(len(active), bool),
        "transform": lambda setting: lambda problem: problem,
        "sample": lambda setting: (
            lambda problem, state: problem.take([np.arange(4)] * len(state.active))
        ),
    }
    tuskml.register_operator(kind, "mine", makes[kind])
    return "linear", {option: "mine", "max_iter": 2}, "an operator of your own"


@pytest.mark.parametrize(
    "what",
    [
        "task",
        "algorithm",
        ("converge", "converge"),
        ("transform", "transform"),
        ("sample", "sampler"),
    ],
)
def test_what_is_of_ones_own_is_said_and_trained_on_the_cpu(con, standing_in, monkeypatch, what):
    """Where the GPU would train the same rows without it."""
    monkeypatch.setattr(placement, "NEVER_BELOW", 0)
    monkeypatch.setattr(placement, "least_bytes", lambda: 1000)
    task, options, name = of_ones_own(what)
    put(con, X, np.abs(labels_of("linear")).round(), storage="FLOAT")
    reason = f"{name} runs on the CPU only"
    device, refusals = explained(con, task, options)
    assert device == f"cpu; gpu not possible: {reason}"
    assert set(refusals) <= {reason}
    assert bool(refusals) == (what == "task"), "the others leave no choice"
    model = fit(con, task, **options)
    assert "on NumPy" not in model.plan
    assert not standing_in.launches
    with pytest.raises(Exception, match=reason):
        fit(con, task, device="gpu", **options)
    assert explained(con, "linear", {}) == ("gpu: NumPy", [])
    assert "on NumPy" in fit(con, "linear").plan


def test_a_candidate_of_ones_own_trains_where_the_rows_are(con, standing_in, monkeypatch):
    """An algorithm that `auto` may choose does not keep the rows from the GPU."""
    monkeypatch.setattr(placement, "NEVER_BELOW", 0)
    monkeypatch.setattr(placement, "least_bytes", lambda: 1000)
    put(con, X, labels_of("linear"), storage="FLOAT")
    usual = fit(con, "linear", l2=0.1)
    tuskml.register_algorithm("mine", "lbfgs")
    assert explained(con, "linear", {"l2": 0.1}) == ("gpu: NumPy", [])
    found = fit(con, "linear", l2=0.1)
    assert "on NumPy" in found.plan
    assert found.loss == pytest.approx(usual.loss, rel=1e-5)


@pytest.mark.nightly
@pytest.mark.parametrize(("task", "algorithm"), [("svm", "dcd"), ("logistic", "newton_cg")])
def test_algorithms_of_the_cpu_alone(con, standing_in, monkeypatch, task, algorithm):
    """Asked for, they keep the rows on the CPU; else the rows on the GPU leave them out."""
    monkeypatch.setattr(placement, "NEVER_BELOW", 0)
    monkeypatch.setattr(placement, "least_bytes", lambda: 1000)
    put(con, X, labels_of(task), storage="FLOAT")
    options = {"algorithm": algorithm, "l2": 0.1}
    words = f"'device' is 'gpu', but algorithm '{algorithm}' runs on the CPU only; expected"
    with pytest.raises(Exception, match=words):
        fit(con, task, device="gpu", **options)
    alone = fit(con, task, **options)
    assert "on NumPy" not in alone.plan
    assert not standing_in.launches
    chosen = fit(con, task, l2=0.1)
    assert "on NumPy" in chosen.plan
    assert algorithm not in chosen.plan
    assert chosen.loss == pytest.approx(alone.loss, rel=1e-3)


@pytest.mark.parametrize("task", ["svm", "logistic"])
def test_the_table_says_what_the_gpu_leaves_out(con, standing_in, task):
    put(con, X, labels_of(task), storage="FLOAT")
    refused = {}
    for device in ("cpu", "gpu"):
        text = json.dumps({"device": device, "l2": 0.1, "format": "json"})
        query = f"SELECT explain_training('{task}', y, x, '{text}') FROM t"
        found = json.loads(con.execute(query).fetchone()[0])
        refused[device] = {one["algorithm"]: one["refusal"] for one in found["candidates"]}
    alone = {"svm": "dcd", "logistic": "newton_cg"}[task]
    assert refused["cpu"][alone] is None
    assert refused["gpu"][alone] == "it runs on the CPU only, and the rows go to the GPU"
    if task == "logistic":
        assert refused["gpu"]["svrg"] == (
            "an epoch is one block of the GPU per group, and there are few groups"
        )
    assert refused["gpu"]["lbfgs"] is None


def test_refusals_are_option_errors(standing_in):
    words = "runs on the CPU only; expected 'auto' or 'cpu' here"
    with pytest.raises(OptionError, match=words):
        placement.refuse_gpu("gpu", "task 'matrix_factorization'")
    placement.refuse_gpu("auto", "task 'matrix_factorization'")
