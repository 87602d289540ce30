"""Weights of rows in nets: the weighted loss's gradient, PyTorch's steps, and rows repeated."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from nets import PLAIN, drawn, flat, layers_of, losses, margins, rules
from rows import block
from torch_cases import BATCH, STEPS, rows, start

sys.path.append(str(Path(__file__).parent))

from torch_row_weights import WEIGHTED, weights

from tuskml.kernels.nets.training import (
    ACTIVATIONS,
    LOGISTIC,
    SOFTMAX,
    SQUARED,
    ByGroup,
    gradient,
    train_nets,
)
from tuskml.kernels.passes import Pass

LOSSES = ("squared", "logistic", "softmax")
RECORDED = json.loads((Path(__file__).parent / "torch_row_weight_losses.json").read_text())
RANDOM = np.random.default_rng(41)
N, D = 90, 4
X = RANDOM.normal(size=(N, D)) * [1, 10, 0.1, 1] + [0, 5, 0, -3]
LABELS = {
    SQUARED: X[:, 0] * X[:, 2] * 10 + RANDOM.normal(size=N),
    LOGISTIC: (X[:, 0] + RANDOM.normal(size=N) > 0) * 1.0,
    SOFTMAX: RANDOM.integers(0, 3, N) * 1.0,
}
WEIGHT = RANDOM.integers(1, 5, N).astype(float)


def weighted(x, y, loss, weight):
    """One group of rows with weights; None: they have none."""
    kind = "dense float32" if x.dtype == np.float32 else "dense float64"
    rows = block(x, y, kind, segment_rows=37, weight=weight)
    return Pass(rows, int(loss != SQUARED), np.ones(1), None, True, 2)


def by_group(loss, held=None, **more):
    return ByGroup(held, np.arange(3.0)[None] if loss == SOFTMAX else None, **more)


def outputs(loss):
    return 3 if loss == SOFTMAX else 1


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC, SOFTMAX])
def test_the_gradient_is_that_of_the_weighted_mean(loss):
    """Central differences of NumPy's weighted loss, in double precision."""
    sizes = (D, 6, outputs(loss))
    at, y = drawn(sizes).astype(np.float32).astype(float), LABELS[loss]
    given = rules(loss=loss, outputs=outputs(loss), hidden=(6,), activation=1, **PLAIN)
    x = (X / X.std(axis=0)).astype(np.float32)
    classes = by_group(loss).classes
    found = gradient(weighted(x, y, loss, 7.5 * WEIGHT), given, at[None], classes)
    for place in range(len(at)):
        ends = []
        for sign in (1, -1):
            moved = at.copy()
            moved[place] += sign * 1e-5
            m = margins(layers_of(moved, sizes), x.astype(float), 1)
            ends.append(np.average(losses(m, y, loss), weights=WEIGHT))
        assert found[place] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=3e-4, abs=3e-6)


@pytest.mark.parametrize("number", range(len(WEIGHTED)))
def test_steps_are_those_of_pytorch(number):
    """As in test_torch.py, with weights whose mean is 1 in each batch."""
    case = WEIGHTED[number]
    x, y = rows(case)
    loss, sums = LOSSES.index(case["loss"]), [0.0]
    classes = np.arange(4.0)[None] if loss == SOFTMAX else None
    first = flat([(w.astype(float), b.astype(float)) for w, b in start(case)])[None]
    given = rules(
        loss=loss, outputs=case["outputs"], hidden=tuple(case["hidden"]), epochs=1, batch=BATCH,
        activation=ACTIVATIONS.index(case["activation"]), algorithm=0,
        learning_rate=case["learning_rate"], weight_decay=case["weight_decay"], **PLAIN,
    )  # fmt: skip
    for step in range(1, STEPS + 1):
        some = slice(step * BATCH)
        part = weighted(x[some], y[some].astype(float), loss, weights()[some])
        found = train_nets(part, given, 0, ByGroup(None, classes, first))
        sums.append(found.history[0, 0] * step)
    np.testing.assert_allclose(np.diff(sums), RECORDED["losses"][number], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC, SOFTMAX])
def test_a_row_of_weight_two_is_two_rows(loss):
    """In batches of all rows, whose units are weighted too."""
    y, how = LABELS[loss], {"loss": loss, "outputs": outputs(loss), "epochs": 40, "batch": 1024}
    given = rules(**how, learning_rate=0.02)
    some = train_nets(weighted(X, y, loss, WEIGHT / 3), given, 0, by_group(loss))
    often = np.repeat(np.arange(N), WEIGHT.astype(int))
    whole = train_nets(weighted(X[often], y[often], loss, None), given, 0, by_group(loss))
    np.testing.assert_allclose(some.weights, whole.weights, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(some.history, whole.history, rtol=2e-4)
    for name in ("base_loss", "loss"):
        assert some.about[name] == pytest.approx(whole.about[name], rel=2e-4)
    plain = train_nets(weighted(X, y, loss, None), given, 0, by_group(loss))
    assert np.abs(plain.weights - whole.weights).max() > 0.02


@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC, SOFTMAX])
def test_held_out_rows_have_weights(loss):
    y = LABELS[loss]
    given = rules(loss=loss, outputs=outputs(loss), epochs=5, batch=1024)
    often = np.repeat(np.arange(N), WEIGHT.astype(int))
    ends = []
    for x, label, weight in ((X, y, WEIGHT), (X[often], y[often], None)):
        rows = weighted(x, label, loss, weight)
        ends.append(train_nets(rows, given, 0, by_group(loss, rows)).about["held_loss"][0])
    assert ends[0] == pytest.approx(ends[1], rel=2e-4)


@pytest.mark.parametrize("loss", [LOGISTIC, SOFTMAX])
def test_weights_of_rows_and_of_their_classes_are_multiplied(loss):
    """Where inputs are as they come; their units are those of the rows' weights alone."""
    y, by_class = LABELS[loss], np.array([[2.0, 0.5, 7.0]])[:, : 3 if loss == SOFTMAX else 2]
    given = rules(loss=loss, outputs=outputs(loss), epochs=10, **PLAIN)
    both = train_nets(
        weighted(X, y, loss, WEIGHT), given, 0, by_group(loss, class_weight=by_class)
    )
    product = WEIGHT * by_class[0][y.astype(int)]
    rows = train_nets(weighted(X, y, loss, product), given, 0, by_group(loss))
    np.testing.assert_allclose(both.weights, rows.weights, rtol=1e-4, atol=1e-5)


def test_equal_weights_change_no_bit():
    y, given = LABELS[SQUARED], rules(epochs=10)
    plain = train_nets(weighted(X, y, SQUARED, None), given, 0)
    equal = train_nets(weighted(X, y, SQUARED, np.full(N, 0.25)), given, 0)
    assert equal.weights.tobytes() == plain.weights.tobytes()
    assert equal.about.tobytes() == plain.about.tobytes()
