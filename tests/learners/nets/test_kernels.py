"""The kernels of nets against finite differences and against NumPy."""

import numpy as np
import pytest
from nets import (
    PLAIN,
    RULES,
    drawn,
    flat,
    gradient_of,
    layers_of,
    losses,
    margins,
    net,
    rows_of,
    rules,
)

from tuskml.kernels.nets.training import LOGISTIC, SOFTMAX, SQUARED, Rules, gradient

SHAPES = [(), (5,), (16,), (33, 17), (8, 8, 8), (64, 32)]


def problem(loss: int, n: int = 50, d: int = 7, outputs: int = 1, seed: int = 3):
    """Rows, labels, and the classes of several."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, d))
    if loss == SQUARED:
        return x, random.normal(size=n), None
    if loss == LOGISTIC:
        return x, random.integers(0, 2, n) * 1.0, None
    return x, random.integers(0, outputs, n) * 1.0, np.arange(outputs)[None] * 1.0


@pytest.mark.parametrize("hidden", SHAPES)
@pytest.mark.parametrize(
    ("loss", "outputs"), [(SQUARED, 1), (LOGISTIC, 1), (SOFTMAX, 3), (SOFTMAX, 19)]
)
@pytest.mark.parametrize("activation", [0, 1, 2])
def test_the_gradient_is_that_of_finite_differences(hidden, loss, outputs, activation):
    """Central differences of NumPy's loss, in double precision, at a sample of weights."""
    x, y, classes = problem(loss, outputs=outputs)
    sizes = (x.shape[1], *hidden, outputs)
    start = drawn(sizes).astype(np.float32).astype(np.float64)
    given = rules(loss=loss, outputs=outputs, hidden=hidden, activation=activation, **PLAIN)
    x = x.astype(np.float32)
    found = gradient(rows_of(x, y, 1, loss != SQUARED), given, start[None], classes)
    chosen = np.random.default_rng(1).choice(len(start), min(len(start), 40), replace=False)
    step = 1e-5
    for place in chosen:
        ends = []
        for sign in (1, -1):
            moved = start.copy()
            moved[place] += sign * step
            m = margins(layers_of(moved, sizes), x.astype(float), activation)
            ends.append(losses(m, y, loss).mean())
        expected = (ends[0] - ends[1]) / (2 * step)
        assert found[place] == pytest.approx(expected, rel=2e-4, abs=2e-6)


def by_numpy(given: Rules, x, y, start, sizes):
    """The mean loss of each epoch and the weights, by the papers' formulas in doubles."""
    w = start.copy()
    first, second, t, history = np.zeros_like(w), np.zeros_like(w), 0, []
    is_bias = flat([(np.zeros_like(a), np.ones_like(b)) for a, b in layers_of(w, sizes)]) == 1
    for epoch in range(given.epochs):
        rate, total = given.learning_rate, 0.0
        if given.schedule == 1:
            rate *= 0.5 * (1 + np.cos(np.pi * epoch / given.epochs))
        if given.schedule == 2:
            rate *= given.decay ** (epoch // given.decay_every)
        for at in range(0, len(x), given.batch):
            some, label = x[at : at + given.batch], y[at : at + given.batch]
            layers = layers_of(w, sizes)
            total += losses(margins(layers, some, given.activation), label, given.loss).sum()
            g = flat(gradient_of(layers, some, label, given.loss, given.activation))
            t += 1
            w = np.where(is_bias, w, w * (1 - rate * given.weight_decay))
            if given.algorithm == 0:
                first = 0.9 * first + 0.1 * g
                second = 0.999 * second + 0.001 * g * g
                size = np.sqrt(second / (1 - 0.999**t)) + 1e-8
                w = w - rate * (first / (1 - 0.9**t)) / size
            else:
                first = given.momentum * first + g
                w = w - rate * first
        history.append(total / len(x))
    return np.array(history), w


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"algorithm": 1, "learning_rate": 0.05, "weight_decay": 0.01},
        {"activation": 1, "schedule": 1, "learning_rate": 0.01},
        {"activation": 2, "schedule": 2, "decay_every": 2, "decay": 0.5, "weight_decay": 0.1},
        {"batch": 256},
        {"batch": 1},
    ],
)
@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC, SOFTMAX])
def test_training_is_that_of_the_formulas(loss, more):
    """The same first weights and batches: the same losses to 1e-5 in each epoch."""
    outputs = 4 if loss == SOFTMAX else 1
    x, y, classes = problem(loss, n=330, outputs=outputs)
    given = rules(loss=loss, outputs=outputs, hidden=(20, 6), epochs=6, **PLAIN, **more)
    sizes = (x.shape[1], 20, 6, outputs)
    start = drawn(sizes).astype(np.float32).astype(np.float64)
    x = x.astype(np.float32)
    asked = {k: v for k, v in given.__dict__.items() if RULES.__dict__.get(k) != v}
    found = net(x, y, start=start[None], classes=classes, **asked)
    history, weights = by_numpy(given, x.astype(float), y, start, sizes)
    np.testing.assert_allclose(found.history[0], history, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.weights[0], weights, rtol=2e-3, atol=2e-4)
    m = margins(layers_of(found.weights[0], sizes), x.astype(float), given.activation)
    assert found.about["loss"][0] == pytest.approx(losses(m, y, loss).mean(), rel=1e-5)


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_dropout_adds_the_variance_of_units_that_are_left_out(share):
    """Units that stay are divided by 1 - p, so the mean of a margin stays and its variance is
    p / (1 - p) sum_j (w_j h_j)^2 (N. Srivastava et al., Dropout, JMLR 15, 2014, section 10), half
    of which the squared loss has in addition. The final loss is of the whole net."""
    x, y, _ = problem(SQUARED, n=20_000)
    sizes = (x.shape[1], 20, 1)
    start = drawn(sizes).astype(np.float32).astype(np.float64)
    asked = {"hidden": (20,), "epochs": 1, "learning_rate": 1e-30, "algorithm": 1}
    found = net(x.astype(np.float32), y, start=start[None], dropout=share, **PLAIN | asked)
    (w, b), (v, _) = layers_of(start, sizes)
    hidden = np.maximum(x @ w.T + b, 0)
    more = share / (1 - share) * ((hidden * v) ** 2).sum(axis=1).mean() / 2
    plain = found.about["loss"][0]
    assert found.history[0, 0] - plain == pytest.approx(more, rel=0.05)
    without = net(x.astype(np.float32), y, start=start[None], **PLAIN | asked)
    assert without.history[0, 0] == pytest.approx(plain, rel=1e-5)
