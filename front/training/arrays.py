"""Trainings on NumPy arrays and SciPy matrices, in a DuckDB of the process, by Arrow.

The rows go from the arrays' own memory into the aggregate: no text, no copy of the whole.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from tuskml.connection import connect
from tuskml.errors import DataError
from tuskml.model.model import Model
from tuskml.training.training import train

MOST_IN_AN_ARRAY = 100_000
"""Elements of DuckDB's type ARRAY; longer rows are lists."""
_databases: dict[int, duckdb.DuckDBPyConnection] = {}
_lock = threading.Lock()


def cursor() -> duckdb.DuckDBPyConnection:
    """A connection of the caller's own to the process's database in memory."""
    with _lock:
        process = os.getpid()
        if process not in _databases:
            _databases[process] = connect()
        return _databases[process].cursor()


def train_arrays(
    task: str,
    X: Any,
    y: NDArray[Any],
    options: Mapping[str, Any],
    features: Sequence[str] = (),
) -> Model:
    """A model of rows in memory, with `train`'s options.

    X: finite float32 or float64 of shape (n, d), C-contiguous, or a SciPy CSR matrix of them,
    whose columns are feature ids. y: numbers or booleans of shape (n,). features: their names.
    """
    import pyarrow as pa

    sparse = hasattr(X, "tocsr")
    columns = {"x": sparse_column(X) if sparse else dense_column(X), "y": pa.array(y)}
    with cursor() as connection:
        model: Model = train(
            connection, task, source=pa.table(columns), label="y", features="x", **options
        )
    if sparse and model.coef is not None:  # up to the largest id that was seen
        model = widened(model, X.shape[1])
    names = tuple(features) or tuple(f"x{place}" for place in range(1, X.shape[1] + 1))
    return model.trained_on(names, "y")


def widened(model: Model, n_features: int) -> Model:
    """The same model with a coefficient of 0 for features beyond the last one of its own."""
    if model.several:
        by_class = np.array(model.weights()).reshape(len(model.classes or ()), -1)
        more = np.zeros((len(by_class), n_features - model.width))
        coef = np.hstack([by_class, more]).ravel().tolist()
    else:
        coef = [*model.weights(), *[0.0] * (n_features - model.width)]
    return replace(model, coef=coef, n_features=n_features)


def dense_column(X: NDArray[Any]) -> Any:
    """Rows as Arrow's lists of one length, which share X's memory."""
    import pyarrow as pa

    n, d = X.shape
    values = pa.array(np.ascontiguousarray(X).reshape(-1))
    if d <= MOST_IN_AN_ARRAY:
        return pa.FixedSizeListArray.from_arrays(values, d)
    return pa.LargeListArray.from_arrays(np.arange(0, n * d + 1, d, dtype=np.int64), values)


def sparse_column(X: Any) -> Any:
    """Rows as what SQL's `sparse` returns."""
    import pyarrow as pa

    if X.shape[1] > np.iinfo(np.int32).max:
        raise DataError(f"X has {X.shape[1]:,} columns, expected at most 2,147,483,647")
    offsets = pa.array(X.indptr.astype(np.int64, copy=False))
    indices = pa.array(X.indices.astype(np.int32, copy=False))
    lists = [pa.LargeListArray.from_arrays(offsets, part) for part in (indices, pa.array(X.data))]
    return pa.StructArray.from_arrays(lists, names=["indices", "values"])
