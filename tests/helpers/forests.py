"""Forests grown by the kernels on arrays, and their predictions in NumPy."""

from itertools import product
from typing import Any

import numpy as np
from rows import block

from tuskml.kernels.passes import Pass
from tuskml.kernels.trees.boosting import (
    GINI,
    LOGISTIC,
    SOFTMAX,
    SQUARED,
    Forest,
    Rules,
    Targets,
    boost,
)
from tuskml.learners.trees.constraints import list_bounds, together_of

RULES = Rules(
    objective=SQUARED,
    trees=30,
    num_leaves=15,
    max_depth=0,
    max_bins=255,
    patience=0,
    min_child_rows=5,
    min_child_hessian=1e-3,
    min_gain=0.0,
    l1=0.0,
    l2=0.0,
    learning_rate=0.1,
    feature_fraction=1.0,
    row_fraction=1.0,
    shape=0.5,
    seed=0,
)


EMPTY = np.empty(0)


def rows_of(
    x: np.ndarray,
    y: np.ndarray,
    threads: int = 1,
    classes: bool = False,
    weight: np.ndarray | None = None,
) -> Pass:
    """One group of dense rows; with classes, 1 is the positive one."""
    kind = "dense float32" if x.dtype == np.float32 else "dense float64"
    groups = block(x, y, kind, segment_rows=97, weight=weight)
    return Pass(groups, int(classes), np.ones(1), None, True, threads)


def grown(x: np.ndarray, y: np.ndarray, threads: int = 1, **given: Any) -> Forest:
    """The trees of one group; weight: (n,), of its rows; categorical: indices of features."""
    weight = given.pop("weight", None)
    monotone = given.pop("monotone", None)
    categorical = given.pop("categorical", None)
    together = together_of(given.pop("together", None), x.shape[1])
    bounds = list_bounds(given.pop("bounds", None), x.shape[1], None)
    rules = Rules(**(RULES.__dict__ | given))
    rows = rows_of(x, y, threads, rules.objective in (LOGISTIC, GINI), weight)
    many = rules.objective == SOFTMAX or (rules.objective == GINI and len(np.unique(y)) > 2)
    classes = np.unique(y)[None] if many else None
    signs = None if monotone is None else np.array(monotone, np.int8)
    levels = None if categorical is None else np.zeros((1, x.shape[1]), np.uint8)
    if levels is not None:
        levels[0, categorical] = 1
    return boost(rows, rules, 0, None, Targets(classes, signs, levels, None, bounds, together))[0]


def trees_of(forest: Forest) -> list[np.ndarray]:
    """The nodes of each tree."""
    return [forest.nodes[a:b] for a, b in zip(forest.start[:-1], forest.start[1:], strict=True)]


def left_of(sets: np.ndarray, begin: float) -> set[int]:
    """The levels of a set."""
    words = sets[int(begin) + 1 :][: int(sets[int(begin)])]
    return {
        32 * k + bit for k, word in enumerate(words) for bit in range(32) if int(word) >> bit & 1
    }


def leaves(tree: np.ndarray, x: np.ndarray, sets: np.ndarray = EMPTY) -> np.ndarray:
    """The leaf that each row comes to, (n,)."""
    at = np.zeros(len(x), np.intp)
    while (inner := tree["feature"][at] >= 0).any():
        feature = np.maximum(tree["feature"][at], 0)
        value = x[np.arange(len(x)), feature]
        left = np.where(np.isnan(value), tree["missing"][at] == 1, value <= tree["value"][at])
        for node in np.unique(at[inner & (tree["missing"][at] == 2)]):
            here = at == node
            left[here] = np.isin(value[here], list(left_of(sets, tree["value"][node])))
        at = np.where(inner, np.where(left, at + 1, tree["right"][at]), at)
    return at


def margins(forest: Forest, x: np.ndarray) -> np.ndarray:
    """The margins of the rows: (n,), or (n, K) of more than two classes."""
    out = np.tile(forest.base, (len(x), 1))
    for number, tree in enumerate(trees_of(forest)):
        out[:, number % len(forest.base)] += tree["value"][leaves(tree, x, forest.sets)]
    return out[:, 0] if len(forest.base) == 1 else out


def derivatives(y: np.ndarray, m: np.ndarray, objective: int) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivatives of the loss of each row."""
    if objective == SQUARED:
        return m - y, np.ones(len(y))
    p = 1 / (1 + np.exp(-m))
    return p - y, p * (1 - p)


def best_gain(x: np.ndarray, g: np.ndarray, h: np.ndarray, least: int, l1: float, l2: float):
    """The largest gain of all splits between values, by trying each."""

    def score(rows: np.ndarray) -> float:
        total = np.sign(g[rows].sum()) * max(abs(g[rows].sum()) - l1, 0)
        return total**2 / (h[rows].sum() + l2)

    found = 0.0
    for f in range(x.shape[1]):
        values = np.unique(x[~np.isnan(x[:, f]), f])
        for value, missing in product(values, (False, True)):
            left = np.where(np.isnan(x[:, f]), missing, x[:, f] <= value)
            if min(left.sum(), (~left).sum()) < least:
                continue
            found = max(found, score(left) + score(~left) - score(np.ones(len(x), bool)))
    return found
