"""Implicit feedback: iterations of alternating least squares compared with implicit's, from equal
starts.

Both solve for the same objective with the same steps of conjugate gradient, in float32 on two
threads, implicit with its native solver and one thread of BLAS as it asks for. Runs alternate; the
objective of both results is computed by NumPy in doubles.

python scripts/bench/factorization/implicit_als.py [--runs 5] [--iterations 5] [--scale 1]
"""

from __future__ import annotations

import argparse
import os
import time
from statistics import median
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import duckdb
import numpy as np
import scipy.sparse
from implicit.als import AlternatingLeastSquares
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import tuskml

SHAPES = (
    (6_040, 3_706, 1_000_000, 64),
    (6_040, 3_706, 1_000_000, 128),
    (50_000, 20_000, 5_000_000, 64),
)
"""Users, items, draws of a pair, and the rank."""
ALPHA, L2, CG_STEPS, THREADS = 2.0, 5.0, 3, 2
Floats = NDArray[np.floating[Any]]


def plays(n_users: int, n_items: int, n: int) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    """Users, items and how often: some users and items far more often than others."""
    rng = np.random.default_rng(0)
    user = rng.permutation(n_users)[(rng.random(n) ** 1.7 * n_users).astype(int)]
    item = rng.permutation(n_items)[(rng.random(n) ** 2.5 * n_items).astype(int)]
    key = np.unique(user * n_items + item)
    user, item = (np.unique(one, return_inverse=True)[1] for one in divmod(key, n_items))
    return user, item, rng.integers(1, 6, len(user)).astype(float)


def objective(user: NDArray[Any], item: NDArray[Any], r: Floats, x: Floats, y: Floats) -> float:
    """The objective over all pairs (Hu, Koren, Volinsky 2008), over twice the sum of the
    confidences.
    """
    x, y = x.astype(float), y.astype(float)
    m, c = np.einsum("nk,nk->n", x[user], y[item]), 1 + ALPHA * r
    total = np.vdot(x.T @ x, y.T @ y) + (c * (1 - m) ** 2 - m * m).sum()
    total += L2 * ((x**2).sum() + (y**2).sum())
    return float(total / (2 * (len(x) * len(y) + ALPHA * r.sum())))


def tusk(
    con: duckdb.DuckDBPyConnection, rank: int, iterations: int
) -> tuple[float, float, Floats]:
    """Seconds in SQL and of the training alone, and the vectors."""
    options = (
        f'{{"feedback": "implicit", "alpha": {ALPHA}, "l2": {L2}, "cg_steps": {CG_STEPS}, '
        f'"rank": {rank}, "max_iter": {iterations}, "threads": {THREADS}}}'
    )
    start = time.perf_counter()
    con.execute(
        "CREATE OR REPLACE TABLE m AS SELECT "
        f"train_model('matrix_factorization', r, [u, i], '{options}') AS m FROM plays"
    )
    seconds = time.perf_counter() - start
    ((model,),) = con.execute("SELECT m FROM m").fetchall()
    return seconds, model["seconds"], np.array(model["coef"]).reshape(-1, rank)


def peer(rows: Any, rank: int, iterations: int, start: Floats) -> tuple[float, Floats, Floats]:
    """Seconds of implicit, and its vectors of users and of items."""
    with threadpool_limits(1, user_api="blas"):
        model = AlternatingLeastSquares(
            factors=rank,
            regularization=L2,
            alpha=1.0,
            dtype=np.float32,
            use_native=True,
            use_cg=True,
            use_gpu=False,
            iterations=iterations,
            num_threads=THREADS,
        )
        model.cg_steps = CG_STEPS
        model.user_factors = start[: rows.shape[0]].astype(np.float32)
        model.item_factors = start[rows.shape[0] :].astype(np.float32)
        began = time.perf_counter()
        model.fit(rows, show_progress=False)
        return time.perf_counter() - began, model.user_factors, model.item_factors


def starting(user: NDArray[Any], item: NDArray[Any], r: Floats, rank: int) -> Floats:
    """The first vectors of tuskml, from its kernel."""
    import sys
    from pathlib import Path

    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests/helpers"))
    from rows import block, rows_pass

    from tuskml.kernels.factorization import Interactions, Shape

    rows = rows_pass(block(np.stack([user, item], 1).astype(float), r, segment_rows=100_000))
    shape = Shape(int(user.max()) + 1, int(item.max()) + 1, rank, False, L2)
    with Interactions(rows, 0, shape, ALPHA, 0) as model:
        return model.vectors()


def compare(shape: tuple[int, int, int, int], runs: int, iterations: int) -> None:
    """Prints one line of the table."""
    *sizes, rank = shape
    user, item, r = plays(*sizes)
    n_users, n_items = int(user.max()) + 1, int(item.max()) + 1
    con = tuskml.connect()
    con.execute(f"SET threads = {THREADS}")
    con.register("given", {"u": user.astype(float), "i": item.astype(float), "r": r})
    con.execute("CREATE TABLE plays AS SELECT * FROM given")
    confidence = scipy.sparse.csr_matrix(
        ((1 + ALPHA * r).astype(np.float32), (user, item)), shape=(n_users, n_items)
    )
    start = starting(user, item, r, rank)
    ours, alone, theirs = [], [], []
    for _ in range(runs):
        whole, train, coef = tusk(con, rank, iterations)
        other, x, y = peer(confidence, rank, iterations, start)
        ours.append(whole), alone.append(train), theirs.append(other)
    mine = objective(user, item, r, coef[:n_users], coef[n_users:])
    its = objective(user, item, r, x, y)
    print(
        f"| {n_users:,} x {n_items:,}, {len(r):,} pairs | {rank} | {median(ours):.3f} "
        f"| {median(alone):.3f} | {median(theirs):.3f} | {median(theirs) / median(ours):.2f} "
        f"| {median(theirs) / median(alone):.2f} | {mine:.7f} | {its:.7f} |",
        flush=True,
    )


def main() -> None:
    """The table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    args = parser.parse_args()
    print(
        "| plays | rank | tuskml in SQL, s | training alone, s | implicit, s | x | x alone ",
        end="",
    )
    print("| objective of tuskml | of implicit |\n|---|---|---|---|---|---|---|---|---|")
    for n_users, n_items, n, rank in SHAPES:
        compare((n_users, n_items, int(n * args.scale), rank), args.runs, args.iterations)


if __name__ == "__main__":
    main()
