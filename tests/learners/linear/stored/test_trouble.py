"""Trainings that are ended, fail, diverge or meet: nothing is left, or it can be resumed."""

import os
import signal
import threading

import duckdb
import numpy as np
import pytest
from stored_fits import (
    SPARSE,
    STEADY,
    at_epoch,
    in_a_process,
    put,
    rows_of,
    train,
    with_weights,
    working,
)

import tuskml
from tuskml.errors import StoreError
from tuskml.kvstore import Rules, StoreRoot, collect
from tuskml.learners.linear.stored import run as stored_run

pytestmark = pytest.mark.native

D, EPOCHS = 150, 6


@pytest.fixture
def often(monkeypatch) -> None:
    """A checkpoint after each epoch."""
    monkeypatch.setattr(stored_run, "CHECKPOINT_SECONDS", 0)


@pytest.fixture
def con(rooted):
    put(rooted, *rows_of("logistic"))
    return rooted


def cancel() -> None:
    """From another thread."""
    thread = threading.Thread(target=tuskml.cancel)
    thread.start()
    thread.join()


def fail() -> None:
    raise StoreError("the disk fails")


ENDINGS = {"interrupted": cancel, "the disk fails": fail}


def ended(con, told, **options) -> None:
    """A training that ends in its third epoch, or in the fourth's beginning."""
    with at_epoch(3, ENDINGS[told]), pytest.raises(duckdb.Error, match=told):
        train(con, **STEADY | {"max_iter": EPOCHS} | options)


# --- ended ---


@pytest.mark.parametrize("told", ENDINGS)
@pytest.mark.parametrize("options", [{}, {"threads": 4, "l2": 0.01}, {"deterministic": True}])
def test_nothing_is_left_without_a_checkpoint(con, tmp_path, told, options) -> None:
    ended(con, told, **options)
    assert working(tmp_path) == []
    assert StoreRoot(tmp_path).versions("ads") == []
    with pytest.raises(
        duckdb.Error, match="the store 'ads' has no interrupted training: leave out 'resume'"
    ):
        train(con, **STEADY, resume=True)
    assert train(con, **STEADY, max_iter=2).store.startswith("ads@1:")


@pytest.mark.parametrize("told", ENDINGS)
@pytest.mark.parametrize("warm", [False, True])
def test_nothing_is_left_of_a_warm_start(con, tmp_path, told, warm) -> None:
    """What it began with is a finished model, and no checkpoint of this training."""
    first = train(con, **STEADY, max_iter=2)
    start = {"store": first.store} if warm else {"coef": [1.0, 2.0]}
    ended(con, told, warm_start=start | {"intercept": first.intercept})
    assert working(tmp_path) == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("told", ENDINGS)
@pytest.mark.parametrize("options", [{}, {"l2": 0.01}, {"l1": 0.01}, {"partition": 0}])
def test_resuming(con, tmp_path, often, told, options) -> None:
    whole = train(con, **STEADY, store="whole", max_iter=EPOCHS, **options)
    ended(con, told, **options)
    (left,) = working(tmp_path)
    model = train(con, **STEADY, max_iter=EPOCHS, resume=True, **options)
    assert working(tmp_path) == [], left
    assert model.iterations == len(model.history) == EPOCHS
    assert model.history == pytest.approx(whole.history, rel=1e-5)
    assert model.loss == pytest.approx(whole.loss, rel=1e-5)
    coef = with_weights(tmp_path, model, D).coef
    assert coef == pytest.approx(with_weights(tmp_path, whole, D).coef, rel=1e-3, abs=1e-5)
    if options in ({}, {"partition": 0}):
        assert model.store.split(":")[1] == whole.store.split(":")[1], "to the bit"
    counters = model.options["counters"]
    names = (
        "saved_by_partitioning",
        "read_together",
        "saved_by_pushing",
        "cache_hits",
        "requests",
    )
    assert sum(counters[name] for name in names) == counters["features"]


@pytest.mark.nightly
def test_resuming_by_four_threads(con, tmp_path, often) -> None:
    options = STEADY | {"threads": 4, "max_iter": 40}
    whole = train(con, **options, store="whole")
    ended(con, "interrupted", **options)
    model = train(con, **options, resume=True)
    assert model.iterations == len(model.history) == 40
    assert model.loss == pytest.approx(whole.loss, rel=0.02)


def test_resuming_for_more_epochs_or_none(con, tmp_path, often) -> None:
    ended(con, "interrupted")
    done = train(con, **STEADY, max_iter=2, resume=True)
    assert 2 <= done.iterations <= 3, "those there were"
    ended(con, "interrupted")
    assert train(con, **STEADY, max_iter=9, resume=True).iterations == 9


