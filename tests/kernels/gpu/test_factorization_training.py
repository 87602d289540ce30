"""The task `matrix_factorization` with device 'gpu', through SQL."""

import json

import numpy as np
import pytest

from tuskml.kernels.gpu import cuda, placement

RATINGS = """
CREATE TABLE ratings AS
SELECT i % 2 AS g, [(i * 7919) % 61, (i * 10473) % 47]::DOUBLE[] AS pair,
       3 + ((i * 7919) % 61 % 5) * ((i * 10473) % 47 % 3 - 1) / 4
       + ((i * 31) % 11 - 5) / 64 AS rating
FROM range(3000) AS s(i)
"""


@pytest.fixture
def db(con):
    con.execute(RATINGS)
    return con


def call(name="train_model", **options):
    return f"{name}('matrix_factorization', rating, pair, '{json.dumps(options)}')"


def one(db, selection):
    (found,) = db.execute(f"SELECT {selection} FROM ratings").fetchone()
    return found


def test_the_same_objective_by_either_schedule(db, standing_in):
    cpu = one(db, call(device="cpu", rank=5))
    for more, algorithm in (({}, "hogwild"), ({"deterministic": True}, "sgd")):
        gpu = one(db, call(device="gpu", rank=5, **more))
        assert gpu["status"] == cpu["status"] == "ok"
        assert gpu["loss"] == pytest.approx(cpu["loss"], rel=0.01)
        assert gpu["intercept"] == cpu["intercept"]
        assert len(gpu["coef"]) == len(cpu["coef"])
        assert len(gpu["history"]) == 20
        assert gpu["plan"].startswith(f"{algorithm}, rank 5, biases, step linear")
        assert gpu["plan"].endswith("on NumPy")
        options = json.loads(gpu["options"])
        assert options["device"] == "gpu"
        assert options["algorithm"] == algorithm
    assert "device" not in json.loads(cpu["options"])
    again = one(db, call(device="gpu", rank=5, deterministic=True))
    assert again["coef"] == gpu["coef"]
    asked = one(db, call(device="gpu", rank=5, algorithm="sgd"))
    assert asked["coef"] == gpu["coef"]


def test_each_group_has_its_model(db, standing_in):
    def models(device):
        query = f"SELECT {call(device=device, rank=3, l2=0.07)} FROM ratings GROUP BY g ORDER BY g"
        return [row[0] for row in db.execute(query).fetchall()]

    cpu, gpu = models("cpu"), models("gpu")
    assert [m["loss"] for m in gpu] == pytest.approx([m["loss"] for m in cpu], rel=0.01)


@pytest.mark.nightly
def test_early_stopping_and_convergence(db, standing_in):
    stopped = one(db, call(device="gpu", validation=0.2, l2=0.0, rank=30, max_iter=200))
    assert stopped["status"] == "early stop"
    assert stopped["iterations"] < 200
    settled = one(db, call(device="gpu", epsilon=0.01))
    assert settled["converged"]
    timed = one(db, call(device="gpu", time="0.2s", max_iter=1_000_000))
    assert timed["status"] == "time limit"


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("far", ["1e300 * rating", "1.7e308", "1.7e308 * (2 * g - 1)"])
def test_ratings_at_the_end_of_the_doubles(db, standing_in, far, biases):
    """Their squares are beyond: the status is that of the CPU."""
    db.execute(f"UPDATE ratings SET rating = {far}")
    asked = {"rank": 3, "max_iter": 5, "biases": biases}
    cpu, gpu = (one(db, call(device=device, **asked)) for device in ("cpu", "gpu"))
    assert gpu["status"] == cpu["status"]
    assert gpu["intercept"] == pytest.approx(cpu["intercept"], rel=1e-12)


@pytest.mark.parametrize("same", [0.0, 0.1, -3.0])
def test_equal_ratings_are_their_mean(db, standing_in, same):
    """Nothing is better than that constant, which steps from random vectors do not reach."""
    db.execute(f"UPDATE ratings SET rating = {same}")
    for device in ("cpu", "gpu"):
        model = one(db, call(device=device, rank=3, max_iter=5))
        assert model["status"] == "ok"
        assert model["intercept"] == pytest.approx(same, rel=1e-12)


def test_a_step_that_is_too_large_starts_again_with_a_quarter(db, standing_in):
    model = one(db, call(device="gpu", step=100.0, max_iter=5))
    assert model["status"] == "ok"
    assert np.isfinite(model["loss"])


@pytest.mark.usefixtures("cancelling")
def test_cancelling_ends_it(db):
    with pytest.raises(Exception, match="interrupted"):
        one(db, call(device="gpu"))


@pytest.mark.usefixtures("failing")
def test_a_gpu_that_fails_is_named_in_one_sentence(db):
    words = r"the GPU failed \(OutOfMemoryError: Out of memory allocating 4,096 bytes\); option"
    with pytest.raises(Exception, match=words):
        one(db, call(device="gpu"))


def test_auto_takes_a_gpu_for_large_data_that_fit(db, standing_in, monkeypatch):
    assert "NumPy" not in one(db, call())["plan"]
    monkeypatch.setattr(placement, "least_bytes", lambda: 1000)
    assert "on NumPy" in one(db, call())["plan"]
    standing_in.free = 1000
    assert "NumPy" not in one(db, call())["plan"]
    words = r"'gpu', but the vectors of 61 users and 47 items .* expected 'auto' or 'cpu'"
    with pytest.raises(Exception, match=words):
        one(db, call(device="gpu"))


def test_the_explanation_says_where(db, standing_in, monkeypatch):
    text = one(db, call("explain_training", device="gpu"))
    assert "  device    gpu: NumPy" in text.splitlines()
    assert "plan      hogwild" in text
    found = json.loads(one(db, call("explain_training", device="gpu", format="json")))
    assert found["device"] == "gpu: NumPy"
    monkeypatch.setattr(cuda, "availability", lambda: "no CuPy here")
    text = one(db, call("explain_training", device="gpu"))
    assert "  device    cpu; gpu not possible: no CuPy here" in text.splitlines()
    assert "device" not in one(db, call("explain_training"))
    with pytest.raises(Exception, match="option 'device' is 'gpu', but no CuPy here"):
        one(db, call(device="gpu"))
