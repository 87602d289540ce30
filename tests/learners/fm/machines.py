"""Factorization machines trained by the kernels on arrays, and the same in NumPy, pair by pair."""

from itertools import combinations
from typing import Any

import numpy as np
from rows import block

from tuskml.kernels.fm import LOGISTIC, SQUARED, MachineResult, Rules, train_machines
from tuskml.kernels.passes import Pass

Array = np.ndarray
RULES = Rules(
    entries=0.0,
    loss=SQUARED,
    algorithm=0,
    rank=3,
    epochs=5,
    patience=1,
    lock_free=False,
    learning_rate=0.05,
    l2=0.0,
    l2_factors=0.0,
    init=0.1,
    seed=0,
)


def rules(**given: Any) -> Rules:
    """The rules above with some changed."""
    return Rules(**(RULES.__dict__ | given))


def rows_of(x: Any, y: Array, threads: int = 1, kind: str = "", **more: Any) -> Pass:
    """One group of rows: a matrix, or with `dim` a list of (ids, values); 1 is the positive class.

    kind: dense doubles, or sparse ones for a list, unless given; weight: (n,), of the rows.
    """
    kind = kind or ("dense float64" if isinstance(x, np.ndarray) else "sparse float64")
    return Pass(block(x, y, kind, segment_rows=97, **more), 0, np.ones(1), None, True, threads)


def machine(x: Any, y: Array, held: Pass | None = None, **given: Any) -> MachineResult:
    """The machine of one group; of classes with `loss=LOGISTIC`."""
    about = {
        name: given.pop(name) for name in ("threads", "kind", "dim", "weight") if name in given
    }
    return train_machines(rows_of(x, y, **about), rules(**given), 0, held)


def margins(intercept: float, numbers: Array, x: Array) -> Array:
    """b + sum_i w_i x_i + sum_{i < j} <v_i, v_j> x_i x_j of rows (n, d), by all pairs."""
    found = intercept + x @ numbers[:, 0]
    for i, j in combinations(range(x.shape[1]), 2):
        found = found + numbers[i, 1:] @ numbers[j, 1:] * x[:, i] * x[:, j]
    return np.asarray(found)


def losses(loss: int, m: Array, y: Array) -> Array:
    """Of each row; y: numbers, or classes 0 and 1."""
    if loss == LOGISTIC:
        return np.asarray(np.logaddexp(0, m) - y * m)
    return np.asarray((m - y) ** 2 / 2)


def objective(
    rule: Rules, intercept: float, numbers: Array, x: Array, y: Array, weight: Any = None
) -> float:
    """The mean loss, and of each feature's penalty the share of rows that have it."""
    share = (x != 0).mean(axis=0)
    penalty = rule.l2 * numbers[:, 0] ** 2 + rule.l2_factors * (numbers[:, 1:] ** 2).sum(axis=1)
    loss = losses(rule.loss, margins(intercept, numbers, x), y)
    return float(np.average(loss, weights=weight) + share @ penalty / 2)
