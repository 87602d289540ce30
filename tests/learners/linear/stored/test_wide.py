"""Rows whose weights do not fit into a worker's share of the cache, through SQL."""

import numpy as np
import pytest
from stored_fits import train, with_weights

import tuskml
from tuskml.learners.linear.stored import run

pytestmark = pytest.mark.native

D, ENTRIES = 300_000, 60_000
STEADY = {"epsilon": 0, "step": 1e-5, "threads": 1, "max_iter": 3}


@pytest.fixture
def con(tmp_path):
    """A key per feature takes 128 bytes and more: 7 MB for a row, and 4 MB are a worker's."""
    with tuskml.connect(store_root=tmp_path, threads=2) as connection:
        connection.execute(
            f"CREATE TABLE t AS SELECT (hash(i) % 2)::DOUBLE AS y, "
            f"list_distinct([(hash(i * {ENTRIES} + j) % {D})::INTEGER FOR j IN range({ENTRIES})])"
            " AS ids, [((hash(i + j) % 7)::DOUBLE - 3) FOR j IN range(len(ids))] AS vals "
            "FROM range(8) r(i)"
        )
        yield connection


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("partition", "penalty"),
    [
        (0, {}),
        (40, {"l2": 0.01}),
        pytest.param(40, {}, marks=pytest.mark.nightly),
        pytest.param(0, {"l2": 0.01}, marks=pytest.mark.nightly),
    ],
)
def test_the_same_loss_as_in_memory(con, tmp_path, monkeypatch, partition, penalty) -> None:
    monkeypatch.setattr(run, "FEWEST_CHUNKS", 8)  # each row a chunk in memory, too
    options = STEADY | {"partition": partition} | penalty
    whole = train(con, store="whole", cache="1GB", **options)
    model = train(con, store="wide", cache="16MB", **options)
    assert model.history == pytest.approx(whole.history, rel=1e-5)
    assert model.loss == pytest.approx(whole.loss, rel=1e-5)
    coef = with_weights(tmp_path, model, D).coef
    assert np.count_nonzero(coef) > D / 2
    reference = with_weights(tmp_path, whole, D).coef
    size = np.abs(reference)
    assert (np.abs(coef - reference) <= np.maximum(1e-3 * size, 1e-4 * size.max())).all()
    if not partition:
        assert model.options["counters"]["requests"] > 1.5 * np.count_nonzero(coef)


@pytest.mark.nightly
def test_two_threads(con) -> None:
    options = STEADY | {"partition": 0, "threads": 2, "cache": "16MB"}
    whole = train(con, store="whole", **options | {"cache": "1GB"})
    assert train(con, store="wide", **options).loss == pytest.approx(whole.loss, rel=0.05)
