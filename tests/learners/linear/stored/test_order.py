"""Stored models that their cache does not hold: features lie by the chunks that ask for them."""

import duckdb
import numpy as np
import pytest
from stored_fits import STEADY, at_epoch, put, rows_of, train, with_weights, working

from tuskml.errors import StoreError
from tuskml.kvstore import StoreRoot
from tuskml.kvstore import working as working_stores
from tuskml.learners.linear.stored import routed
from tuskml.learners.linear.stored import run as stored_run

pytestmark = pytest.mark.native

D, EPOCHS, CHUNKS = 400, 5, 10
PENALTIES = [{}, {"l2": 0.01}, {"l1": 0.01}]


@pytest.fixture(autouse=True)
def tight(monkeypatch) -> None:
    """As if the cache did not hold the model; sealed in windows of a few features."""
    monkeypatch.setattr(stored_run, "all_fit", lambda *_: False)
    monkeypatch.setattr(stored_run, "FEWEST_CHUNKS", CHUNKS)
    monkeypatch.setattr(working_stores, "WINDOW", 37)


@pytest.fixture
def con(rooted):
    """Half of the features occur in one row each, whatever order the rows are put in."""
    x, y = rows_of("logistic", n=1000, d=D)
    x[:, 200:] = 0
    x[5 * np.arange(200), 200 + np.arange(200)] = 1
    order = np.random.default_rng(1).permutation(D)
    put(rooted, x[:, order], y)
    return rooted


@pytest.mark.parametrize("penalty", PENALTIES)
def test_the_same_model_as_with_a_key_a_feature(con, tmp_path, penalty) -> None:
    options = STEADY | {"max_iter": EPOCHS} | penalty
    plain = train(con, **options, store="plain", partition=0)
    model = train(con, **options, method="kv-vp")
    assert model.history == pytest.approx(plain.history, rel=1e-5)
    coef = with_weights(tmp_path, model, D).coef
    assert np.count_nonzero(coef) > 100
    assert coef == pytest.approx(with_weights(tmp_path, plain, D).coef, rel=1e-3, abs=1e-5)
    if not penalty:
        assert (coef == with_weights(tmp_path, plain, D).coef).all(), "to the bit"


@pytest.mark.parametrize("threads", [2, 4])
def test_several_threads(con, threads) -> None:
    options = STEADY | {"max_iter": 40, "l2": 0.01}
    one, several = train(con, **options), train(con, **options | {"threads": threads})
    assert several.loss == pytest.approx(one.loss, rel=0.02)


def test_each_chunk_has_keys_of_its_own(con) -> None:
    """Of the blocks of features in one row each chunk asks for its own."""
    counters = train(con, **STEADY, max_iter=2, method="kv-vp").options["counters"]
    keys = (counters["features"] - counters["saved_by_partitioning"]) / 3
    assert counters["requests"] > 10, "each block of a chunk is read once, they all fit"
    assert keys <= CHUNKS * (counters["requests"] - CHUNKS + 2)
    assert keys < 0.5 * CHUNKS * counters["requests"], "not by every chunk"


@pytest.mark.sample(1)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_resuming(con, tmp_path, monkeypatch, penalty) -> None:
    monkeypatch.setattr(stored_run, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(routed, "PATIENCE", 0)
    options = STEADY | {"max_iter": EPOCHS} | penalty
    whole = train(con, **options, store="whole")

    def fail() -> None:
        raise StoreError("the disk fails")

    with at_epoch(3, fail), pytest.raises(duckdb.Error, match="the disk fails"):
        train(con, **options)
    assert len(working(tmp_path)) == 1
    model = train(con, **options, resume=True)
    assert working(tmp_path) == []
    assert model.history == pytest.approx(whole.history, rel=1e-5)
    coef = with_weights(tmp_path, model, D).coef
    assert coef == pytest.approx(with_weights(tmp_path, whole, D).coef, rel=1e-3, abs=1e-5)


@pytest.mark.parametrize(("patience", "checkpoints"), [(0, 1), (1e6, 0)])
def test_the_first_checkpoint_waits_as_the_others_do(
    con, tmp_path, monkeypatch, patience, checkpoints
) -> None:
    """So many times as long as planning took, as a checkpoint takes about that."""
    monkeypatch.setattr(stored_run, "CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(routed, "PATIENCE", patience)

    def fail() -> None:
        raise StoreError("the disk fails")

    with at_epoch(3, fail), pytest.raises(duckdb.Error, match="the disk fails"):
        train(con, **STEADY, max_iter=EPOCHS)
    assert len(working(tmp_path)) == checkpoints


@pytest.mark.parametrize("stored", [False, True])
def test_a_warm_start_knows_features_that_the_rows_have_not(con, tmp_path, stored) -> None:
    coef = [0.0] * D + [3.0, 4.0]
    start = {"coef": coef, "intercept": 0}
    if stored:
        version = StoreRoot(tmp_path).publish_weights("known", np.array(coef, np.float32))
        start = {"store": str(version.reference), "intercept": 0}
    model = train(con, **STEADY, max_iter=2, l2=0.1, warm_start=start)
    assert model.n_features == D + 2
    found = with_weights(tmp_path, model, D + 2).coef
    assert 0 < found[D] < 3, "the penalty is of all weights"
    assert found[D + 1] / found[D] == pytest.approx(4 / 3)
