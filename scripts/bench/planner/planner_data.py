"""The data sets of `planner.py`: the shapes of well-known ones, generated from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True)
class Data:
    """A data set: entries is 0 for dense rows; shared: the share of variance due to few factors.

    file: rows in svmlight's format with classes -1 and 1, which are the numbers too; None:
    generated.
    """

    name: str
    rows: int
    features: int
    entries: int = 0
    shared: float = 0.0
    l2: float = 0.0
    l1: float = 0.0
    file: Path | None = None

    @property
    def columns(self) -> str:
        return "sparse(ids, vals)" if self.entries else "x"


SETS = (
    Data("small", 20_000, 20),
    Data("a9a-like", 32_561, 123, entries=14, l2=1e-5),
    Data("covtype-like", 200_000, 54, shared=0.5),
    Data("yearpred-like", 200_000, 90, shared=0.9),
    Data("higgs-like", 1_000_000, 28),
    Data("rcv1-like", 60_000, 47_236, entries=73, l2=1e-5),
    Data("svm-300", 60_000, 300, shared=0.9),
    Data("svm-1000", 20_000, 1000, shared=0.5),
    Data("lasso", 200_000, 100, shared=0.5, l1=0.005),
)


def fill(con: duckdb.DuckDBPyConnection, data: Data, scale: float) -> None:
    """Makes the table `rows`."""
    if data.file is not None:
        put(con, read(data.file))
        return
    n, rng = max(2000, round(data.rows * scale)), np.random.default_rng(7)
    made, margin = (sparse if data.entries else dense)(data, n, rng)
    noise = rng.standard_normal(n)
    made["number"] = pa.array(margin + noise)
    made["class"] = pa.array(rng.random(n) < 1 / (1 + np.exp(-2 * margin)))
    put(con, made)


def put(con: duckdb.DuckDBPyConnection, made: dict[str, Any]) -> None:
    """The columns as the table `rows`."""
    con.register("made", pa.table(made))
    con.execute("CREATE OR REPLACE TABLE rows AS FROM made")
    con.unregister("made")


def read(file: Path) -> dict[str, Any]:
    """Columns of a file's rows."""
    from sklearn.datasets import load_svmlight_file

    x, y = load_svmlight_file(str(file), zero_based=True, dtype=np.float32)
    offsets = pa.array(x.indptr.astype(np.int32))
    lists = {"ids": pa.array(x.indices.astype(np.int32)), "vals": pa.array(x.data)}
    made: dict[str, Any] = {k: pa.ListArray.from_arrays(offsets, v) for k, v in lists.items()}
    return made | {"number": pa.array(y), "class": pa.array(y > 0)}


def dense(data: Data, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """Standard normal features, some of their variance from a tenth as many factors."""
    d = data.features
    x = rng.standard_normal((n, d), dtype=np.float32)
    if data.shared:
        few = max(2, d // 10)
        factors = rng.standard_normal((n, few), dtype=np.float32)
        loads = rng.standard_normal((few, d), dtype=np.float32) / np.float32(np.sqrt(few))
        own, common = (np.float32(np.sqrt(part)) for part in (1 - data.shared, data.shared))
        x = own * x + common * (factors @ loads)
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * d)
    margin = x @ (rng.standard_normal(d) / np.sqrt(d))
    return {"x": pa.ListArray.from_arrays(offsets, pa.array(x.ravel()))}, margin


def sparse(data: Data, n: int, rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """Ids by Zipf's law, rows of length about 1."""
    d = data.features
    drawn = rng.poisson(data.entries, n) + 1
    rank = np.minimum(d ** rng.random(drawn.sum()), d).astype(np.int64) - 1
    row, ids = np.divmod(np.unique(np.repeat(np.arange(n), drawn) * d + rank), d)
    ids = rng.permutation(d)[ids]  # frequent features do not lie side by side
    offsets = pa.array(np.searchsorted(row, np.arange(n + 1)).astype(np.int32))
    sizes = np.bincount(row, minlength=n)
    vals = (rng.uniform(0.5, 1.5, len(ids)) / np.sqrt(sizes)[row]).astype(np.float32)
    margin = np.bincount(row, weights=vals * (3 * rng.standard_normal(d))[ids], minlength=n)
    lists = {"ids": pa.array(ids.astype(np.int32)), "vals": pa.array(vals)}
    return {k: pa.ListArray.from_arrays(offsets, v) for k, v in lists.items()}, margin


def matrix(con: duckdb.DuckDBPyConnection, data: Data, label: str) -> tuple[Any, NDArray[Any]]:
    """The rows for peers: float32, dense or CSR, and the labels."""
    if not data.entries:
        found = con.sql(f"SELECT x, {label} FROM rows").to_arrow_table()
        flat = np.concatenate([part.flatten().to_numpy() for part in found["x"].chunks])
        return flat.reshape(-1, data.features), labels(found[label])
    from scipy.sparse import csr_matrix

    found = con.sql(f"SELECT ids, vals, {label} FROM rows").to_arrow_table()
    ids, vals = (
        np.concatenate([part.flatten().to_numpy() for part in found[name].chunks])
        for name in ("ids", "vals")
    )
    sizes = np.concatenate([part.value_lengths().to_numpy() for part in found["ids"].chunks])
    start = np.concatenate([[0], np.cumsum(sizes)])
    made = csr_matrix((vals, ids, start), shape=(len(sizes), data.features))
    return made, labels(found[label])


def labels(column: pa.ChunkedArray) -> NDArray[Any]:
    """Labels as numbers; classes as 0 and 1."""
    return np.asarray(column.to_numpy(), np.float64)
