"""Rows of groups of very different sizes, as a table, as shards and as one file in no order."""

import warnings
from pathlib import Path
from typing import Any

import duckdb

import tuskml

GIVEN: dict[str, Any] = {
    "label": "y",
    "features": ["x", "z"],
    "group_by": "g",
    "deterministic": True,
}
FIELDS = ("coef", "intercept", "std_err", "loss", "iterations", "status", "n_rows", "payload")
"""What deterministic trainings of the same rows have in common to the last bit."""
ROWS = """
SELECT CASE WHEN i % 13 = 12 THEN NULL ELSE 'g' || (i * i) % 13 % (1 + i % 13) END AS g,
       hash(i, 1) % 1000 / 500 - 1 AS x, hash(i, 2) % 1000 / 500 - 1 AS z,
       hash(i, 3) % 1000 / 1000 < 1 / (1 + exp(-x - i % 13 / 13)) AS y
FROM range({n}) t(i)
"""


def table(con: duckdb.DuckDBPyConnection, n: int) -> str:
    """A table of n rows."""
    con.execute(f"CREATE OR REPLACE TABLE rows AS {ROWS.format(n=n)}")
    return "rows"


def shards(con: duckdb.DuckDBPyConnection, folder: Path, shard_bytes: int = 100_000) -> str:
    """The table's rows in sorted shards."""
    manifest = tuskml.split(
        con, source="rows", group_by="g", into=folder, shard_bytes=shard_bytes, replace=True
    )
    return manifest.source


def shuffled(con: duckdb.DuckDBPyConnection, folder: Path) -> str:
    """The table's rows in two files in no order, with row groups and without a manifest."""
    folder.mkdir()
    for place in range(2):
        con.execute(
            f"COPY (SELECT * FROM rows WHERE rowid % 2 = {place} ORDER BY hash(x, z, rowid)) "
            f"TO '{folder}/{place}.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048)"
        )
    return f"{folder}/*.parquet"


def assert_same_bits(found: tuskml.Models, expected: tuskml.Models) -> None:
    """The same groups in the same order, and the same models to the last bit."""
    assert list(found) == list(expected)
    for key, model in expected.items():
        other = found[key]
        assert (other is None) == (model is None)
        if model is not None:
            assert [getattr(other, f) for f in FIELDS] == [getattr(model, f) for f in FIELDS], key


def by_parts(con: duckdb.DuckDBPyConnection, task: str, **given: Any) -> tuskml.Models:
    """The models of groups by parts on threads; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", tuskml.ClusterWarning)
        return tuskml.train(con, task, **{"executor": "threads", "placement": "gap"} | given)