def test_resuming_a_warm_start(con, tmp_path, often) -> None:
    """Features that only the warm start knows are there after all."""
    coef = [0.0] * D + [3.0, 4.0]
    ended(con, "interrupted", l2=0.1, warm_start={"coef": coef, "intercept": 0})
    model = train(con, **STEADY, max_iter=EPOCHS, l2=0.1, resume=True)
    assert model.n_features == D + 2
    found = with_weights(tmp_path, model, D + 2).coef
    assert 0 < found[D] < 3, "the penalty is of all weights"
    assert found[D + 1] / found[D] == pytest.approx(4 / 3)


@pytest.mark.parametrize("change", ["rows", "task", "entries", "labels", "ids"])
def test_resuming_something_else(con, tmp_path, often, change) -> None:
    ended(con, "interrupted")
    (left,) = working(tmp_path)
    task = "linear" if change == "task" else "logistic"
    con.execute({
        "rows": "DELETE FROM t WHERE i = 7",
        "task": "SELECT 1",
        "entries": "UPDATE t SET ids = ids[1:2], vals = vals[1:2] WHERE i = 7",
        "labels": "UPDATE t SET y = 1 - y WHERE i = 7",
        "ids": "UPDATE t SET ids = [900] || ids[2:] WHERE i = 7",
    }[change])  # fmt: skip
    with pytest.raises(duckdb.Error, match="the interrupted training was of task 'logistic' over"):
        train(con, task, **STEADY, max_iter=EPOCHS, resume=True)
    assert working(tmp_path) == [left], "it is there for the right rows"


def test_resuming_wide_ids(con, tmp_path, often) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE t AS "
        "SELECT * REPLACE ([9223372036854775807 - id FOR id IN ids] AS ids) FROM t"
    )
    whole = train(con, **STEADY, store="whole", max_iter=EPOCHS)
    ended(con, "interrupted")
    (left,) = working(tmp_path)
    con.execute("UPDATE t SET ids = [id - 1 FOR id IN ids]")
    with pytest.raises(duckdb.Error, match="the interrupted training was of other feature ids"):
        train(con, **STEADY, max_iter=EPOCHS, resume=True)
    assert working(tmp_path) == [left], "it is there for the right rows"
    con.execute("UPDATE t SET ids = [id + 1 FOR id IN ids]")
    model = train(con, **STEADY, max_iter=EPOCHS, resume=True)
    assert (model.history, model.n_features) == (whole.history, 2**63 - 1)


def test_the_version_before_serves_meanwhile(con, tmp_path, often) -> None:
    first = train(con, **STEADY, max_iter=2)
    ended(con, "interrupted")
    root = StoreRoot(tmp_path)
    assert root.version("ads").reference == first.store
    removed = collect(root, "ads", Rules(older_than=0))
    assert [each.why for each in removed] == ["its owner is gone and it is old"]
    root.open(first.store).verify()


# --- processes ---


KILLED = """
stored_run.CHECKPOINT_SECONDS = 0
with at_epoch(4, lambda: os.kill(os.getpid(), signal.SIGKILL)):
    train(con, **STEADY, partition=0, max_iter=6)
"""


def test_killed_and_resumed_in_another_process(con, tmp_path) -> None:
    whole = train(con, **STEADY, store="whole", partition=0, max_iter=EPOCHS)
    before = train(con, **STEADY, partition=0, max_iter=1)
    assert in_a_process(KILLED, tmp_path).returncode == -signal.SIGKILL
    assert len(working(tmp_path)) == 1
    assert StoreRoot(tmp_path).version("ads").reference == before.store
    model = train(con, **STEADY, partition=0, max_iter=EPOCHS, resume=True)
    assert model.store.replace("ads@2", "whole@1") == whole.store
    assert model.history == whole.history
    assert working(tmp_path) == []


@pytest.mark.nightly
def test_killed_without_a_checkpoint(con, tmp_path) -> None:
    program = KILLED.replace("stored_run.CHECKPOINT_SECONDS = 0", "")
    assert in_a_process(program, tmp_path).returncode == -signal.SIGKILL
    with pytest.raises(duckdb.Error, match="has no checkpoint: begin anew"):
        train(con, **STEADY, resume=True)
    removed = collect(StoreRoot(tmp_path), "ads", dry_run=True)
    assert [each.why for each in removed] == ["its owner is gone and it has no checkpoint"]
    train(con, **STEADY, max_iter=2)
    assert working(tmp_path) == [], "the next training of the name removes it"
    assert collect(StoreRoot(tmp_path), "ads") == []


@pytest.mark.nightly
def test_two_processes_train_the_same_name(con, tmp_path) -> None:
    """Each in a working store of its own: the one that ends last is the current version."""
    done = []
    program = "print(train(con, **STEADY, partition=0, max_iter=3).store)"
    with at_epoch(2, lambda: done.append(in_a_process(program, tmp_path))):
        mine = train(con, **STEADY, partition=0, max_iter=4)
    assert done[0].returncode == 0, done[0].stderr
    other = done[0].stdout.strip()
    assert (other[:6], mine.store[:6]) == ("ads@1:", "ads@2:")
    root = StoreRoot(tmp_path)
    assert root.version("ads").reference == mine.store
    for reference in (other, mine.store):
        root.open(reference).verify()
    assert working(tmp_path) == []


