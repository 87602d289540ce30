"""A stored model of many classes: KV compared with KV-VP, at full size.

    stored_classes.py [--rows 20000] [--ids 1000000] [--classes 20] [--entries 40] [--epochs 1]
                      [--cache 16MB] [--methods KV-VP,KV] [--store DIR]

Softmax on rows whose entries spread evenly over the ids, so that the weights of all classes travel
between the store and a cache that holds a fraction of them. Both methods take the same steps.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import machine
import numpy as np
import pyarrow as pa
import stored_runs

import tuskml

LAYOUTS: dict[str, dict[str, Any]] = {"routes": {}, "KV": {"method": "kv"}}
"""Options of each layout: the default for such rows, and a key a feature."""


def main() -> None:
    """The command line."""
    args = parser().parse_args()
    print(machine.sentence(machine.facts()))
    table = made(args.rows, args.ids, args.classes, args.entries)
    for method in args.methods:
        with stored_runs.stores(args.store) as root:
            print(f"  {method}: {trained(table, method, root, args)}", flush=True)


def made(rows: int, ids: int, classes: int, entries: int) -> pa.Table:
    """Rows of ones, whose class is the first id's."""
    drawn = np.random.default_rng(3).integers(0, ids, (rows, entries))
    lists = [np.unique(row) for row in drawn]
    ones = [np.ones(len(row), np.float32) for row in lists]
    label = (drawn[:, 0] % classes).astype(float)
    return pa.table({"y": label, "ids": pa.array(lists), "vals": pa.array(ones)})


def trained(table: pa.Table, method: str, root: Path, args: argparse.Namespace) -> str:
    """Seconds of the training and of its phases, requests, bytes and the objective."""
    options = {"store": "classes", "algorithm": "mgd", "epsilon": 0, "step": 0.1, "l2": 1e-6}
    options |= {"max_iter": args.epochs, "cache": args.cache, "threads": 2} | LAYOUTS[method]
    with tuskml.connect(threads=2, store_root=root) as con:
        con.register("given", table)
        con.execute("CREATE TABLE t AS SELECT y::INTEGER::VARCHAR AS y, ids, vals FROM given")
        query = "SELECT m.seconds, m.loss, m.options FROM (SELECT train_model('multinomial', y, "
        query += f"sparse(ids, vals), '{json.dumps(options)}') AS m FROM t)"
        ((seconds, loss, text),) = con.execute(query).fetchall()
    counters = json.loads(text)["counters"]
    moved = counters["bytes_read"] + counters["bytes_written"]
    phases = {name: round(took, 2) for name, took in counters["seconds"].items() if took >= 0.01}
    return (
        f"{seconds:.2f} s, objective {loss:.6f}, {counters['requests']:,} requests, "
        f"{moved / 1e6:,.0f} MB, {phases}"
    )


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = found.add_argument
    add("--rows", type=int, default=20_000)
    add("--ids", type=int, default=1_000_000)
    add("--classes", type=int, default=20)
    add("--entries", type=int, default=40)
    add("--epochs", type=int, default=1)
    add("--cache", default="16MB")
    add("--methods", type=stored_runs.words, default=list(LAYOUTS))
    add("--store", type=Path, default=stored_runs.TMPFS, help="where the store lies")
    return found


if __name__ == "__main__":
    main()
