"""tuskml's side: a connection with the data set attached, and training queries as timed runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from contender import Outcome, Run, Settings
from data import DIM
from load import TABLES

Check = Callable[[dict[str, Any]], dict[str, float | str]]
NEEDS = ("tuskml",)


def connect(path: Path, settings: Settings, **config: Any) -> duckdb.DuckDBPyConnection:
    """DuckDB with tuskml loaded and the data set attached as `data`, read-only so that peers may
    share it.
    """
    import tuskml

    con: duckdb.DuckDBPyConnection = tuskml.connect(threads=settings.threads, **config)
    con.execute(f"ATTACH '{path}' AS data (READ_ONLY)")
    return con


def dense_source(settings: Settings) -> tuple[str, str]:
    """The dense table of the chosen layout and its features as SQL."""
    columns = "[" + ", ".join(f"x{i}" for i in range(DIM)) + "]"
    return f"data.{TABLES[settings.layout]}", columns if settings.layout == "columns" else "x"


def train_sql(features: str, options: dict[str, Any], source: str) -> str:
    """SELECT one logistic model."""
    call = f"train_model('logistic', y, {features}, '{json.dumps(options)}')"
    return f"SELECT {call} AS m FROM {source}"


def training_run(con: duckdb.DuckDBPyConnection, sql: str, check: Check) -> Run:
    """Runs the query to a model in Python's hands; the model tells its training time itself."""

    def run() -> Outcome:
        start = time.perf_counter()
        model = con.execute(sql).fetchall()[0][0]
        seconds = time.perf_counter() - start
        facts = {"iterations": model["iterations"], "status": model["status"]}
        return Outcome(seconds, model["seconds"], lambda: check(model) | facts)

    return run


def table_run(
    con: duckdb.DuckDBPyConnection, sql: str, quality: Callable[[], dict[str, float | str]]
) -> Run:
    """Runs CREATE OR REPLACE TABLE models AS `sql`: many models, kept in the database."""

    def run() -> Outcome:
        start = time.perf_counter()
        con.execute(f"CREATE OR REPLACE TABLE models AS {sql}")
        return Outcome(time.perf_counter() - start, None, quality)

    return run
