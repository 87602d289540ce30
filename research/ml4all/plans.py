"""Plans of one training through SQL, on sets with the shapes of the paper's (table 2)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import planner_data

import tuskml
from research import report

SETS = {data.name.removesuffix("-like"): data for data in planner_data.SETS}
ROWS = {"a9a": 1.0, "covtype": 0.5, "yearpred": 0.5, "higgs": 0.2, "rcv1": 0.5}
"""The part of a set's rows that is taken at a scale of 1."""
CASES = (
    ("a9a", "logistic"),
    ("covtype", "logistic"),
    ("yearpred", "linear"),
    ("rcv1", "logistic"),
    ("higgs", "svm"),
)
"""Sets and tasks of the paper's table 2; adult is a9a here."""
N_FEATURES = 20
TABLE = """
CREATE OR REPLACE TABLE rows AS SELECT *, (hash(i, -1) % 1000) / 1000
       < 1 / (1 + exp(2 * x0 - 2 * x1 + x2)) AS y
FROM (SELECT i, {columns} FROM range({rows}) t(i))
"""


@contextmanager
def connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """Two threads, and no bar on the screen."""
    with tuskml.connect(threads=2) as con:
        con.execute("SET enable_progress_bar = false")
        yield con


def fill(con: duckdb.DuckDBPyConnection, name: str, scale: float) -> planner_data.Data:
    """Makes the table `rows` of a set."""
    data = SETS[name]
    planner_data.fill(con, data, ROWS[name] * scale)
    return data


def table(con: duckdb.DuckDBPyConnection, rows: int, features: int = N_FEATURES) -> None:
    """Makes a dense table `rows` with columns y and x0, x1 and so on."""
    each = ", ".join(
        f"((hash(i, {k}) % 20000) / 10000 - 1)::FLOAT AS x{k}" for k in range(features)
    )
    con.execute(TABLE.format(columns=each, rows=rows))


def trained(
    con: duckdb.DuckDBPyConnection, features: int = N_FEATURES, task: str = "svm", **options: Any
) -> tuple[float, Any]:
    """The processor seconds of a training on the table, reading it included, and the model."""
    kept: list[Any] = []
    names = [f"x{k}" for k in range(features)]
    seconds = report.processor_seconds(
        lambda: kept.append(
            tuskml.train(con, task, source="rows", label="y", features=names, **options)
        )
    )
    return seconds, kept[0]
