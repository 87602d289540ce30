"""Many small groups of boosted trees in one statement: time, and memory compared with the rows'.

python scripts/bench/run.py many_trees --groups 100000 --threads 2
python scripts/bench/run.py many_trees --groups 1000 --threads 1 --shared 15 31 63

Groups of 270 rows and 10 float32 features, 50 trees of 15 leaves. The rows' bytes are those of
features and labels. The peak is the growth of the process's resident memory while the statement
runs, so it has the packed rows and the models, but not the table that is read. --shared compares
bins of each group with bins that all groups share, whose bounds are a given number of quantiles
of all rows, by time and by the log loss of other rows of the same groups.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import duckdb
import numpy as np
from boosting import GROUP_ROWS

import tuskml

FEATURES = 10
OPTIONS = '{{"objective": "logistic", "trees": 50, "num_leaves": 15, "threads": {}}}'
ROWS = f"""
CREATE TABLE t AS
SELECT i // {GROUP_ROWS} AS g, x, x[1] * x[2] + sin(2 * x[3]) + x[4] + noise > 0 AS y
FROM (SELECT i, [(hash(i * {FEATURES} + j) / 2.0 ** 62 - 2)::FLOAT
                 for j in range({FEATURES})] AS x,
             hash(-i) / 2.0 ** 61 - 4 AS noise FROM range({{rows}}) AS r (i))
"""


def memory(field: str) -> int:
    """Bytes of this process: VmRSS, or since the last reset VmHWM."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def shared(con: duckdb.DuckDBPyConnection, args: argparse.Namespace) -> None:
    """Prints time and losses with bins of each group's own, and with shared ones."""
    n = args.groups * GROUP_ROWS
    con.execute(f"CREATE TABLE every AS {ROWS.format(rows=2 * n).split(' AS', 1)[1]}")
    con.execute("CREATE TABLE t AS SELECT g // 2 AS g, x, y FROM every WHERE g % 2 = 0")
    con.execute("CREATE TABLE other AS SELECT g // 2 AS g, x, y FROM every WHERE g % 2 = 1")
    options = {0: json.loads(OPTIONS.format(args.threads))}
    for size in args.shared:
        shares = [(i + 1) / (size + 1) for i in range(size)]
        listed = ", ".join(f"quantile_cont(x[{j + 1}], {shares})" for j in range(FEATURES))
        bounds = con.execute(f"SELECT {listed} FROM t").fetchall()[0]
        options[size] = options[0] | {"bounds": [list(map(float, of)) for of in bounds]}
    times: dict[int, list[float]] = {size: [] for size in options}
    for _ in range(args.repeat):
        for size, chosen in options.items():
            call = f"train_model('gbdt', y, x, '{json.dumps(chosen)}')"
            began = time.process_time()
            con.execute(
                f"CREATE OR REPLACE TABLE m{size} AS SELECT g, {call} AS m FROM t GROUP BY g"
            )
            times[size].append(time.process_time() - began)
    for size, taken in times.items():
        losses = con.execute(
            f"""SELECT (SELECT avg(m.loss) FROM m{size}), log_loss(y, predict_proba(m, x))
            FROM other JOIN m{size} USING (g)"""
        ).fetchall()[0]
        name = f"{size} shared bounds" if size else "bins of each group"
        each = statistics.median(taken) / args.groups * 1e3
        print(
            f"{name:<20} {each:.3f} ms of a processor per group, log loss {losses[0]:.4f} in "
            f"training, {losses[1]:.4f} of other rows"
        )


def main() -> None:
    """Prints seconds and bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shared", type=int, nargs="*", help="numbers of shared bounds")
    parser.add_argument("--repeat", type=int, default=3, help="with --shared")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {args.threads} threads")
    if args.shared:
        with tuskml.connect(threads=args.threads) as con:
            shared(con, args)
        return
    n = args.groups * GROUP_ROWS
    with tuskml.connect(threads=args.threads) as con:
        con.execute(ROWS.format(rows=n)).fetchall()
        call = f"train_model('gbdt', y, x, '{OPTIONS.format(args.threads)}')"
        con.execute(f"CREATE TABLE few AS SELECT {call} AS m FROM t WHERE g < 2 GROUP BY g")
        before = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        wall, used = time.perf_counter(), time.process_time()
        con.execute(f"CREATE TABLE m AS SELECT g, {call} AS m FROM t GROUP BY g").fetchall()
        wall, used = time.perf_counter() - wall, time.process_time() - used
        peak, kept = memory("VmHWM") - before, memory("VmRSS") - before
        found = con.execute(
            "SELECT count(*), avg(octet_length(m.payload)), count(DISTINCT m.status) FROM m"
        ).fetchall()[0]
    rows = n * (FEATURES * 4 + 8)
    models = int(found[0] * np.float64(found[1]))
    print(f"{found[0]:,} models of {found[1]:,.0f} bytes, {found[2]} status")
    print(f"{wall:.2f} s, {used / args.groups * 1e3:.3f} ms of a processor per group")
    print(f"rows {rows / 1e6:.0f} MB, models {models / 1e6:.0f} MB")
    print(f"peak {peak / 1e6:.0f} MB ({peak / rows:.2f} x rows), kept {kept / 1e6:.0f} MB")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
