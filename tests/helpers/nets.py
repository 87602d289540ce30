"""Nets trained by the kernels on arrays, and the same in NumPy, written from the papers."""

from collections.abc import Callable
from itertools import pairwise
from math import erf, pi, sqrt
from typing import Any

import numpy as np
from rows import block

from tuskml.kernels.nets.training import (
    LOGISTIC,
    SOFTMAX,
    SQUARED,
    ByGroup,
    NetResult,
    Rules,
    train_nets,
)
from tuskml.kernels.passes import Pass

RULES = Rules(
    loss=SQUARED,
    activation=0,
    algorithm=0,
    schedule=0,
    outputs=1,
    hidden=(8,),
    epochs=5,
    batch=32,
    patience=10,
    decay_every=10,
    learning_rate=0.001,
    decay=0.1,
    momentum=0.9,
    weight_decay=0.0,
    dropout=0.0,
    seed=0,
)
PLAIN = {"shuffle": False, "standardise": False}
"""Rules under which a net sees the rows as they are, in their order."""
Array = np.ndarray
Layers = list[tuple[Array, Array]]


def rules(**given: Any) -> Rules:
    """The rules above with some changed."""
    return Rules(**(RULES.__dict__ | given))


def rows_of(x: Array, y: Array, threads: int = 1, classes: bool = False) -> Pass:
    """One group of dense rows; with two classes, 1 is the positive one."""
    kind = "dense float32" if x.dtype == np.float32 else "dense float64"
    return Pass(block(x, y, kind, segment_rows=97), int(classes), np.ones(1), None, True, threads)


def net(x: Array, y: Array, threads: int = 1, held: Pass | None = None, **given: Any) -> NetResult:
    """The net of one group."""
    names = ("start", "classes", "class_weight")
    by_group = {name: given.pop(name, None) for name in names}
    found = rules(**given)
    rows = rows_of(x, y, threads, found.loss != SQUARED)
    return train_nets(rows, found, 0, ByGroup(held, **by_group))


def layers_of(weights: Array, sizes: tuple[int, ...]) -> Layers:
    """Matrices (out, in) and biases (out,) of a net whose layers have these sizes."""
    found, at = [], 0
    for d, units in pairwise(sizes):
        table = weights[at : at + units * (d + 1)].reshape(units, d + 1)
        found.append((table[:, 1:].copy(), table[:, 0].copy()))
        at += table.size
    assert at == len(weights)
    return found


def flat(layers: Layers) -> Array:
    """The inverse of `layers_of`."""
    return np.concatenate([np.hstack([b[:, None], w]).ravel() for w, b in layers])


def drawn(sizes: tuple[int, ...], seed: int = 0) -> Array:
    """Weights to start from."""
    random = np.random.default_rng(seed)
    return flat(
        [(random.normal(size=(n, d)) / sqrt(d), random.normal(size=n)) for d, n in pairwise(sizes)]
    )


def normal(z: Array) -> Array:
    """The standard normal distribution."""
    return 0.5 * (1 + np.vectorize(erf)(z / sqrt(2)))


ACTIVATIONS: tuple[tuple[Callable[[Array], Array], Callable[[Array], Array]], ...] = (
    (lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
    (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    (
        lambda z: z * normal(z),
        lambda z: normal(z) + z * np.exp(-(z**2) / 2) / sqrt(2 * pi),
    ),
)
"""Activations, each with its derivative."""


def margins(layers: Layers, x: Array, activation: int = 0) -> Array:
    """The margins of a net, (n, outputs)."""
    for w, b in layers[:-1]:
        x = ACTIVATIONS[activation][0](x @ w.T + b)
    return x @ layers[-1][0].T + layers[-1][1]


def losses(m: Array, y: Array, loss: int) -> Array:
    """The loss of each row, (n,); y: numbers, or the number of the class."""
    if loss == SQUARED:
        return (m[:, 0] - y) ** 2 / 2
    if loss == LOGISTIC:
        return np.logaddexp(0, m[:, 0]) - y * m[:, 0]
    most = m.max(axis=1, keepdims=True)
    return (most[:, 0] + np.log(np.exp(m - most).sum(axis=1))) - m[
        np.arange(len(y)), y.astype(int)
    ]


def slopes(m: Array, y: Array, loss: int) -> Array:
    """The derivatives of the losses by the margins, (n, outputs)."""
    if loss == SQUARED:
        return m - y[:, None]
    if loss == LOGISTIC:
        return 1 / (1 + np.exp(-m)) - y[:, None]
    assert loss == SOFTMAX
    p = np.exp(m - m.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y.astype(int)] -= 1
    return p


def gradient_of(layers: Layers, x: Array, y: Array, loss: int, activation: int) -> Layers:
    """The gradient of the mean loss, by back-propagation."""
    values, sums = [x], []
    for w, b in layers[:-1]:
        sums.append(values[-1] @ w.T + b)
        values.append(ACTIVATIONS[activation][0](sums[-1]))
    delta = slopes(values[-1] @ layers[-1][0].T + layers[-1][1], y, loss) / len(x)
    found = []
    for at in range(len(layers) - 1, -1, -1):
        found.append((delta.T @ values[at], delta.sum(axis=0)))
        if at:
            delta = delta @ layers[at][0] * ACTIVATIONS[activation][1](sums[at - 1])
    return found[::-1]
