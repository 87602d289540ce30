"""The data sets: generated once with fixed seeds, kept as DuckDB files under the data directory.

Each function returns the path of its file and makes it when it is missing:

    dense(settings)         2M rows x 28 float32; tables dense (FLOAT[]), dense_array
                            (FLOAT[28]), dense_columns
    zipf(settings)          2M rows x 28 in 1,000 groups of 267k .. 230 rows, each with weights
                            of its own
    million(settings)       1M groups x 100 rows x 3 columns; tables ordered and shuffled
    sparse(settings)        200k rows, 1M features, ~100 non-zeros a row as INTEGER[] and
                            FLOAT[]; sparse_test
    big(settings)           10M rows x 28 float32, to predict and to spill
    double(settings)        500k rows x 28 float64 in 100 groups of Zipf sizes, as DOUBLE[];
                            table dense
    double_big(settings)    5M rows x 28 float64, of which group 0 has all but every 1,000th;
                            table dense
    twenty(settings)        1M groups x 20 rows x 3 columns, shuffled
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from contender import Settings
from numpy.typing import NDArray

DIM = 28
GROUPS_ZIPF = 1_000
GROUP_ROWS = 100
SPARSE_DIM = 1_000_000
CHUNK = 1_000_000
Floats = NDArray[np.float32]
Fill = Callable[[duckdb.DuckDBPyConnection, Settings], None]


def dense(settings: Settings) -> Path:
    """Logistic data whose optimum has a mean log-loss of about 0.49."""
    return cached("dense", settings, _fill_dense)


def zipf(settings: Settings) -> Path:
    """Rows of 1,000 groups in random order; the k-th largest group has a share of 1/k."""
    return cached("zipf", settings, _fill_zipf)


def million(settings: Settings) -> Path:
    """A million groups of 100 rows: g, y (linear), late (logistic), a, b, c."""
    return cached("million", settings, _fill_million)


def sparse(settings: Settings) -> Path:
    """Rows of Zipf feature ids, sorted and without repeats in a row."""
    return cached("sparse", settings, _fill_sparse)


def big(settings: Settings) -> Path:
    """10M rows drawn like `dense`."""
    return cached("big", settings, _fill_big)


def double(settings: Settings) -> Path:
    """Rows drawn like `dense`, in 100 groups that share their weights."""
    return cached("double", settings, partial(_fill_double, 500_000, _hundred_groups))


def double_big(settings: Settings) -> Path:
    """Ten times the rows of `big`, nearly all of them in one group."""
    return cached("double_big", settings, partial(_fill_double, 5_000_000, _one_group))


def twenty(settings: Settings) -> Path:
    """A million groups of 20 rows: g, y (linear), late (logistic), a, b, c."""
    return cached("twenty", settings, _fill_twenty)


def dense_truth(dim: int = DIM, margin: float = 1.72) -> tuple[Floats, float]:
    """The weights and the intercept that drew the labels of `dense` and `big`."""
    weights = np.random.default_rng(1).standard_normal(dim)
    return (weights * margin / np.linalg.norm(weights)).astype(np.float32), 0.3


def dense_rows(rows: int, dim: int = DIM, seed: int = 2) -> tuple[Floats, NDArray[np.bool_]]:
    """`rows` standard normal rows and their labels."""
    rng = np.random.default_rng(seed)
    weights, intercept = dense_truth(dim)
    X = rng.standard_normal((rows, dim), dtype=np.float32)
    return X, draw_labels(rng, X @ weights + intercept)


def cached(name: str, settings: Settings, fill: Fill) -> Path:
    """The file of a data set; made under another name first, so that an interrupted run leaves
    none behind.
    """
    path = settings.data_dir / f"{name}-{settings.scale:g}.duckdb"
    if path.exists():
        return path
    unfinished = settings.data_dir / f"{name}-{os.getpid()}.making"
    try:
        with duckdb.connect(str(unfinished)) as con:
            fill(con, settings)
            con.execute("CHECKPOINT")
        unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return path


def _fill_dense(con: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    X, y = dense_rows(settings.rows(2_000_000))
    rows = pa.table({"y": pa.array(y), "x": lists(X)})
    con.register("rows", rows)
    con.execute("CREATE TABLE dense AS SELECT y, x FROM rows")
    con.execute(f"CREATE TABLE dense_array AS SELECT y, x::FLOAT[{DIM}] AS x FROM dense")
    columns = ", ".join(f"x[{i + 1}] AS x{i}" for i in range(DIM))
    con.execute(f"CREATE TABLE dense_columns AS SELECT y, {columns} FROM dense")


def _fill_big(con: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    con.execute("CREATE TABLE big (y BOOLEAN, x FLOAT[])")
    for start, count in chunks(settings.rows(10_000_000)):
        X, y = dense_rows(count, seed=100 + start // CHUNK)
        append(con, "big", pa.table({"y": pa.array(y), "x": lists(X)}))


def _fill_double(
    full: int,
    groups: Callable[[NDArray[np.int64]], NDArray[np.int32]],
    con: duckdb.DuckDBPyConnection,
    settings: Settings,
) -> None:
    con.execute("CREATE TABLE dense (g INTEGER, y BOOLEAN, x DOUBLE[])")
    for start, count in chunks(settings.rows(full)):
        X, y = dense_rows(count, seed=200 + start // CHUNK)
        g = groups(np.arange(start, start + count))
        rows = {"g": pa.array(g), "y": pa.array(y), "x": lists(X)}
        append(con, "dense", pa.table(rows))


def _hundred_groups(row: NDArray[np.int64]) -> NDArray[np.int32]:
    """The k-th largest group has a share of 1/k."""
    share = 1.0 / np.arange(1, 101)
    rng = np.random.default_rng([6, row[0]])
    return rng.choice(100, len(row), p=share / share.sum()).astype(np.int32)


def _one_group(row: NDArray[np.int64]) -> NDArray[np.int32]:
    g: NDArray[np.int32] = (row % 1_000 == 999).astype(np.int32)
    return g


def _fill_zipf(con: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    rng = np.random.default_rng(3)
    rows = settings.rows(2_000_000)
    share = 1.0 / np.arange(1, GROUPS_ZIPF + 1)
    g = rng.choice(GROUPS_ZIPF, rows, p=share / share.sum()).astype(np.int32)
    weights = rng.standard_normal((GROUPS_ZIPF, DIM), dtype=np.float32)
    weights *= 2.75 / np.linalg.norm(weights, axis=1, keepdims=True)
    intercepts = rng.normal(0.3, 0.3, GROUPS_ZIPF).astype(np.float32)
    X = rng.standard_normal((rows, DIM), dtype=np.float32)
    y = draw_labels(rng, np.einsum("ij,ij->i", X, weights[g]) + intercepts[g])
    con.register("rows", pa.table({"g": pa.array(g), "y": pa.array(y), "x": lists(X)}))
    con.execute("CREATE TABLE zipf AS SELECT g, y, x FROM rows")


def _fill_million(con: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    rng = np.random.default_rng(4)
    groups = settings.rows(1_000_000)
    truth = rng.standard_normal((groups, 4), dtype=np.float32)
    ids = np.repeat(np.arange(groups, dtype=np.int32), GROUP_ROWS)
    for table in ("ordered", "shuffled"):
        con.execute(
            f"CREATE TABLE {table} (g INTEGER, y FLOAT, late BOOLEAN, a FLOAT, b FLOAT, c FLOAT)"
        )
        for start, count in chunks(len(ids)):
            append(con, table, _million_rows(ids[start : start + count], truth, rng))
        rng.shuffle(ids)


def _fill_twenty(con: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    rng = np.random.default_rng(7)
    groups = settings.rows(1_000_000)
    truth = rng.standard_normal((groups, 4), dtype=np.float32)
    ids = np.repeat(np.arange(groups, dtype=np.int32), 20)
    rng.shuffle(ids)
    con.execute(
        "CREATE TABLE twenty (g INTEGER, y FLOAT, late BOOLEAN, a FLOAT, b FLOAT, c FLOAT)"
    )
    for start, count in chunks(len(ids)):
        append(con, "twenty", _million_rows(ids[start : start + count], truth, rng))


def _million_rows(g: NDArray[np.int32], truth: Floats, rng: np.random.Generator) -> pa.Table:
    X = rng.standard_normal((len(g), 3), dtype=np.float32)
    margin = np.einsum("ij,ij->i", X, truth[g, :3]) + truth[g, 3]
    y = margin + rng.standard_normal(len(g), dtype=np.float32)
    columns = {
        "g": g,
        "y": y,
        "late": draw_labels(rng, margin),
        "a": X[:, 0],
        "b": X[:, 1],
        "c": X[:, 2],
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def _fill_sparse(con: duckdb.DuckDBPyConnection, settings: Settings) -> None:
    rng = np.random.default_rng(5)
    names = rng.permutation(SPARSE_DIM)  # so that frequent features do not lie side by side
    truth = (rng.standard_normal(SPARSE_DIM) * 3.0).astype(np.float32)
    for table, rows in (
        ("sparse", settings.rows(200_000)),
        ("sparse_test", settings.rows(20_000)),
    ):
        con.execute(f"CREATE TABLE {table} (y BOOLEAN, ids INTEGER[], vals FLOAT[])")
        for _, count in chunks(rows, 50_000):
            append(con, table, _sparse_rows(count, names, truth, rng))


def _sparse_rows(
    rows: int, names: NDArray[np.int64], truth: Floats, rng: np.random.Generator
) -> pa.Table:
    """Ids by the inverse of the Zipf distribution function; repeats in a row drop out."""
    drawn = rng.poisson(128, rows) + 1
    rank = np.minimum(SPARSE_DIM ** rng.random(drawn.sum()), SPARSE_DIM).astype(np.int64) - 1
    key = np.unique(np.repeat(np.arange(rows), drawn) * SPARSE_DIM + names[rank])
    row, ids = np.divmod(key, SPARSE_DIM)
    offsets = np.searchsorted(row, np.arange(rows + 1)).astype(np.int32)
    vals = (rng.uniform(0.5, 1.5, len(ids)) / np.sqrt(np.diff(offsets))[row]).astype(np.float32)
    margin = np.bincount(row, weights=vals * truth[ids], minlength=rows)
    return pa.table(
        {
            "y": pa.array(draw_labels(rng, margin)),
            "ids": pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids.astype(np.int32))),
            "vals": pa.ListArray.from_arrays(pa.array(offsets), pa.array(vals)),
        }
    )


def lists(X: Floats) -> pa.ListArray:
    """The rows of a matrix as an Arrow list column, without a copy of the numbers."""
    rows, dim = X.shape
    return pa.ListArray.from_arrays(
        pa.array(np.arange(rows + 1, dtype=np.int32) * dim), pa.array(X.ravel())
    )


def draw_labels(rng: np.random.Generator, margin: NDArray[np.floating]) -> NDArray[np.bool_]:
    return rng.random(len(margin), dtype=np.float32) < 1 / (1 + np.exp(-margin))


def append(con: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    con.register("rows", rows)
    con.execute(f"INSERT INTO {table} SELECT * FROM rows")
    con.unregister("rows")


def chunks(total: int, size: int = CHUNK) -> Iterator[tuple[int, int]]:
    for start in range(0, total, size):
        yield start, min(size, total - start)
