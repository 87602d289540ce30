"""Embedded categories in the kernels: finite differences, PyTorch's losses, equal nets."""

import json
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from nets import PLAIN, flat, layers_of, losses, margins, net, rows_of, rules

from tuskml.kernels.nets.training import ALGORITHMS, LOGISTIC, SOFTMAX, SQUARED, gradient

sys.path.append(str(Path(__file__).parent))

from torch_embeddings import (
    BATCH,
    CASES,
    FIRST,
    HIDDEN,
    LENGTHS,
    LEVELS,
    STEPS,
    features,
    rows,
    start,
)

RECORDED = json.loads((Path(__file__).parent / "torch_embedding_losses.json").read_text())
TABLES = tuple(zip(FIRST, LEVELS, LENGTHS, strict=True))
KINDS = ("squared", "logistic")


def first_weights() -> np.ndarray:
    """The first weights in the layout of the kernels."""
    vectors, layers = start()
    of_layers = flat([(w.astype(float), b.astype(float)) for w, b in layers])
    return np.concatenate([*(one.astype(float).ravel() for one in vectors), of_layers])


def inputs_of(weights, x, level):
    """The inputs of the first layer, and the weights of the layers."""
    parts, at = [x], 0
    for c, (k, length) in enumerate(zip(LEVELS, LENGTHS, strict=True)):
        parts.append(weights[at : at + k * length].reshape(k, length)[level[:, c]])
        at += k * length
    return np.concatenate(parts, axis=1), weights[at:]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_losses_are_those_of_pytorch(number):
    """A step only trains the rows of its batch: epochs of ever more rows say each step's loss."""
    case = CASES[number]
    x, level, y = rows(case)
    wide = features(x, level)
    given = {name: case[name] for name in ("learning_rate", "weight_decay")}
    given |= {name: case[name] for name in ("momentum", "sparse") if name in case}
    weight = np.array([case.get("class_weight", (1.0, 1.0))])
    weighed = weight[0, 0] != weight[0, 1]
    sums = [0.0]
    for step in (
        [STEPS] if weighed else range(1, STEPS + 1)
    ):  # weights need all rows for their mean
        n = step * BATCH
        found = net(
            wide[:n], y[:n].astype(float), start=first_weights()[None], epochs=1, batch=BATCH,
            hidden=(HIDDEN,), loss=KINDS.index(case["loss"]), tables=TABLES,
            algorithm=ALGORITHMS.index(case["algorithm"]),
            class_weight=weight if weighed else None, **given, **PLAIN,
        )  # fmt: skip
        sums.append(found.history[0, 0] * step)
    recorded = np.array(RECORDED["losses"][number])
    if weighed:
        assert sums[-1] == pytest.approx(recorded.sum(), rel=1e-5)
    else:
        np.testing.assert_allclose(np.diff(sums), recorded, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("hidden", [(), (3,), (16, 5)])
def test_the_gradient_is_that_of_finite_differences(outputs, hidden):
    """Of vectors too, also where the first layer has few units."""
    random = np.random.default_rng(5)
    x, level, _ = rows(CASES[0])
    x, level = x[:60], level[:60]
    loss = LOGISTIC if outputs == 1 else SOFTMAX
    y = random.integers(0, max(outputs, 2), 60) * 1.0
    sizes = (2 + sum(LENGTHS), *hidden, outputs)
    n = sum(k * d for k, d in zip(LEVELS, LENGTHS, strict=True))
    n += sum(b * (a + 1) for a, b in pairwise(sizes))
    at = random.normal(size=n).astype(np.float32).astype(float)
    given = rules(loss=loss, outputs=outputs, hidden=hidden, activation=1, tables=TABLES, **PLAIN)
    classes = np.arange(outputs)[None] * 1.0 if outputs > 1 else None
    found = gradient(rows_of(features(x, level), y, 1, True), given, at[None], classes)

    def mean_loss(weights):
        inputs, layers = inputs_of(weights, x.astype(float), level)
        return losses(margins(layers_of(layers, sizes), inputs, 1), y, loss).mean()

    for place in random.choice(n, 60, replace=False):
        ends = []
        for sign in (1, -1):
            moved = at.copy()
            moved[place] += sign * 1e-5
            ends.append(mean_loss(moved))
        assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=5e-4, abs=3e-6)


