"""Bayesian personalised ranking compared with implicit's: seconds, and the area under the curve.

Equal epochs, step, penalty and rank, two threads. A tenth of the pairs is held out; the area is
computed by NumPy for a sample of users, of the held-out items against those without feedback.

python scripts/bench/factorization/implicit_bpr.py [--runs 3] [--epochs 30]
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse
from implicit.bpr import BayesianPersonalizedRanking
from numpy.typing import NDArray
from scipy.stats import rankdata

import tuskml

N_USERS, N_ITEMS, TRUE_RANK, RANK, THREADS = 6_040, 3_706, 8, 32, 2
STEP, L2, USERS_JUDGED = 0.05, 0.01, 1_000
Floats = NDArray[np.floating[Any]]
Mask = NDArray[np.bool_]


def likes() -> tuple[Mask, Mask]:
    """Pairs to train on and pairs held out, by taste and popularity: about a million."""
    rng = np.random.default_rng(0)
    taste = rng.normal(size=(N_USERS, TRUE_RANK)) @ rng.normal(size=(TRUE_RANK, N_ITEMS))
    score = taste / np.sqrt(TRUE_RANK) + rng.normal(0, 0.8, N_ITEMS)
    liked = rng.random(score.shape) < 1 / (1 + np.exp(5 - 1.5 * score))
    held = liked & (rng.random(score.shape) < 0.1)
    return liked & ~held, held


def area(train: Mask, held: Mask, score: Floats) -> float:
    """The mean over users of the area under the curve."""
    found = []
    for u in range(USERS_JUDGED):
        hit, ranks = held[u][~train[u]], rankdata(score[u][~train[u]])
        n, m = hit.sum(), (~hit).sum()
        if n:
            found.append((ranks[hit].sum() - n * (n + 1) / 2) / (n * m))
    return float(np.mean(found))


def tusk(con: Any, epochs: int) -> tuple[float, Floats]:
    """Seconds in SQL, and the scores of the users judged."""
    options = {
        "feedback": "implicit",
        "loss": "bpr",
        "rank": RANK,
        "max_iter": epochs,
        "step": STEP,
        "schedule": "constant",
        "l2": L2,
        "threads": THREADS,
    }
    start = time.perf_counter()
    call = f"train_model('matrix_factorization', 1, [u, i], '{json.dumps(options)}')"
    con.execute(f"CREATE OR REPLACE TABLE m AS SELECT {call} AS m FROM plays")
    seconds = time.perf_counter() - start
    ((coef,),) = con.execute("SELECT m.coef FROM m").fetchall()
    x, y = np.split(np.array(coef).reshape(-1, RANK + 1), [N_USERS])
    return seconds, y[:, 0] + x[:USERS_JUDGED, 1:] @ y[:, 1:].T


def peer(rows: Any, epochs: int) -> tuple[float, Floats]:
    """Trains by implicit, which draws no items of the user's own either."""
    model = BayesianPersonalizedRanking(
        factors=RANK,
        learning_rate=STEP,
        regularization=L2,
        iterations=epochs,
        use_gpu=False,
        num_threads=THREADS,
        verify_negative_samples=True,
        random_state=1,
    )
    start = time.perf_counter()
    model.fit(rows, show_progress=False)
    seconds = time.perf_counter() - start
    return seconds, model.user_factors[:USERS_JUDGED] @ model.item_factors.T


def main() -> None:
    """The table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    args = parser.parse_args()
    train, held = likes()
    user, item = np.nonzero(train)
    rows = scipy.sparse.csr_matrix(train.astype(np.float32))
    con = tuskml.connect()
    con.execute(f"SET threads = {THREADS}")
    con.register("given", {"u": user.astype(float), "i": item.astype(float)})
    con.execute("CREATE TABLE plays AS SELECT * FROM given")
    ours, theirs = [], []
    for _ in range(args.runs):
        seconds, mine = tusk(con, args.epochs)
        other, its = peer(rows, args.epochs)
        ours.append(seconds), theirs.append(other)
    popular = np.tile(train.sum(axis=0), (USERS_JUDGED, 1)).astype(float)
    print(f"{len(user):,} pairs, rank {RANK}, {args.epochs} epochs\n")
    print("| contender | median s | AUC of held-out items |\n|---|---|---|")
    print(f"| tuskml in SQL | {median(ours):.3f} | {area(train, held, mine):.4f} |")
    print(f"| implicit | {median(theirs):.3f} | {area(train, held, its):.4f} |")
    print(f"| by popularity | | {area(train, held, popular):.4f} |")


if __name__ == "__main__":
    main()
