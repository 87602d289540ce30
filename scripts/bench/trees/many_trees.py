"""Many small groups of boosted trees in one statement: time, and memory beside the rows'.

python scripts/bench/run.py many_trees --groups 100000 --threads 2

Groups of 270 rows and 10 float32 features, 50 trees of 15 leaves. The rows' bytes are those of
features and labels. The peak is the growth of the process's resident memory while the statement
runs, so it has the packed rows and the models, but not the table that is read.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

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


def main() -> None:
    """Prints seconds and bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=3000)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {given.threads} threads")
    n = given.groups * GROUP_ROWS
    with tuskml.connect(threads=given.threads) as con:
        con.execute(ROWS.format(rows=n)).fetchall()
        call = f"train_model('gbdt', y, x, '{OPTIONS.format(given.threads)}')"
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
    print(f"{wall:.2f} s, {used / given.groups * 1e3:.3f} ms of a processor per group")
    print(f"rows {rows / 1e6:.0f} MB, models {models / 1e6:.0f} MB")
    print(f"peak {peak / 1e6:.0f} MB ({peak / rows:.2f} x rows), kept {kept / 1e6:.0f} MB")
    print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
