"""Further data sets of `planner_truth.py`: generators and real sets that no other file has.

They were made on 2026-11-23 to judge estimates at the hinge that had been fitted to the fitted and
the fresh sets (`truth_data.py`) and committed before. Nothing was fitted to them.
"""

from __future__ import annotations

import numpy as np
from truth_data import FOLDER, Rows, Set, labelled, of_statsmodels, plain
from truth_drawn import drawn

SEED = 20_261_124


def cosines(seed: int, n: int, d: int) -> Rows:
    """Random Fourier features of four numbers (Rahimi and Recht 2007): a smooth kernel's."""
    rng = np.random.default_rng(seed)
    point = rng.standard_normal((n, 4))
    x = np.cos(point @ rng.standard_normal((4, d)) * 1.5 + rng.uniform(0, 2 * np.pi, d))
    margin = np.sin(2 * point[:, 0]) + point[:, 1] * point[:, 2]
    return labelled(x, margin / margin.std(), rng)


def splines(seed: int, n: int, d: int) -> Rows:
    """Hinges max(0, t - knot) of a few numbers: neighbours are nearly the same."""
    rng = np.random.default_rng(seed)
    many = max(1, d // 12)
    each = d // many
    numbers = rng.beta(2, 4, (n, many))
    knots = np.quantile(numbers[:1000], np.linspace(0, 0.9, each), axis=0)
    x = np.concatenate([np.maximum(numbers - knot, 0) for knot in knots], axis=1)
    margin = np.sin(6 * numbers).sum(axis=1)
    return labelled(x, margin / max(margin.std(), 1e-9), rng)


def pictures(seed: int, n: int, d: int) -> Rows:
    """Square pictures of noise that was smoothed, so that neighbouring pixels are alike."""
    rng = np.random.default_rng(seed)
    side = max(3, int(np.sqrt(d)))
    pixel = np.arange(side)
    blur = np.exp(-0.5 * (pixel[:, None] - pixel[None, :]) ** 2 / rng.uniform(0.5, 1.5) ** 2)
    x = np.einsum("ab,nbc,cd->nad", blur, rng.standard_normal((n, side, side)), blur)
    x = x.reshape(n, -1) + 0.05 * rng.standard_normal((n, side * side))
    margin = x @ rng.standard_normal(side * side)
    return labelled(x, margin / margin.std(), rng)


def clusters(seed: int, n: int, d: int) -> Rows:
    """A few clouds of points far apart, each with a label that most of its points have."""
    rng = np.random.default_rng(seed)
    which = rng.integers(0, 6, n)
    x = 2 * rng.standard_normal((6, d))[which] + rng.standard_normal((n, d)) * rng.gamma(1, 1, d)
    margin = rng.standard_normal(6)[which] + 0.5 * x[:, 0]
    return labelled(x, margin / margin.std(), rng)


def zeros(seed: int, n: int, d: int) -> Rows:
    """Counts that are mostly zero, in units of very different sizes."""
    rng = np.random.default_rng(seed)
    x = rng.poisson(rng.gamma(0.3, 1.0, d), (n, d)) * rng.lognormal(0, 3, d)
    margin = np.log1p(x) @ rng.standard_normal(d)
    return labelled(x, margin / margin.std(), rng)


def fields(seed: int, n: int, d: int, each: int) -> Rows:
    """Rows of `each` categories, one entry for each, whose levels follow a power law."""
    rng = np.random.default_rng(seed)
    size = max(2, d // each)
    level = np.minimum((size ** rng.random((n, each))).astype(np.int64) - 1, size - 1)
    ids = (level + size * np.arange(each)).astype(np.int32)
    weights = rng.standard_normal(size * each)
    margin = weights[ids].sum(axis=1)
    margin /= margin.std()
    classes = (rng.random(n) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    start = np.arange(0, n * each + 1, each, dtype=np.uint32)
    sparse = start, ids.ravel(), np.ones(n * each, np.float32)
    return Rows(margin + rng.standard_normal(n), classes, sparse=sparse, width=size * each)


def a9a_dense() -> Rows:
    """The test half of a9a, its 123 columns of 0 and 1 as dense rows."""
    from sklearn.datasets import load_svmlight_file

    x, y = load_svmlight_file(str(FOLDER / "a9a.test.svm"), n_features=123, zero_based=True)
    return plain(x.toarray(), y, (y > 0).astype(float))


def digits_beside() -> Rows:
    """Pixels of digits and the products of neighbours; the class is an even digit."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    picture = x.reshape(-1, 8, 8) / 16
    products = (picture[:, :, 1:] * picture[:, :, :-1]).reshape(len(x), -1)
    return plain(np.concatenate([x / 16, products], axis=1), y, (y % 2 == 0).astype(float))


def cancer_logs() -> Rows:
    """The logarithms of the 30 measures of tumours, which are nearly powers of one another."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    return plain(np.log(x + 1e-3), x[:, 0], y)


REAL = (
    Set("a9a-test-dense", a9a_dense, 1e-4),
    Set("digits-beside", digits_beside, 1e-3),
    Set("cancer-logs", cancer_logs),
    Set("grunfeld-3", lambda: of_statsmodels("grunfeld", 3), 1e-4),
)
DENSE = (cosines, splines, pictures, clusters, zeros)


def unseen(dense: int = 10, sparse: int = 3) -> list[Set]:
    """The sets."""
    return drawn(SEED, dense, sparse, DENSE, fields) + list(REAL)
