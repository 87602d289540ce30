"""Trainings on NumPy arrays and SciPy matrices, in a DuckDB of the process, by Arrow.

The rows go from the arrays' own memory into the aggregate: no text, no copy of the whole.
"""

import datetime
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from tuskml.api.training import train
from tuskml.databases.connection import connect
from tuskml.errors import DataError
from tuskml.learners.clusters.learner import widen_centres
from tuskml.model.model import Model
from tuskml.model.scoring import as_text, as_times
from tuskml.schedule.pool import hold_in_forks

MOST_IN_AN_ARRAY = 100_000
"""Elements of DuckDB's type ARRAY; longer rows are lists."""
_databases: dict[int, duckdb.DuckDBPyConnection] = {}
_lock = hold_in_forks(threading.Lock())


def cursor() -> duckdb.DuckDBPyConnection:
    """A new connection to the process's in-memory database."""
    with _lock:
        process = os.getpid()
        if process not in _databases:
            _databases[process] = connect()
        return _databases[process].cursor()


def train_arrays(
    task: str,
    X: Any,
    y: NDArray[Any] | None,
    options: Mapping[str, Any],
    features: Sequence[str] = (),
    weight: NDArray[Any] | None = None,
) -> Model:
    """A model of rows in memory, with `train`'s options.

    X: finite float32 or float64 of shape (n, d), C-contiguous, where NaN is a missing value
    (NULL), or a SciPy CSR matrix of finite numbers, whose columns are feature ids. y: numbers or
    booleans of shape (n,), None for a task without labels. features: their names. weight: of the
    rows, shape (n,).
    """
    import pyarrow as pa

    sparse = hasattr(X, "tocsr")
    columns = {"x": sparse_column(X) if sparse else dense_column(X)}
    given = dict(options)
    if y is not None:
        columns["y"] = pa.array(y)
        given["label"] = "y"
    if weight is not None:
        columns["w"] = pa.array(np.asarray(weight, np.float64))
        given["weight"] = "w"
    with cursor() as connection:
        model: Model = train(connection, task, source=pa.table(columns), features="x", **given)
    if sparse and model.coef is not None:  # up to the largest id that was seen
        model = widen(model, X.shape[1])
    names = tuple(features) or tuple(f"x{place}" for place in range(1, X.shape[1] + 1))
    return model.trained_on(names, given.get("label"))


def widen(model: Model, n_features: int) -> Model:
    """The same model with a coefficient of 0 for features beyond the last one of its own."""
    if model.task == "kmeans":
        coef = widen_centres(np.array(model.weights()), n_features).tolist()
    elif model.several:
        by_class = np.array(model.weights()).reshape(len(model.classes or ()), -1)
        more = np.zeros((len(by_class), n_features - model.width))
        coef = np.hstack([by_class, more]).ravel().tolist()
    else:
        coef = [*model.weights(), *[0.0] * (n_features - model.width)]
    return replace(model, coef=coef, n_features=n_features)


def dense_column(X: NDArray[Any]) -> Any:
    """Rows as Arrow's lists of one length, which share X's memory; NaN becomes NULL."""
    import pyarrow as pa

    n, d = X.shape
    numbers = np.ascontiguousarray(X).reshape(-1)
    gaps = numbers.size > 0 and bool(np.isnan(numbers.min()))  # NaN if any number is
    values = pa.array(numbers, from_pandas=gaps)
    if d <= MOST_IN_AN_ARRAY:
        return pa.FixedSizeListArray.from_arrays(values, d)
    return pa.LargeListArray.from_arrays(np.arange(0, n * d + 1, d, dtype=np.int64), values)


def sparse_column(X: Any) -> Any:
    """Converts rows to Arrow, in the form of SQL's `sparse`."""
    import pyarrow as pa

    if X.shape[1] > np.iinfo(np.int32).max:
        raise DataError(f"X has {X.shape[1]:,} columns, expected at most 2,147,483,647")
    offsets = pa.array(X.indptr.astype(np.int64, copy=False))
    indices = pa.array(X.indices.astype(np.int32, copy=False))
    lists = [pa.LargeListArray.from_arrays(offsets, part) for part in (indices, pa.array(X.data))]
    return pa.StructArray.from_arrays(lists, names=["indices", "values"])


def frame_of_names(X: Any) -> Any:
    """The frame, as pandas has it, if a column of it is text, a category or a time; else None."""
    if not hasattr(X, "columns"):
        return None
    frame = X.to_pandas() if hasattr(X, "to_pandas") else X
    if not hasattr(frame, "dtypes") or frame.columns.has_duplicates:
        return None
    return frame if any(is_no_number(frame[name]) for name in frame.columns) else None


def is_no_number(column: Any) -> bool:
    """Returns whether a column of pandas is text, a category or a time."""
    if getattr(column.dtype, "kind", "O") != "O":
        return bool(column.dtype.kind in "MU")
    if column.dtype.name != "object":
        return True
    known = column.dropna()
    return len(known) > 0 and isinstance(known.iloc[0], str | datetime.date)


def train_frame(
    task: str,
    frame: Any,
    y: NDArray[Any] | None,
    options: Mapping[str, Any],
    weight: NDArray[Any] | None = None,
) -> Model:
    """Trains on a pandas frame whose columns are features by name.

    y: labels (n,), None for a task without labels.
    """
    import pyarrow as pa

    names = [str(name) for name in frame.columns]
    label = "y" * (1 + max(map(len, names)))
    columns = {name: arrow_column(name, frame.iloc[:, k]) for k, name in enumerate(names)}
    given = dict(options)
    if y is not None:
        columns[label] = pa.array(y)
        given["label"] = label
    if weight is not None:
        given["weight"] = "w" * (1 + len(label))  # no column's name either
        columns[given["weight"]] = pa.array(np.asarray(weight, np.float64))
    with cursor() as connection:
        model: Model = train(connection, task, source=pa.table(columns), features=names, **given)
    return model if y is None else replace(model, label="y")


def arrow_column(name: str, column: Any) -> Any:
    """A column of a frame; categories, also of numbers, are text, and NaN is missing."""
    import pyarrow as pa

    column = as_times(column)
    if column.dtype.name == "category":
        return pa.array([as_text(value) for value in column.astype(object)], pa.string())
    try:
        return pa.Array.from_pandas(column)
    except pa.ArrowException:
        kinds = sorted({type(value).__name__ for value in column.dropna().head(1000)})
        raise DataError(
            f"column {name!r} of X has values of several types, {', '.join(kinds)}: expected one, "
            "such as text, X.astype({...: str})"
        ) from None