@pytest.mark.nightly
def test_a_training_that_runs_is_not_resumed(con, tmp_path, often) -> None:
    done = []
    program = "train(con, **STEADY, partition=0, max_iter=6, resume=True)"
    with at_epoch(3, lambda: done.append(in_a_process(program, tmp_path))):
        model = train(con, **STEADY, partition=0, max_iter=EPOCHS)
    assert f"is open already, in process {os.getpid()}" in done[0].stderr
    assert model.iterations == EPOCHS
    assert StoreRoot(tmp_path).versions("ads") == [1]


FULL = """
import resource
before = train(con, **STEADY, partition=0, max_iter=1)
ask = "SELECT sum(decision(m, sparse(ids, vals))) FROM t, m"
text = '{"store": "ads", "partition": 0, "max_iter": 1}'
con.execute(f"CREATE TABLE m AS SELECT train_model('logistic', y, {SPARSE}, '{text}') m FROM t")
right = con.execute(ask).fetchone()
con.execute("CREATE TABLE wide AS SELECT i % 2 y, [(i * 100 + j)::INTEGER FOR j IN range(100)]"
            " ids, [1.0 FOR j IN range(100)] vals FROM range(3000) r(i)")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, -1))
for cache in ("256MB", "16MB"):
    try:
        train(con, table="wide", partition=0, cache=cache, max_iter=2, threads=1)
    except Exception as error:
        print(error)
assert con.execute(ask).fetchone() == right
assert StoreRoot(root).version("ads").number == 2
assert working(root) == [], working(root)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
train(con, table="wide", partition=0, max_iter=2, threads=1)
"""


@pytest.mark.nightly
def test_a_full_disk(tmp_path) -> None:
    """Files may not grow, as on a full disk: the version before serves, and nothing is left."""
    done = in_a_process(FULL, tmp_path)
    assert done.returncode == 0, done.stderr
    told = done.stdout.strip().splitlines()
    assert len(told) == 2
    assert all("File too large" in line and str(tmp_path) in line for line in told), told
    assert StoreRoot(tmp_path).versions("ads") == [1, 2, 3]


# --- steps that are too long ---


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
def test_a_step_that_is_too_long_is_made_shorter(con, tmp_path, task) -> None:
    put(con, *rows_of(task))
    step = 100.0 if task == "linear" else 1e39  # above the largest float32
    model = train(con, task, step=step, threads=1, max_iter=EPOCHS)
    assert model.options["step"] < step
    assert model.iterations == len(model.history), "epochs that ran away are forgotten"
    assert np.isfinite(model.history).all()
    assert np.isfinite(with_weights(tmp_path, model, D).coef).all()
    assert working(tmp_path) == []


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
def test_it_diverges_whatever_the_step(con, tmp_path, task) -> None:
    """The hinge of NaN is 0, and its weights are not finite all the same."""
    told = "the training of 'ads' diverged with steps down to 9.76563e.296: scale the features"
    with pytest.raises(duckdb.Error, match=told):
        train(con, task, step=1e300, threads=1, max_iter=EPOCHS)
    assert working(tmp_path) == []
    assert StoreRoot(tmp_path).versions("ads") == []


@pytest.mark.parametrize("task", ["linear", "logistic", "svm"])
def test_large_values(con, tmp_path, task) -> None:
    x, y = rows_of(task)
    put(con, x * 1e6, y)
    model = train(con, task, threads=1, max_iter=EPOCHS)
    assert np.isfinite(model.loss)
    assert model.loss < {"linear": np.var(y) / 2, "logistic": np.log(2), "svm": 1}[task]
    assert working(tmp_path) == []


def test_a_checkpoint_that_diverges_is_no_help(con, tmp_path, often) -> None:
    ended(con, "interrupted")
    con.execute("UPDATE t SET vals = [v * 1e200 FOR v IN vals]")
    with pytest.raises(duckdb.Error, match=r"'ads' diverged with steps down to 0\.5: scale"):
        train(con, **STEADY, max_iter=EPOCHS, resume=True)
    assert working(tmp_path) == []


# --- transactions ---


def test_rolled_back_trainings_can_be_collected(con, tmp_path) -> None:
    con.execute("BEGIN")
    text = f"SELECT train_model('logistic', y, {SPARSE}, '{{\"store\": \"ads\"}}') AS m FROM t"
    con.execute(f"CREATE TABLE m AS {text}")
    con.execute("ROLLBACK")
    root = StoreRoot(tmp_path)
    lost = root.version("ads")
    assert root.versions("ads") == [1]
    kept = train(con, **STEADY, max_iter=2)
    removed = collect(root, "ads", Rules(older_than=0, keep=0))
    assert [each.path for each in removed] == [
        tmp_path / "ads" / "versions" / "1",
        lost.path(tmp_path / "ads"),
    ]
    assert root.versions("ads") == [2]
    root.open(kept.store).verify()
