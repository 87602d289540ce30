"""Rows of PostgreSQL's binary COPY format as NumPy records, both ways.

A row whose columns have constant lengths is a record of constant length: nothing is parsed value
by value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)  # no flags, no extension
TRAILER = b"\xff\xff"
FLOAT8 = 701  # its oid
SCALARS = {"integer": ">i4", "boolean": "?", "real": ">f4", "double precision": ">f8"}
Columns = Mapping[str, int | str]
Records = NDArray[Any]


def record(columns: Columns) -> np.dtype[Any]:
    """A row: for each column its SQL type, or the length of its float8[]."""
    fields: list[tuple[Any, ...]] = [("count", ">i2")]
    for name, kind in columns.items():
        fields.append((f"{name} bytes", ">i4"))
        if isinstance(kind, str):
            fields.append((name, SCALARS[kind]))
        else:
            fields.append((f"{name} array", ">i4", 5))  # dimensions, NULLs, oid, length, lower
            fields.append((name, [("bytes", ">i4"), ("value", ">f8")], kind))
    return np.dtype(fields)


def empty(columns: Columns, rows: int) -> Records:
    """Rows in which only the values are missing."""
    made = np.zeros(rows, record(columns))
    made["count"] = len(columns)
    for name, kind in columns.items():
        made[f"{name} bytes"] = made.dtype[name].itemsize
        if not isinstance(kind, str):
            made[f"{name} bytes"] += made.dtype[f"{name} array"].itemsize
            made[f"{name} array"] = (1, 0, FLOAT8, kind, 1)
            made[name]["bytes"] = 8
    return made


def parse(stream: bytes, columns: Columns) -> Records:
    """The output of COPY TO STDOUT, as a view."""
    kind = record(columns)
    body = len(stream) - len(HEADER) - len(TRAILER)
    if body % kind.itemsize:
        raise ValueError("the rows have NULLs or arrays of another length")
    return np.frombuffer(stream, kind, body // kind.itemsize, len(HEADER))