def test_vectors_are_centred_and_margins_stay():
    """The mean vector of the rows is 0, and the loss that is told is that of the weights."""
    x, level, y = rows(CASES[0])
    found = net(
        features(x, level),
        y.astype(float),
        hidden=(HIDDEN,),
        tables=TABLES,
        epochs=9,
        learning_rate=0.02,
    )
    weights = found.weights[0]
    inputs, layers = inputs_of(weights, x.astype(float), level)
    m = margins(layers_of(layers, (2 + sum(LENGTHS), HIDDEN, 1)), inputs)
    assert losses(m, y, SQUARED).mean() == pytest.approx(found.about["loss"][0], rel=1e-4)
    np.testing.assert_allclose(inputs[:, 2:].mean(axis=0), 0, atol=1e-5)
    assert found.about["loss"][0] < 0.5 * found.about["base_loss"][0]


@pytest.mark.parametrize("sparse", [False, True])
def test_threads_change_no_bit(sparse):
    """Long vectors, so that sparse steps have threads too."""
    x, level, y = rows(CASES[1])
    tables = tuple((first, levels, 300) for first, levels, _ in TABLES)
    given = {"hidden": (HIDDEN,), "tables": tables, "epochs": 2, "batch": 512, "loss": LOGISTIC}
    given["sparse"] = sparse
    one, two = (net(features(x, level), y.astype(float), threads=n, **given) for n in (1, 2))
    np.testing.assert_array_equal(one.weights, two.weights)


def test_weights_of_classes_are_rows_more_often():
    """A weight of 3 for a class is three times its rows, at the same gradient; weights have the
    mean 1, so the loss is the mean over the larger table."""
    x, level, y = rows(CASES[1])
    wide, y = features(x, level)[:200], y[:200].astype(float)
    often = np.repeat(np.arange(200), np.where(y > 0, 3, 1))
    given = {
        "hidden": (6,), "tables": TABLES, "epochs": 4, "batch": 4096, "loss": LOGISTIC,
        "shuffle": False, "standardise": False,
    }  # fmt: skip
    weighed = net(wide, y, class_weight=np.array([[1.0, 3.0]]), **given)
    repeated = net(wide[often], y[often], **given)
    np.testing.assert_allclose(weighed.history, repeated.history, rtol=1e-5)
    assert weighed.about["base_loss"] == pytest.approx(repeated.about["base_loss"])
    assert weighed.about["loss"] == pytest.approx(repeated.about["loss"], rel=1e-4)


def test_a_training_without_time_takes_no_step():
    x, level, y = rows(CASES[0])
    found = net(features(x, level), y.astype(float), tables=TABLES, seconds=1e-9)
    assert found.about["ending"][0] == 4
    assert found.about["epochs"][0] == 0
    assert np.isnan(found.weights).all()


@pytest.mark.parametrize("algorithm", range(len(ALGORITHMS)))
def test_sparse_steps_leave_other_vectors(algorithm):
    """A level that no row of the batches has keeps its vector; with dense steps the means of
    gradients go on moving one that the first batch alone had.
    """
    x, level, y = rows(CASES[0])
    n = 4 * BATCH
    x, level, y = x[:n], level[:n].copy(), y[:n].astype(float)
    level[:, 1] = level[:, 1] % 3
    level[0, 1] = 8  # in the first batch alone
    given = {
        "start": first_weights()[None], "epochs": 1, "batch": BATCH, "hidden": (HIDDEN,),
        "tables": TABLES, "algorithm": algorithm, "momentum": 0.9, **PLAIN,
    }  # fmt: skip
    size = LEVELS[0] * LENGTHS[0]

    def vectors(rows: int, sparse: bool):
        found = net(features(x, level)[:rows], y[:rows], sparse=sparse, **given)
        own = found.weights[0][size : size + LEVELS[1] * LENGTHS[1]].reshape(LEVELS[1], -1)
        return own - own[5]  # vectors are centred, and no row has the sixth

    for sparse in (True, False):
        first, last = vectors(BATCH, sparse), vectors(n, sparse)
        assert np.abs(first[0] - last[0]).max() > 1e-4
        assert (np.abs(first[8] - last[8]).max() < 1e-6) == sparse


@pytest.mark.parametrize("algorithm", range(len(ALGORITHMS)))
def test_sparse_steps_of_every_row_are_dense_ones(algorithm):
    """Where each batch has all levels, but for the order of sums."""
    x, level, y = rows(CASES[0])
    given = {
        "epochs": 5, "batch": len(x), "hidden": (HIDDEN,), "tables": TABLES,
        "algorithm": algorithm, "weight_decay": 0.1, "momentum": 0.9,
    }  # fmt: skip
    x = features(x, level)
    one, other = (net(x, y.astype(float), sparse=sparse, **given) for sparse in (True, False))
    np.testing.assert_allclose(one.history, other.history, rtol=1e-5)
    np.testing.assert_allclose(one.weights, other.weights, rtol=1e-3, atol=1e-5)
