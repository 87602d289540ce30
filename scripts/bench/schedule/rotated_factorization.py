"""Matrix factorization by many workers: blocks that rotate, and bulk-synchronous updates.

Workers are simulated. With bulk-synchronous parallel updates (BSP) each worker trains its share of
the ratings on a copy of all vectors, and after each clock the sums of their changes are added.
Blocks that rotate share no vector, so they have the step and the result of one worker. Both get
the same ratings, step, penalty and rank. The objective is the mean of half the squared error and
of l2/2 times the squares of the two vectors.

python scripts/bench/schedule/rotated_factorization.py
"""

from __future__ import annotations

import json
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

import tuskml

N_USERS, N_ITEMS, N, RANK, EPOCHS, CLOCKS = 2_000, 1_000, 100_000, 10, 10, 4
L2, STEPS, WORKERS = 0.05, (0.02, 0.05, 0.1), (1, 4, 8, 32)
Array = NDArray[Any]


def ratings() -> tuple[Array, Array, Array]:
    """Pairs, some users and items far more often than others, and standardised ratings."""
    rng = np.random.default_rng(0)
    user = (rng.random(N) ** 1.7 * N_USERS).astype(np.int64)
    item = (rng.random(N) ** 2.5 * N_ITEMS).astype(np.int64)
    p, q = rng.normal(size=(N_USERS, 5)), rng.normal(size=(N_ITEMS, 5))
    y = np.einsum("nk,nk->n", p[user], q[item]) + rng.normal(size=N)
    return user, item, (y - y.mean()) / y.std()


@numba.njit  # type: ignore[untyped-decorator]
def share(user: Array, item: Array, y: Array, p: Array, q: Array, step: float, l2: float) -> None:
    """Steps for some ratings, one after the other."""
    for k in range(len(y)):
        u, i = user[k], item[k]
        e = y[k] - (p[u] * q[i]).sum()
        for f in range(p.shape[1]):
            a, b = p[u, f], q[i, f]
            p[u, f] += step * (e * b - l2 * a)
            q[i, f] += step * (e * a - l2 * b)


def objective(user: Array, item: Array, y: Array, p: Array, q: Array) -> float:
    """The mean over ratings."""
    e = y - np.einsum("nk,nk->n", p[user], q[item])
    squares = (p[user] ** 2).sum(axis=1) + (q[item] ** 2).sum(axis=1)
    return float(np.mean(e * e / 2 + L2 / 2 * squares))


def bulk_synchronous(data: tuple[Array, Array, Array], workers: int, step: float) -> float:
    """The objective after all epochs; infinite where the vectors are no numbers any more."""
    rng = np.random.default_rng(1)
    spread = np.sqrt(0.03 / RANK)
    p, q = (rng.uniform(-spread, spread, (n, RANK)) for n in (N_USERS, N_ITEMS))
    for epoch in range(EPOCHS):
        eta = step * (1 - epoch / EPOCHS)
        for clock in np.array_split(rng.permutation(N), CLOCKS):
            changes_p, changes_q = np.zeros_like(p), np.zeros_like(q)
            for mine in np.array_split(clock, workers):
                own_p, own_q = p.copy(), q.copy()
                share(*(one[mine] for one in data), own_p, own_q, eta, L2)
                changes_p += own_p - p
                changes_q += own_q - q
            p, q = p + changes_p, q + changes_q
            if not np.isfinite(q).all() or np.abs(q).max() > 1e6:
                return float("inf")
    return objective(*data, p, q)


def rotated(con: Any, workers: int, step: float) -> tuple[float, bytes]:
    """The objective of tuskml with that many threads, and the bits of its vectors."""
    options = {
        "scheduler": "rotation", "rank": RANK, "biases": False, "l2": L2, "step": step,
        "max_iter": EPOCHS, "threads": workers,
    }  # fmt: skip
    call = f"train_model('matrix_factorization', y, [u, i], '{json.dumps(options)}')"
    ((model,),) = con.execute(f"SELECT {call} FROM data").fetchall()
    return model["loss"], np.array(model["coef"]).tobytes()


def main() -> None:
    """The table in Markdown."""
    data = ratings()
    con = tuskml.connect()
    user, item, y = data
    con.register("given", {"u": user.astype(float), "i": item.astype(float), "y": y})
    con.execute("CREATE TABLE data AS SELECT * FROM given")
    print("| step | workers | rotation | same bits as one | BSP |\n|---|---|---|---|---|")
    for step in STEPS:
        _, bits = rotated(con, 1, step)
        for workers in WORKERS:
            loss, found = rotated(con, workers, step)
            bulk = bulk_synchronous(data, workers, step)
            shown = f"{bulk:.4f}" if np.isfinite(bulk) else "diverges"
            print(f"| {step} | {workers} | {loss:.4f} | {found == bits} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
