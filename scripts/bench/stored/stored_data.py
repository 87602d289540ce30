"""Data sets of models larger than memory, after Qin, Torres, Rusu (VLDB 2017), table 1.

* skewed: feature ids by Zipf's law with exponent 1.0, 300 a row, frequent ids spread over all ids;
* splice: ids near uniform (Zipf 0.2), 500 a row, like the genome data of that name; splice-wide
  has the paper's 13 million features, of which 11 million occur;
* matrix: ratings of users and items by Zipf's law, at least one of each.

All values are 1: the engine in memory, which scales sparse features by their largest value, then
takes the same steps as the stored one, which does not.

Sizes are those that two cores bear; `rows`, `dim` and so on reach the paper's on a larger machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from contender import Settings
from data import append, cached, chunks, draw_labels
from numpy.typing import NDArray

Ids = NDArray[np.int64]
CHUNK = 10_000


@dataclass(frozen=True)
class Sparse:
    """Rows of a sparse data set: exponent of Zipf's law, features, entries a row."""

    name: str
    rows: int
    dim: int
    entries: int
    exponent: float
    seed: int


SKEWED = Sparse("skewed", 20_000, 10_000_000, 300, 1.0, 1)
SPLICE = Sparse("splice", 20_000, 1_000_000, 500, 0.2, 2)
SPLICE_WIDE = Sparse("splice-wide", 50_000, 13_000_000, 500, 0.2, 2)
BILLION = Sparse("billion", 20_000, 1_000_000_000, 300, 1.0, 3)


def sparse(what: Sparse, settings: Settings) -> Path:
    """Table `examples` (ids INTEGER[], vals FLOAT[], y BOOLEAN) of a data set."""
    return cached(what.name, settings, lambda con, s: _fill_sparse(con, s, what))


def zipf_ids(rng: np.random.Generator, n: int, what: Sparse) -> Ids:
    """Ids by the continuous form of Zipf's law, ranks spread over the ids by a fixed bijection."""
    u = rng.random(n)
    if what.exponent == 1.0:
        rank = np.exp(u * np.log(what.dim)) - 1
    else:
        power = 1 - what.exponent
        rank = (1 + u * (what.dim**power - 1)) ** (1 / power) - 1
    return scattered(np.minimum(rank.astype(np.int64), what.dim - 1), what.dim)


def scattered(rank: Ids, dim: int) -> Ids:
    """A bijection of 0 .. dim - 1: neighbours in rank are far apart as ids."""
    factor = int(dim * 0.6180339887) | 1
    while np.gcd(factor, dim) != 1:
        factor += 2
    return rank * factor % dim


def truth(ids: Ids) -> NDArray[np.float32]:
    """The weight behind the labels of each id, from a hash of it: nothing of size dim is kept."""
    mixed = (ids.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(40)).astype(np.float32) / (1 << 23) - 1) * 2


def _fill_sparse(con: duckdb.DuckDBPyConnection, settings: Settings, what: Sparse) -> None:
    rng = np.random.default_rng(what.seed)
    con.execute("CREATE TABLE examples (ids INTEGER[], vals FLOAT[], y BOOLEAN)")
    for _, count in chunks(settings.rows(what.rows), CHUNK):
        lengths = np.maximum(1, rng.poisson(what.entries, count))
        starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
        ids = zipf_ids(rng, int(starts[-1]), what)
        margin = np.add.reduceat(truth(ids), starts[:-1]) / np.sqrt(what.entries / 4)
        vals = np.ones(len(ids), np.float32)
        columns = {
            "ids": pa.ListArray.from_arrays(starts, ids.astype(np.int32)),
            "vals": pa.ListArray.from_arrays(starts, vals),
            "y": pa.array(draw_labels(rng, margin)),
        }
        append(con, "examples", pa.table(columns))


@dataclass(frozen=True)
class Ratings:
    """Ratings of a matrix: users, items, how many, the rank behind them, Zipf's exponent."""

    name: str
    users: int
    items: int
    ratings: int
    rank: int
    exponent: float
    seed: int


MATRIX = Ratings("matrix", 20_000, 10_000, 500_000, 20, 0.8, 4)


def ratings(what: Ratings, settings: Settings) -> Path:
    """Table `ratings` (user_id INTEGER, item_id INTEGER, rating FLOAT) of a data set."""
    return cached(what.name, settings, lambda con, s: _fill_ratings(con, s, what))


def _fill_ratings(con: duckdb.DuckDBPyConnection, settings: Settings, what: Ratings) -> None:
    rng = np.random.default_rng(what.seed)
    users, items = settings.rows(what.users), settings.rows(what.items)
    total = max(settings.rows(what.ratings), users + items)
    draw = _side(rng, what)
    user = np.concatenate((np.arange(users), rng.integers(0, users, items), draw(users, total)))
    item = np.concatenate((rng.integers(0, items, users), np.arange(items), draw(items, total)))
    pairs = np.unique(user * items + item)
    rng.shuffle(pairs)
    user, item = np.divmod(pairs, items)
    p = rng.standard_normal((users, what.rank)).astype(np.float32)
    q = rng.standard_normal((items, what.rank)).astype(np.float32)
    signal = np.einsum("nk,nk->n", p[user], q[item]) / np.sqrt(what.rank)
    rating = 3.5 + signal + rng.normal(0, 0.5, len(pairs))
    columns = {
        "user_id": pa.array(user.astype(np.int32)),
        "item_id": pa.array(item.astype(np.int32)),
        "rating": pa.array(np.clip(rating, 0.5, 5.0).astype(np.float32)),
    }
    con.execute("CREATE TABLE ratings (user_id INTEGER, item_id INTEGER, rating FLOAT)")
    append(con, "ratings", pa.table(columns))


def _side(rng: np.random.Generator, what: Ratings) -> Callable[[int, int], Ids]:
    """Draws users or items by Zipf's law."""

    def draw(size: int, n: int) -> Ids:
        power = 1 - what.exponent
        rank = (1 + rng.random(n) * (size**power - 1)) ** (1 / power) - 1
        return scattered(np.minimum(rank.astype(np.int64), size - 1), size)

    return draw
