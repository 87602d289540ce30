"""Rows whose payloads do not fit together, trained by partial dot products."""

import numpy as np
import pytest
from stored_reference import sparse_rows
from test_stored_weights import MAPS, PENALTIES, D, Setup, compare, partitions

FRAME, WIDTH = 128, 8


def widest(index):
    """Bytes of the largest payload: the least memory that a row can be trained in."""
    keys = index.locate(np.arange(D))[0]
    return int(index.sizes(np.unique(keys)).max()) * WIDTH + FRAME


def setup_of(index, rows, y, task, **how):
    """Chunks whose memory holds one payload of any size, and of small ones a few."""
    setup = Setup(rows, y, index, task, most_bytes=widest(index), **how)
    for chunk in setup.chunks:
        size = chunk.weights * WIDTH + FRAME * len(chunk.keys)
        assert chunk.wide == (size > widest(index)), "as a chunk it is of one row"
        assert chunk.rows == 1 or not chunk.wide
    return setup


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("batch_size", [1, 32])
@pytest.mark.parametrize("index", ["a key a feature", "blocks", "partitions"])
def test_same_updates_as_numpy(index, batch_size, penalty):
    rng = np.random.default_rng(17)
    rows, y = sparse_rows(rng, 120, D, mean=20, task="logistic")
    setup = setup_of(MAPS[index](), rows, y, "logistic")
    assert sum(chunk.wide for chunk in setup.chunks) > 50
    options = {"batch_size": batch_size, "step": 0.05} | PENALTIES[penalty]
    compare(setup, setup.reference("logistic", rows, y, **options), setup.training(**options))


@pytest.mark.parametrize("kind", ["sparse float32", "sparse float64"])
def test_the_loss_is_that_of_rows_in_memory(kind):
    rng = np.random.default_rng(18)
    rows, y = sparse_rows(rng, 100, D, mean=20, task="svm")
    rows = [(ids, np.float32(values).astype(float)) for ids, values in rows]
    by_parts = setup_of(partitions(), rows, y, "svm", kind=kind)
    whole = Setup(rows, y, partitions(), "svm", kind=kind, rows_per_chunk=1)
    found = [one.training(step=0.1).epoch(one_model()) for one in (by_parts, whole)]
    assert found[0].loss == pytest.approx(found[1].loss, rel=1e-12)
    losses = [
        one.training().loss(done.model).loss
        for one, done in zip((by_parts, whole), found, strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-12)
    assert losses[0] < found[0].loss


def one_model():
    from tuskml.kernels.stored.training import Model

    return Model()


def test_several_workers_do_not_lose_rows():
    rng = np.random.default_rng(19)
    rows, y = sparse_rows(rng, 200, D, mean=20, task="logistic")
    one, two = (setup_of(MAPS["blocks"](), rows, y, "logistic", threads=n) for n in (1, 2))
    models, losses = [one_model()] * 2, [0.0] * 2
    for epoch in range(20):
        for i, each in enumerate((one, two)):
            done = each.training(step=0.05, l2=0.01, shuffle=True).epoch(models[i], epoch)
            assert done.rows == len(rows)
            models[i], losses[i] = done.model, done.loss
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
