"""lbfgs by `train_model` from a DuckDB table, on both devices."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from gpu_checkout import available_bytes
from gpu_common import line, normals

PIECE = 1 << 20
COPIES = 4
"""Copies of the rows that memory should have room for: the table, packed rows, buffers."""


def through_sql(device: Any, n: int, d: int, end: float) -> Iterator[dict[str, Any]]:
    """n rows, or as many as memory has room for; end: when to be done (`time.monotonic`)."""
    room = available_bytes() // (COPIES * (4 * d + 8))
    if room < n:
        print(f"through SQL: {room:,} rows, which memory has room for, not {n:,}", file=sys.stderr)
        n = room
    name = f"lbfgs to 1e-6, n={n:,}, d={d}, through SQL"
    try:
        import pyarrow as pa

        import tuskml

        con = tuskml.connect()
    except Exception as error:
        print(f"nothing through SQL: {type(error).__name__}: {error}", file=sys.stderr)
        yield line(f"{name}, against the CPU", ">= 10x", None)
        return
    con.execute("CREATE TABLE t (y BOOLEAN, x FLOAT[])")
    truth = (np.random.default_rng(0).normal(size=d) / np.sqrt(d)).astype(np.float32)
    for number, low in enumerate(range(0, n, PIECE)):
        rows = min(PIECE, n - low)
        x = device.to_host(normals(device.xp, (rows, d), number))
        y = x @ truth + np.random.default_rng(number).standard_normal(rows, np.float32) > 0
        lists = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), d)
        con.register("given", pa.table({"y": y, "x": lists}))
        con.execute("INSERT INTO t SELECT y, x::FLOAT[] FROM given")
        con.unregister("given")
    device.release()
    yield from trained(con, name, end)


def trained(con: Any, name: str, end: float) -> Iterator[dict[str, Any]]:
    """The lines; the first query on the device compiles the kernels."""
    took, model = {}, {}
    for place in ("gpu", "cpu"):
        left = max(1, int(end - time.monotonic()))
        given = {"algorithm": "lbfgs", "l2": 1e-4, "device": place, "time": f"{left}s"}
        options = json.dumps(given)
        query = f"SELECT train_model('logistic', y, x, '{options}') FROM t"
        if place == "gpu":
            con.execute(query.replace("FROM t", "FROM (SELECT * FROM t LIMIT 1000)")).fetchall()
        began = time.perf_counter()
        model[place] = con.execute(query).fetchone()[0]
        took[place] = time.perf_counter() - began
        yield line(f"{name}, {place}, seconds", "", took[place], training=model[place]["seconds"])
    over = {place: found["status"] for place, found in model.items() if not found["converged"]}
    split = {
        f"{place}_{what}": value
        for place in took
        for what, value in (("seconds", took[place]), ("training", model[place]["seconds"]))
    }
    a, b = (np.array(model[place]["coef"]) for place in ("gpu", "cpu"))
    loss = [model[place]["loss"] for place in ("gpu", "cpu")]
    ratio = took["cpu"] / took["gpu"]
    yield line(f"{name}, against the CPU", ">= 10x", ratio, **split, unfinished=over)
    if not over:
        yield line(
            f"{name}, optimum, objective, relative",
            "<= 1e-6",
            abs(loss[0] / loss[1] - 1),
            weights=float(np.abs(a - b).max() / np.abs(b).max()),
        )
