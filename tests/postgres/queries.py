"""Models of one table, as queries find them, and what a plan is."""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg

ROWS = """
CREATE TABLE rows AS
SELECT i, g, i % 2 = 0 AS even, a, b, ARRAY[a, b] AS x, 3 * a - 2 * b + g + (i * 31 % 11 - 5) / 50.0::float8 AS y,
       a - b + (i * 31 % 11 - 5) / 10.0::float8 > 0 AS positive
FROM (SELECT i, i % 7 AS g, (i * 7919 % 1000) / 1000.0::float8 AS a, (i * 104729 % 997) / 997.0::float8 AS b
      FROM generate_series(1, 6000) AS i) AS t
"""
EXACT = '\'{"deterministic": true, "l2": 0.01}\''
LINEAR = f"train_model('linear', y, x, {EXACT})"
SPARSE = f"train_model('linear', y, sparse(ARRAY[i % 3, 5], x), {EXACT})"
PARALLEL = {
    "min_parallel_table_scan_size": "0",
    "parallel_setup_cost": "0",
    "parallel_tuple_cost": "0",
    "max_parallel_workers_per_gather": "2",
}
SERIAL = {"max_parallel_workers_per_gather": "0"}


@contextmanager
def settings(pg: psycopg.Connection, **values: str) -> Iterator[None]:
    for name, value in values.items():
        pg.execute(f"SET {name} = {value}")
    yield
    pg.execute("RESET ALL")


def fetch(pg: psycopg.Connection, sql: str, parameters: tuple = ()) -> list[tuple]:
    return pg.execute(sql, parameters or None).fetchall()


def one(pg: psycopg.Connection, sql: str, parameters: tuple = ()) -> Any:
    return fetch(pg, sql, parameters)[0][0]


def model(pg: psycopg.Connection, sql: str, parameters: tuple = ()) -> dict:
    """The model that a SELECT gives, NULL if none."""
    return one(pg, f"SELECT to_json(m) FROM ({sql}) AS t(m)", parameters)


def counted(found: list[tuple]) -> list[tuple]:
    """Answers without what differs from run to run."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: item for name, item in value.items() if name != "seconds"}
        return value

    return [tuple(map(plain, row)) for row in found]


def by_group(
    pg: psycopg.Connection, call: str = LINEAR, key: str = "g", source: str = "rows"
) -> list[tuple]:
    sql = f"SELECT key, to_json(m) FROM (SELECT {key} AS key, {call} AS m FROM {source} GROUP BY {key}) AS t ORDER BY key"
    return counted(fetch(pg, sql))


def plan(pg: psycopg.Connection, sql: str, analyze: bool = False) -> str:
    options = "(ANALYZE, COSTS OFF, TIMING OFF)" if analyze else "(COSTS OFF)"
    return "\n".join(line for (line,) in fetch(pg, f"EXPLAIN {options} {sql}"))


def weights(found: dict) -> list[float]:
    return [found["intercept"], *found["coef"]]


def least_squares(pg: psycopg.Connection, where: str = "true") -> np.ndarray:
    """Intercept, a and b by NumPy."""
    found = np.array(fetch(pg, f"SELECT 1, a, b, y FROM rows WHERE {where}"))
    return np.linalg.lstsq(found[:, :3], found[:, 3], rcond=None)[0]
