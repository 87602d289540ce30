"""Memory of the training of boosted trees beyond the packed rows, in bytes per cell of features.

python scripts/bench/run.py tree_memory --rows 1000000 --threads 1

One model of float32 features, as in `boosting`. The peak is the growth of the process's resident
memory while the statement runs (VmHWM, which is reset before it), less the bytes of the packed
features and labels. For each row, training needs its bins, and 32 bytes of margins, gradients and
orders. It gives the packed features back once they are in bins.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from boosting import rows_of, table
from many_trees import memory

import tuskml

OF_A_ROW = 32
"""Bytes of a training for each row besides its bins: `kernels/native/trees/sample.hpp`."""


def main() -> None:
    """Prints the bytes per cell, estimated and measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=28)
    parser.add_argument("--trees", type=int, default=5)
    parser.add_argument("--leaves", type=int, default=31)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {args.threads} threads")
    options = (
        f'{{"objective": "logistic", "trees": {args.trees}, "num_leaves": {args.leaves}, '
        f'"threads": {args.threads}}}'
    )
    call = f"SELECT train_model('gbdt', y, x, '{options}') FROM t"
    with tuskml.connect(threads=args.threads) as con:
        x, y = rows_of(args.rows, args.features)
        table(con, "t", x, y=y.astype(np.float64))
        con.unregister("made")
        del x, y
        con.execute(f"{call} WHERE rowid < 1000").fetchall()
        before = memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        con.execute(call).fetchall()
        peak = memory("VmHWM") - before
    cells = args.rows * args.features
    packed = cells * 4 + args.rows * 8
    print(f"{args.rows:,} x {args.features}")
    print(f"packed {packed / 1e6:.0f} MB, peak {peak / 1e6:.0f} MB")
    print(f"beyond the packed rows {(peak - packed) / cells:.2f} bytes per cell, asked 1.3")
    print(f"bins and rows alone need {1 + OF_A_ROW / args.features:.2f}")


if __name__ == "__main__":
    main()
