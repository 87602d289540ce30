"""Further data sets of `planner_truth.py`: other generators and real sets than `truth_data.py`.

They were made to judge a planner that had been committed before (2026-11-23): nothing was fitted
to them, and the times of plans on them were unknown.
"""

from __future__ import annotations

import numpy as np
from truth_data import MOST_VALUES, Rows, Set, labelled, of_sklearn, of_statsmodels

SEED = 20_261_123
REAL = (
    Set("anes96-2", lambda: of_statsmodels("anes96", 2), 1e-4),
    Set("fair-2", lambda: of_statsmodels("fair", 2)),
    Set("star98", lambda: of_statsmodels("star98")),
    Set("ccard", lambda: of_statsmodels("ccard")),
    Set("statecrime", lambda: of_statsmodels("statecrime"), 1e-4),
    Set("iris-2", lambda: of_sklearn("iris", 2), 1e-4),
    Set("wine-2", lambda: of_sklearn("wine", 2), 1e-3),
)


def heavy_tails(seed: int, n: int, d: int) -> Rows:
    """Student's t with 3 degrees of freedom, which one factor in common makes alike."""
    rng = np.random.default_rng(seed)
    x = rng.standard_t(3, (n, d)) + 0.7 * rng.standard_t(3, (n, 1)) * rng.random(d)
    margin = x @ rng.standard_normal(d)
    return labelled(x, margin / margin.std(), rng)


def levels(seed: int, n: int, d: int) -> Rows:
    """Columns of 0 and 1 for the levels of a few categories, rare ones too, and three numbers."""
    rng = np.random.default_rng(seed)
    parts = [rng.lognormal(size=(n, 3))]
    left = d - 3
    while left > 1:
        size = int(min(left, rng.integers(2, 40)))
        share = 1 / np.arange(1, size + 1) ** rng.uniform(0.3, 1.5)
        taken = rng.choice(size, n, p=share / share.sum())
        parts.append((taken[:, None] == np.arange(1, size)).astype(float))
        left -= size - 1
    x = np.concatenate(parts, axis=1)
    margin = x @ rng.standard_normal(x.shape[1])
    return labelled(x, margin / margin.std(), rng)


def lags(seed: int, n: int, d: int) -> Rows:
    """A series that hardly changes from row to row, and its last values as features."""
    rng = np.random.default_rng(seed)
    steps = rng.standard_normal(n + d)
    series = np.empty(n + d)
    series[0] = 0.0
    for i in range(1, n + d):
        series[i] = 0.97 * series[i - 1] + steps[i]
    x = np.lib.stride_tricks.sliding_window_view(series, d)[:n]
    margin = x @ (rng.standard_normal(d) / np.arange(1, d + 1))
    return labelled(np.ascontiguousarray(x), margin / margin.std(), rng)


def redundant(seed: int, n: int, d: int) -> Rows:
    """scikit-learn's own generator: a third of the features are sums of others, and classes
    overlap.
    """
    from sklearn.datasets import make_classification

    x, y = make_classification(
        n,
        d,
        n_informative=max(2, d // 3),
        n_redundant=d // 3,
        n_clusters_per_class=1,
        class_sep=0.7,
        flip_y=0.05,
        random_state=seed,
    )
    rng = np.random.default_rng(seed)
    x = x + 0.05 * rng.standard_normal(x.shape)
    number = x @ rng.standard_normal(d) / np.sqrt(d) + rng.standard_normal(n)
    return Rows(number, y.astype(float), np.ascontiguousarray(x, np.float32), width=d)


def words(seed: int, n: int, d: int, each: int) -> Rows:
    """Counts of words, texts being of very different lengths; the label follows the rarer ones."""
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(np.log(each), 0.8, n), 1, d / 4).astype(int)
    row = np.repeat(np.arange(n), lengths)
    word = np.minimum(rng.zipf(1.3, len(row)) - 1, d - 1)
    keys, counts = np.unique(row * np.int64(d) + word, return_counts=True)
    row, ids = keys // d, (keys % d).astype(np.int32)
    start = np.zeros(n + 1, np.uint32)
    np.cumsum(np.bincount(row, minlength=n), out=start[1:])
    vals = np.log1p(counts).astype(np.float32)
    weights = rng.standard_normal(d) * np.log1p(np.arange(d))
    margin = np.bincount(row, vals * weights[ids], n)
    margin = (margin - margin.mean()) / margin.std()
    classes = (rng.random(n) < 1 / (1 + np.exp(-3 * margin))).astype(float)
    return Rows(margin + 0.5 * rng.standard_normal(n), classes, sparse=(start, ids, vals), width=d)


DENSE = (heavy_tails, levels, lags, redundant)


def blind(dense: int = 12, sparse: int = 4) -> list[Set]:
    """The sets."""
    rng = np.random.default_rng(SEED)
    found = []
    for number in range(dense):
        make = DENSE[number % len(DENSE)]
        d = int(np.exp(rng.uniform(np.log(6), np.log(400))))
        n = int(np.exp(rng.uniform(np.log(1000), np.log(100_000))))
        n = min(n, MOST_VALUES // (2 * d))
        l2 = float(rng.choice([0.0, 1e-5, 1e-3]))
        args = (SEED + number, n, d)
        name = f"{make.__name__}-{n}x{d}"
        found.append(Set(name, lambda make=make, args=args: make(*args), l2))
    for number in range(sparse):
        d = int(np.exp(rng.uniform(np.log(500), np.log(30_000))))
        n = int(np.exp(rng.uniform(np.log(2000), np.log(40_000))))
        each = int(np.exp(rng.uniform(np.log(8), np.log(60))))
        l2 = float(rng.choice([1e-5, 1e-4, 1e-3]))
        of_words = (SEED + 100 + number, n, d, each)
        name = f"words-{n}x{d}x{each}"
        found.append(Set(name, lambda args=of_words: words(*args), l2))
    return found + list(REAL)
