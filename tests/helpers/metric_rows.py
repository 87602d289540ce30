"""Rows for metrics, and their values over them in DuckDB."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

relaxed = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

ROWS = "(SELECT unnest($y::DOUBLE[]) AS y, unnest($p::DOUBLE[]) AS p)"


def metric(con, expression, y, p):
    """The value of the expression over rows (y, p), None being NULL."""
    query = f"SELECT {expression} FROM {ROWS}"
    return con.execute(query, {"y": list(y), "p": list(p)}).fetchone()[0]


def usable(y, p):
    """The rows without a NULL, as two arrays."""
    rows = [(a, b) for a, b in zip(y, p, strict=True) if a is not None and b is not None]
    return np.array(rows, dtype=float).reshape(-1, 2).T


def pairs(label, score):
    """Lists of rows with NULLs here and there."""
    row = st.tuples(st.none() | label, st.none() | score)
    return st.lists(row, max_size=60).map(lambda rows: tuple(zip(*rows, strict=True)) or ((), ()))


def close(value, expected):
    return value == pytest.approx(expected, rel=1e-12, abs=1e-13)


binary = st.sampled_from([0.0, 1.0])
probability = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-300, 0.5])
number = st.integers(-(10**9), 10**9).map(lambda i: i / 1000)
