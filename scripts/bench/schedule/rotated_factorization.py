"""Matrix factorization by many workers: blocks that rotate, and bulk-synchronous updates.

Workers are simulated. With bulk-synchronous parallel updates (BSP) each worker trains its share of
the ratings on a copy of all vectors, and after each clock the sums of their changes are added.
Blocks that rotate share no vector, so they have the step and the result of one worker. Both get
the same ratings, step, penalty and rank. The objective is the mean of half the squared error and
of l2/2 times the squares of the two vectors.

python scripts/bench/schedule/rotated_factorization.py [--picture FILE]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
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


def bulk_synchronous(data: tuple[Array, Array, Array], workers: int, step: float) -> list[float]:
    """The objective after each epoch; infinite at last where vectors are no numbers any more."""
    rng = np.random.default_rng(1)
    spread = np.sqrt(0.03 / RANK)
    p, q = (rng.uniform(-spread, spread, (n, RANK)) for n in (N_USERS, N_ITEMS))
    found = [objective(*data, p, q)]
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
                return [*found, float("inf")]
        found.append(objective(*data, p, q))
    return found


def rotated(con: Any, workers: int, step: float) -> tuple[list[float], bytes]:
    """The objectives of tuskml with that many threads, and the bits of its vectors.

    Those before the last one are sums over an epoch, whose vectors change meanwhile.
    """
    options = {
        "algorithm": "sgd",
        "rank": RANK,
        "biases": False,
        "l2": L2,
        "step": step,
        "max_iter": EPOCHS,
        "threads": workers,
    }
    call = f"train_model('matrix_factorization', y, [u, i], '{json.dumps(options)}')"
    ((model,),) = con.execute(f"SELECT {call} FROM data").fetchall()
    return [*model["history"], model["loss"]], np.array(model["coef"]).tobytes()


def draw(traces: dict[tuple[float, str, int], list[float]], path: Path) -> None:
    """The objective by epoch, one part per step."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, parts = plt.subplots(1, len(STEPS), figsize=(3.6 * len(STEPS), 3.4), sharey=True)
    colors = {workers: f"C{place}" for place, workers in enumerate(WORKERS)}
    for part, step in zip(parts, STEPS, strict=True):
        for (of, kind, workers), trace in traces.items():
            if of != step or (kind == "rotation" and workers != WORKERS[-1]):
                continue
            shown = [min(one, 1e3) for one in trace]
            how = (
                {"color": "black", "lw": 2}
                if kind == "rotation"
                else {"color": colors[workers], "ls": "--"}
            )
            part.plot(range(len(shown)), shown, label=f"{kind}, {workers} workers", **how)
        part.set(yscale="log", ylim=(0.1, 50), title=f"step {step}", xlabel="epoch")
    parts[0].set_ylabel("objective")
    parts[-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    """The table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="where the objectives by epoch are drawn")
    args = parser.parse_args()
    traces: dict[tuple[float, str, int], list[float]] = {}
    data = ratings()
    con = tuskml.connect()
    user, item, y = data
    con.register("given", {"u": user.astype(float), "i": item.astype(float), "y": y})
    con.execute("CREATE TABLE data AS SELECT * FROM given")
    print("| step | workers | rotation | same bits as one | BSP |\n|---|---|---|---|---|")
    for step in STEPS:
        _, bits = rotated(con, 1, step)
        for workers in WORKERS:
            history, found = rotated(con, workers, step)
            bulk = bulk_synchronous(data, workers, step)
            traces[step, "rotation", workers], traces[step, "BSP", workers] = history, bulk
            shown = f"{bulk[-1]:.4f}" if np.isfinite(bulk[-1]) else "diverges"
            row = f"| {step} | {workers} | {history[-1]:.4f} | {found == bits} | {shown} |"
            print(row, flush=True)
    if args.picture is not None:
        draw(traces, args.picture)


if __name__ == "__main__":
    main()
