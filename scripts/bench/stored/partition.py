"""Vertical partitioning: frequencies, sample, Algorithm 3, blocks and index map of 10,000 rows.

Measured, for K = 100, 1,000 and 10,000 frequent features: partition_model as a whole;
requests a row for a key a feature, after merging (the paper's KV-VP) and with blocks of rare
features too. Data: skewed, 300 ids by Zipf's law with coefficient 1 out of 10^9; splice,
1,000 near uniform ids (coefficient 0.2) out of 13M; matrix, a rating by one of 10M users of one
of 10,000 films, rank 100; movielens, the same with 6,000 and 4,000.
Beside: Table 2 of Qin, Torres, Rusu, VLDB 2017, seconds on 16 cores of an Opteron 6128 over
samples of 1 % of larger data (10,000 rows of skewed, 5,000 of splice): recorded, not measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import goals
import harness
import numpy as np
from contender import Benchmark, Contender, Outcome, Recorded, Run, Settings
from numpy.typing import NDArray

ROWS = 10_000
RANK = 100
Ids = NDArray[np.int64]
TABLE_2 = {
    "skewed": {100: 722, 500: 2028, 1000: 3054},
    "splice": {100: 79, 500: 1404, 1000: 4075},
    "matrix": {100: 52, 500: 224, 1000: 344},
    "movielens": {100: 55, 500: 181, 1000: 600},
}
LIMITS = {1_000: 5, 10_000: 60}


def zipf(n: int, dim: int, seed: int) -> Ids:
    """Ids below dim by Zipf's law with coefficient 1."""
    u = np.random.default_rng(seed).random(n)
    return (np.exp(u * np.log(dim + 1)) - 1).astype(np.int64)


def near_uniform(n: int, dim: int, seed: int) -> Ids:
    """Ids below dim by Zipf's law with coefficient 0.2."""
    u = np.random.default_rng(seed).random(n)
    return (dim * u ** (1 / 0.8)).astype(np.int64)


def ratings(n: int, users: int, films: int) -> Ids:
    """The weights that each rating reads, shape (n, 2 * RANK)."""
    user, film = zipf(n, users, 1), users + zipf(n, films, 2)
    records = np.stack((user, film), axis=1)[:, :, None] * RANK
    return (records + np.arange(RANK)).reshape(n, -1)


DATA: dict[str, Callable[[int], Ids]] = {
    "skewed": lambda n: zipf(n * 300, 10**9, 1).reshape(n, -1),
    "splice": lambda n: near_uniform(n * 1_000, 13_000_000, 1).reshape(n, -1),
    "matrix": lambda n: ratings(n, 10_000_000, 10_000),
    "movielens": lambda n: ratings(n, 6_000, 4_000),
}


def name_of(data: str, top: int) -> str:
    """A contender's name."""
    return f"{data}, K={top:,}"


def partitioning(data: str, top: int, settings: Settings) -> Run:
    """partition_model over rows in memory."""
    from tuskml.partitioner import partition_model

    rows = DATA[data](settings.rows(ROWS))
    indptr, ids = np.arange(0, rows.size + 1, rows.shape[1]), rows.ravel()

    def run() -> Outcome:
        start = time.perf_counter()
        made = partition_model(indptr, ids, top=top, sample=len(rows), threads=settings.threads)
        seconds = time.perf_counter() - start
        return Outcome(seconds, None, partial(_figures, made))

    return run


def _figures(made: Any) -> dict[str, float | str]:
    found = made.explanation
    return {
        "requests": round(found.by_feature.requests, 1),
        "merged": round(found.after_merging.requests, 1),
        "in blocks": round(found.after_blocks.requests, 1),
        "merges": len(made.merges.steps),
    }


def benchmark(settings: Settings) -> Benchmark:
    """The row on partitioning."""
    tops = (100, 1_000, 10_000)
    return Benchmark(
        name="partition",
        title="Vertical partitioning over 10,000 sampled rows",
        contenders=tuple(
            Contender(name_of(data, top), partial(partitioning, data, top))
            for data in DATA
            for top in tops
        ),
        goals=tuple(
            goals.at_most_seconds(limit, of=name_of(data, top))
            for data in DATA
            for top, limit in LIMITS.items()
        ),
        recorded=tuple(
            Recorded(f"paper, {name_of(data, top)}", seconds)
            for data, row in TABLE_2.items()
            for top, seconds in row.items()
        ),
    )


if __name__ == "__main__":
    harness.main(benchmark)
