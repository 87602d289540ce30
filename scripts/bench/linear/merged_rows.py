"""Least squares on 10M rows of 1,000 distinct ones.

Measured: from a DuckDB table of five columns to a model, for every system. Against: the same with
rows kept apart, a query that counts equal rows by `GROUP BY` first and gives their number as the
weight, and duckreg, which groups by the features with sums of the label, and has robust standard
errors.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import goals
import harness
import tusk
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings

ROWS = 10_000_000
FEATURES = ("a", "b", "c", "d")
LISTED = f"[{', '.join(FEATURES)}]"
BY_HAND = "GROUP BY, then weights"
BY_COLUMNS = "GROUP BY of columns, then weights"
APART = "tuskml, rows apart"
DUCKREG = "duckreg"
CALLS = {
    TUSKML: f"train_model('linear', y, {LISTED}) AS m FROM data.t",
    APART: f"""train_model('linear', y, {LISTED}, '{{"invalid": "group"}}') AS m FROM data.t""",
    BY_HAND: f"""train_model('linear', y, x, '{{}}', weight) AS m FROM (
        SELECT y, {LISTED} AS x, count(*) AS weight FROM data.t GROUP BY ALL)""",
    BY_COLUMNS: f"""train_model('linear', y, {LISTED}, '{{}}', weight) AS m FROM (
        SELECT y, a, b, c, d, count(*) AS weight FROM data.t GROUP BY ALL)""",
}


def data_of(settings: Settings) -> Path:
    """The file with the rows."""
    return settings.data_dir / f"merged_rows_{settings.rows(ROWS)}.duckdb"


def prepare(settings: Settings) -> None:
    """Writes the rows, whose order has no pattern."""
    path = data_of(settings)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE t AS SELECT (k % 7)::DOUBLE AS y, (k % 5)::DOUBLE AS a, "
            "(k // 5 % 5)::DOUBLE AS b, (k // 25 % 4)::DOUBLE AS c, (k // 100)::DOUBLE AS d "
            f"FROM (SELECT hash(i) % 1000 AS k FROM range({settings.rows(ROWS)}) AS r(i))"
        )


def by_tuskml(name: str, settings: Settings) -> Run:
    """One of the queries that train."""
    con = tusk.connect(data_of(settings), settings)

    def check(model: dict[str, Any]) -> dict[str, float | str]:
        return {"first coefficient": model["coef"][0], "its std_err": model["std_err"][1]}

    return tusk.training_run(con, f"SELECT {CALLS[name]}", check)


class Backend:
    """The part of ibis that duckreg uses: ibis 12 does not read results of DuckDB 2."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self.con = con
        self.table = con.table

    def sql(self, query: str) -> Backend:
        """Keeps a query."""
        self.query = query
        return self

    def execute(self, limit: None) -> Any:
        """The query's result as a DataFrame."""
        return self.con.execute(self.query).df()


def by_duckreg(settings: Settings) -> Run:
    """A regression with its covariance."""
    from duckreg.estimators import DuckRegression

    con = duckdb.connect(str(data_of(settings)), read_only=True)
    con.execute(f"SET threads = {settings.threads}")

    def run() -> Outcome:
        start = time.perf_counter()
        model = DuckRegression(
            db_name=None,
            connection=Backend(con),
            table_name="t",
            formula="y ~ " + " + ".join(FEATURES),
            cluster_col="",
            seed=1,
            n_bootstraps=0,
        )
        model.fit()
        model.fit_vcov()
        seconds = time.perf_counter() - start
        found = {
            "first coefficient": float(model.point_estimate[1]),
            "its std_err": float(model.vcov[1, 1] ** 0.5),
        }
        return Outcome(seconds, None, lambda: found)

    return run


def benchmark(settings: Settings) -> Benchmark:
    """The queries and duckreg."""
    rows = settings.rows(ROWS)
    return Benchmark(
        "merged_rows",
        f"Least squares, {rows // 1_000_000}M rows, 1,000 distinct",
        (
            *(Contender(name, partial(by_tuskml, name), tusk.NEEDS) for name in CALLS),
            Contender(DUCKREG, by_duckreg, ("duckreg",)),
        ),
        (goals.faster_than(BY_HAND, 1 / 1.3),),
        prepare=prepare,
    )


if __name__ == "__main__":
    harness.main(benchmark)
