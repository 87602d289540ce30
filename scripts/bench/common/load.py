"""From a DuckDB table to NumPy by the fastest way found: Arrow batches, copied once.

For 2M x 28 from a LIST or ARRAY column this took 0.11 to 0.15 s, against 0.15 to 0.20 s for a
whole Arrow table joined into one column and 0.29 s for fetchnumpy() over 28 columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from contender import Settings
from data import DIM, Floats
from numpy.typing import NDArray

BATCH = 65_536
TABLES = {"list": "dense", "array": "dense_array", "columns": "dense_columns"}


def open_plain(path: Path, settings: Settings) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection without tuskml, on a data set."""
    con = duckdb.connect(str(path), read_only=True, config={"threads": settings.threads})
    con.execute("SET enable_progress_bar = false")
    return con


def dense_matrix(
    con: duckdb.DuckDBPyConnection, layout: str = "list", table: str = ""
) -> tuple[Floats, NDArray[np.uint8]]:
    """Features row-major and labels 0 or 1, from the dense table of a layout (or from another with
    y and x).
    """
    table = table or TABLES[layout]
    rows = con.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0]
    X = np.empty((rows, DIM), np.float32)
    y = np.empty(rows, np.uint8)
    wanted = "COLUMNS('^x')" if layout == "columns" else "x"
    at = 0
    for batch in con.sql(f"SELECT y::UTINYINT AS y, {wanted} FROM {table}").to_arrow_reader(BATCH):
        place = slice(at, at + batch.num_rows)
        y[place] = batch.column(0).to_numpy()
        _copy_features(batch, X[place])
        at = place.stop
    return X, y


def zipf_arrays(
    con: duckdb.DuckDBPyConnection,
) -> tuple[NDArray[np.int32], Floats, NDArray[np.uint8]]:
    """Groups, features and labels of the Zipf table, in the table's order."""
    rows = con.sql("SELECT count(*) FROM zipf").fetchall()[0][0]
    X, y, g = np.empty((rows, DIM), np.float32), np.empty(rows, np.uint8), np.empty(rows, np.int32)
    at = 0
    for batch in con.sql("SELECT y::UTINYINT AS y, x, g FROM zipf").to_arrow_reader(BATCH):
        place = slice(at, at + batch.num_rows)
        y[place], g[place] = batch.column(0).to_numpy(), batch.column(2).to_numpy()
        _copy_features(batch.select([0, 1]), X[place])
        at = place.stop
    return g, X, y


def csr_arrays(
    con: duckdb.DuckDBPyConnection, table: str
) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats, NDArray[np.uint8]]:
    """Row offsets, column ids, values and labels of a sparse table: the parts of a CSR matrix."""
    parts: list[list[NDArray[Any]]] = []
    for batch in con.sql(f"SELECT y::UTINYINT AS y, ids, vals FROM {table}").to_arrow_reader(
        BATCH
    ):
        y, ids, vals = batch.columns
        parts.append(
            [
                np.diff(ids.offsets.to_numpy()),
                ids.flatten().to_numpy(),
                vals.flatten().to_numpy(),
                y.to_numpy(),
            ]
        )
    counts, ids, vals, y = (np.concatenate(column) for column in zip(*parts, strict=False))
    return np.append(0, np.cumsum(counts)).astype(np.int32), ids, vals, y


def _copy_features(batch: pa.RecordBatch, into: Floats) -> None:
    """Copies the columns after the first: one list column, or one column a feature."""
    if batch.num_columns == 2:
        into[:] = batch.column(1).flatten().to_numpy().reshape(into.shape)
    else:
        for i in range(into.shape[1]):
            into[:, i] = batch.column(i + 1).to_numpy()
