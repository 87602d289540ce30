"""Counters of a training are exact; what is asked to be the same every time is."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from stored_fits import STEADY, put, rows_of, train, with_weights

import tuskml
from tuskml.kvstore import StoreRoot, database
from tuskml.learners.linear.stored import run as stored_run
from tuskml.learners.machine import constants

pytestmark = pytest.mark.native

D = 150


@pytest.fixture
def con(rooted):
    put(rooted, *rows_of("logistic"))
    return rooted


def add_up(counters):
    names = (
        "saved_by_partitioning",
        "read_together",
        "saved_by_pushing",
        "cache_hits",
        "requests",
    )
    return sum(counters[name] for name in names)


@pytest.mark.sample(4)
@pytest.mark.parametrize("partition", [0, 40])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.01}, {"l1": 0.01}])
def test_they_add_up(con, tmp_path, partition, threads, penalty) -> None:
    """With a key a feature, features are the requests of a store without a cache."""
    passes = 5  # four epochs and the objective
    model = train(con, partition=partition, threads=threads, max_iter=4, epsilon=0, **penalty)
    counters = model.options["counters"]
    assert add_up(counters) == counters["features"]
    assert counters == tuskml.last_training()["counters"]
    x, _ = rows_of("logistic")
    rows = 1200 // (stored_run.FEWEST_CHUNKS * threads)
    asked = sum((x[at : at + rows] != 0).any(axis=0).sum() for at in range(0, 1200, rows))
    used = (x != 0).any(axis=0)
    keys = used.sum() if not partition else None
    if not penalty:
        assert counters["features"] == passes * asked
    elif keys is not None:
        assert counters["features"] == passes * asked + keys, "settled at the end"
    else:
        assert passes * asked < counters["features"] <= passes * asked + used.sum()
    if partition:
        assert counters["saved_by_partitioning"] > 0
    else:
        assert counters["saved_by_partitioning"] == 0
        assert counters["requests"] == keys, "each is read once, all fit into the cache"
        coef = with_weights(tmp_path, model, D).coef
        assert counters["writes"] >= np.count_nonzero(coef), "zeros need not be"
    assert counters["found"] == 0, "the model was new"
    if threads == 1:
        assert counters["saved_by_pushing"] == 0
    phases = {"layout", "map", "step", "acquire", "train", "release", "objective", "seal"}
    assert phases <= counters["seconds"].keys()
    assert min(counters["seconds"].values()) >= 0


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("penalty", [{}, {"l2": 0.01}])
def test_what_is_handed_to_threads_that_have_not_asked(con, threads, penalty) -> None:
    """Another way to the same payloads: the counters add up, and one thread is handed nothing."""
    given = STEADY | {"threads": threads, "max_iter": 4, "partition": 0} | penalty
    plain, model = train(con, **given), train(con, **given, sharing="push")
    counters = model.options["counters"]
    assert add_up(counters) == counters["features"] == plain.options["counters"]["features"]
    assert plain.options["counters"]["saved_by_pushing"] == 0
    assert counters["requests"] == plain.options["counters"]["requests"], "all fit into the cache"
    assert model.loss == pytest.approx(plain.loss, rel=0.05)
    if threads == 1:
        assert counters["saved_by_pushing"] == 0
        assert model.loss == plain.loss


@pytest.mark.nightly
def test_a_small_cache_reads_again(con, tmp_path) -> None:
    """What does not fit into memory is read again in each epoch."""
    con.execute("CREATE TABLE wide (y DOUBLE, ids INTEGER[], vals DOUBLE[])")
    con.register("made", {"y": np.arange(9500) % 2.0, "n": np.arange(9500)})
    con.execute(
        "INSERT INTO wide SELECT y, [(hash(n * 30 + j) % 8000000)::INTEGER FOR j IN range(30)], "
        "[1.0 FOR j IN range(30)] FROM made"
    )
    options = {"max_iter": 3, "threads": 2, "partition": 0, "epsilon": 0, "step": 1.0}
    model = train(con, table="wide", cache="16MB", **options)
    counters = model.options["counters"]
    assert add_up(counters) == counters["features"]
    distinct = con.execute("SELECT count(DISTINCT u) FROM (SELECT unnest(ids) u FROM wide)")
    distinct = distinct.fetchone()[0]
    assert counters["requests"] > 2 * distinct, "more than memory holds, read in every epoch"
    assert distinct <= counters["requests"] - counters["found"] < 1.01 * distinct
    assert counters["bytes_read"] > 0
    assert counters["bytes_written"] > 0
    large = train(con, table="wide", cache="1GB", **options)
    assert large.options["counters"]["requests"] == distinct
    assert large.loss == pytest.approx(model.loss, rel=0.05)


def test_the_last_training_has_the_counters_of_a_stored_model_alone(con) -> None:
    model = train(con, **STEADY, max_iter=2)
    assert tuskml.last_training()["counters"] == model.options["counters"]
    con.execute("SELECT train_model('linear', x, [x]) FROM range(9) t(x)").fetchall()
    assert tuskml.last_training()["counters"] is None


def test_before_the_first_training_and_without_the_store() -> None:
    program = (
        "import sys, tuskml; print(tuskml.last_training());"
        "print('last_training' in tuskml.__all__, 'tuskml.kvstore' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["None", "True", "False"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
@pytest.mark.parametrize("options", [{"threads": 1}, {"deterministic": True, "threads": 4}])
def test_same_bits_whatever_the_order(con, tmp_path, task, options) -> None:
    put(con, *rows_of(task))
    text = json.dumps(options | {"store": "ads", "l2": 0.01, "max_iter": 5, "seed": 3})
    found = set()
    for order in ("i", "i DESC", "hash(i)"):
        model = con.execute(
            f"SELECT train_model('{task}', y, sparse(ids, vals), '{text}') "
            f"FROM (SELECT * FROM t ORDER BY {order})"
        ).fetchone()[0]
        found.add((model["store"].split(":")[1], model["loss"], tuple(model["history"])))
    assert len(found) == 1
    assert StoreRoot(tmp_path).versions("ads") == [1, 2, 3]


def test_costs_are_measured_by_calibrations_alone(con, monkeypatch) -> None:
    """Measured costs differ from time to time: without a calibration they decide nothing, and
    with one not where bits shall be the same.
    """
    wrong = lambda *_, **__: pytest.fail("costs are measured")  # noqa: E731
    monkeypatch.setattr(database, "measure_cost", wrong)
    given = {"method": "kv-vp", "max_iter": 1}
    shipped = train(con, **given).plan
    known = replace(constants.of_host(), store=(1e-6, 1e-4))
    monkeypatch.setattr(constants, "of_host", lambda: known)
    calibrated = train(con, **given, threads=2).plan
    assert shipped.partition("in blocks of")[2] != calibrated.partition("in blocks of")[2]
    assert train(con, **given, deterministic=True).plan.partition("in blocks of")[2] in shipped


def test_seeds(con, tmp_path) -> None:
    models = [train(con, **STEADY, max_iter=3, seed=seed) for seed in (1, 2, 1)]
    assert models[0].store.split(":")[1] == models[2].store.split(":")[1]
    assert models[0].store.split(":")[1] != models[1].store.split(":")[1]
    coefs = [with_weights(tmp_path, model, D).coef for model in models[:2]]
    assert np.abs(coefs[0] - coefs[1]).max() > 0
    assert models[0].loss == pytest.approx(models[1].loss, rel=0.05)
