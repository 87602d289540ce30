"""Ratings of MovieLens' shape, made once with a fixed seed and stored as a DuckDB file.

6,040 users and 3,706 films, a million pairs, each once; the ratings of a user and of a film fall
by Zipf's law, independent of ids. Ratings are whole numbers from 1 to 5, rounded from a model of
rank 10 with biases and normal noise of 0.75.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from contender import Settings
from data import cached
from load import open_plain
from numpy.typing import NDArray

USERS, ITEMS, RATINGS, TRUE_RANK = 6_040, 3_706, 1_000_000, 10
NOISE = 0.75


@dataclass(frozen=True)
class Ratings:
    """Parallel arrays (n,): int32 users and items, float64 ratings."""

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    rating: NDArray[np.float64]


def synthetic(settings: Settings) -> Path:
    """Tables train, nine tenths, and test, one: u, i, rating."""
    return cached("ratings", settings, _fill)


def arrays(settings: Settings, table: str) -> Ratings:
    """The ratings of a table."""
    con = open_plain(synthetic(settings), settings)
    found = con.execute(f"SELECT u, i, rating FROM {table}").fetchnumpy()
    return Ratings(*(np.asarray(found[name]) for name in ("u", "i", "rating")))


def _fill(con: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    made = _made(settings.rows(RATINGS))
    place = np.arange(len(made.rating))
    columns = {"place": place, "u": made.user, "i": made.item, "rating": made.rating}
    con.register("made", pa.table(columns))
    for name, where in (("train", "place % 10 > 0"), ("test", "place % 10 = 0")):
        con.execute(f"CREATE TABLE {name} AS SELECT u, i, rating FROM made WHERE {where}")


def _made(n: int) -> Ratings:
    rng = np.random.default_rng(0)
    user, item = _pairs(rng, n)
    p, q = rng.normal(size=(USERS, TRUE_RANK)), rng.normal(size=(ITEMS, TRUE_RANK))
    biases = rng.normal(0, 0.43, USERS)[user] + rng.normal(0, 0.5, ITEMS)[item]
    taste = 0.5 / np.sqrt(TRUE_RANK) * np.einsum("nk,nk->n", p[user], q[item])
    rating = 3.58 + biases + taste + rng.normal(0, NOISE, n)
    return Ratings(user.astype(np.int32), item.astype(np.int32), np.clip(np.rint(rating), 1, 5))


def _pairs(rng: np.random.Generator, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """n distinct pairs in random order."""
    users, items = rng.permutation(USERS), rng.permutation(ITEMS)
    found = np.empty(0, np.int64)
    while len(found) < n:
        more = (n - len(found)) * 6 // 5 + 1000
        u = users[rng.choice(USERS, more, p=_zipf(USERS, 0.9, 60))]
        i = items[rng.choice(ITEMS, more, p=_zipf(ITEMS, 1.0, 40))]
        found = np.unique(np.concatenate([found, u.astype(np.int64) * ITEMS + i]))
    found = rng.permutation(found)[:n]
    return found // ITEMS, found % ITEMS


def _zipf(n: int, power: float, shift: float) -> NDArray[np.float64]:
    weight = 1 / (np.arange(n) + shift) ** power
    return np.asarray(weight / weight.sum())
