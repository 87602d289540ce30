"""Trainings of stored models through SQL: the one place that names their options.

KV is a key a feature, KV-VP the vertically partitioned model (`scripts/bench/stored`). Data sets
have the shapes of the paper's table 1. A search for the step is left out: both take the same ones.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import stored_runs
from harness import DEFAULT_DATA_DIR
from stored_runs import Data, Trained

from research import report

ROWS = {"skewed": 0.2, "splice": 0.1, "matrix": 0.1, "movielens": 0.1}
"""The part of a set's rows that is taken at a scale of 1."""
CACHE = "1GiB"


def data_of(name: str, scale: float) -> Data:
    """A data set of the paper, made when it is missing."""
    more = {"data_dir": DEFAULT_DATA_DIR, "threads": [2], "task": "svm", "rank": 20}
    given = argparse.Namespace(scale=ROWS[name] * scale, movielens=None, **more)
    return stored_runs.data_of(name, given)


def stored(method: str, *, threads: int = 1, cache: str = CACHE, **more: Any) -> dict[str, Any]:
    """The options of a method: KV, KV-VP with its K, or `pushed`, KV-VP that pushes."""
    if method == "pushed":
        more["sharing"] = "push"
    if "top" in more:
        more["partition"] = more.pop("top")
    return stored_runs.stored("KV" if method == "KV" else "KV-VP", threads, cache) | more


@contextmanager
def connected(data: Data, folder: Path = stored_runs.TMPFS) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection with the data and a root of stores of its own in `folder`."""
    with stored_runs.stores(folder) as root, stored_runs.connected(data, root, 2) as con:
        yield con


@dataclass(frozen=True)
class Run:
    """A training, and its processor seconds."""

    model: Trained
    seconds: float


def run(data: Data, options: dict[str, Any], epochs: int) -> Run:
    """Trains in a root of its own."""
    kept: list[Trained] = []
    with connected(data) as con:
        seconds = report.processor_seconds(
            lambda: kept.append(stored_runs.train(con, data, options | {"max_iter": epochs}))
        )
    return Run(kept[0], seconds)


def epoch_seconds(
    data: Data, methods: dict[str, dict[str, Any]], epochs: int, repeat: int
) -> dict[str, float]:
    """Processor seconds of an epoch by name: the difference of trainings with one and with more
    epochs, in turns.
    """
    works = {
        (name, n): lambda options=options, n=n: run(data, options, n)
        for name, options in methods.items()
        for n in (1, epochs)
    }
    took = report.in_turns({f"{name} {n}": work for (name, n), work in works.items()}, repeat)
    each = {
        name: (took[f"{name} {epochs}"] - took[f"{name} 1"]) / (epochs - 1) for name in methods
    }
    return {name: one if one > 0 else math.nan for name, one in each.items()}  # nan: all noise
