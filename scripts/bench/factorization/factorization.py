"""Matrix factorization of 1M ratings, 6,040 users x 3,706 films, to the same held-out RMSE.

Measured: from a DuckDB table to a table with the model, and the training alone, which is what the
peers do, whose ratings lie in NumPy. Every system gets the fewest epochs, and the step and penalty
for them, with which its RMSE on a tenth of the ratings falls below the target; all were searched
by hand on a grid of both.
Against: libmf, cmfrec (ALS), a plain biased SGD in numba on one thread with a constant step; for
comparison the same SGD with our schedule, and implicit, whose ALS has another objective (how much
an item is wanted) and cannot reach the target.
"""

from __future__ import annotations

import ctypes
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import goals
import harness
import numpy as np
import ratings
import tusk
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from ratings import Ratings

RANK = 20
TARGET = 0.808
EPOCHS = 4
OPTIONS = {"max_iter": EPOCHS, "step": 0.1, "l2": 0.03}
START = 0.03
LIBMF_BEST = {20: (0.1, 0.04), 100: (0.08, 0.05)}
"""Step and penalty at each rank."""

LIBMF = "libmf"
CMFREC = "cmfrec ALS"
IMPLICIT = "implicit ALS, another objective"
NUMBA = "numba biased SGD, 1 thread"
NUMBA_LINEAR = "numba biased SGD, our schedule"
PEERS = (LIBMF, CMFREC, NUMBA)
Vectors = dict[str, Any]


def tuskml(settings: Settings, rank: int) -> Run:
    """A run of train_model with a fixed number of epochs, first step and penalty."""
    con = tusk.connect(ratings.synthetic(settings), settings)
    options = json.dumps(OPTIONS | {"rank": rank})
    call = f"train_model('matrix_factorization', rating, [u, i], '{options}')"
    sql = f"CREATE OR REPLACE TABLE models AS SELECT {call} AS m FROM data.train"

    def quality() -> dict[str, float | str]:
        (model,) = con.execute("SELECT m FROM models").fetchall()[0]
        n_users, n_items, width = map(int, model["classes"])
        coef = np.array(model["coef"]).reshape(n_users + n_items, width)
        vectors = {
            "mean": model["intercept"],
            "user_bias": coef[:n_users, 0],
            "item_bias": coef[n_users:, 0],
            "p": coef[:n_users, 1:],
            "q": coef[n_users:, 1:],
        }
        return checked(ratings.arrays(settings, "test"), vectors, model["iterations"])

    def run() -> Outcome:
        start = time.perf_counter()
        con.execute(sql)
        seconds = time.perf_counter() - start
        alone = con.execute("SELECT m.seconds FROM models").fetchall()[0][0]
        return Outcome(seconds, alone, quality)

    return run


def checked(test: Ratings, found: Vectors, epochs: int) -> dict[str, float | str]:
    """RMSE on the ratings held out, of vectors that may lack the last users or items."""
    known = (test.user < len(found["p"])) & (test.item < len(found["q"]))
    user, item = test.user[known], test.item[known]
    margin = np.full(len(test.rating), float(found["mean"]))
    margin[known] += np.einsum("nk,nk->n", found["p"][user], found["q"][item])
    if found.get("user_bias") is not None:
        margin[known] += found["user_bias"][user] + found["item_bias"][item]
    return {"rmse": float(np.sqrt(np.mean((margin - test.rating) ** 2))), "epochs": str(epochs)}


def peer(train: Callable[[Ratings, int], Vectors], epochs: int, settings: Settings) -> Run:
    """Times a training from arrays to vectors."""
    rows, test = (ratings.arrays(settings, part) for part in ("train", "test"))

    def run() -> Outcome:
        start = time.perf_counter()
        found = train(rows, epochs)
        seconds = time.perf_counter() - start
        return Outcome(seconds, seconds, lambda: checked(test, found, epochs))

    return run


def numba_sgd(settings: Settings, rank: int, epochs: int, linear: bool) -> Run:
    """A run with rows shuffled once, float32, factors one after the other: what a person would
    write.
    """
    from plain_sgd import epoch

    def train(rows: Ratings, n: int) -> Vectors:
        rng = np.random.default_rng(0)
        order = rng.permutation(len(rows.rating))
        user, item = rows.user[order], rows.item[order]
        rating = rows.rating[order].astype(np.float32)
        mean = np.float32(rating.mean())
        spread = np.float32(np.sqrt(START / rank))
        p = spread * rng.uniform(-1, 1, (user.max() + 1, rank)).astype(np.float32)
        q = spread * rng.uniform(-1, 1, (item.max() + 1, rank)).astype(np.float32)
        user_bias, item_bias = (np.zeros(len(v), np.float32) for v in (p, q))
        for k in range(n):
            step = np.float32(0.08 * (1 - k / n) if linear else 0.025)
            epoch(user, item, rating, user_bias, item_bias, p, q, mean, step, np.float32(0.03))
        return {"mean": mean, "p": p, "q": q, "user_bias": user_bias, "item_bias": item_bias}

    train(ratings.arrays(settings, "test"), 1)  # compiles
    return peer(train, epochs, settings)


@contextmanager
def silent() -> Iterator[None]:
    """Discards a library's writes to standard output."""
    before, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)
        os.close(nowhere)


def libmf(settings: Settings, rank: int, epochs: int) -> Run:
    """A run of libmf, whose vectors are used without biases: its own `predict` gives other
    numbers.
    """
    with silent():
        from libmf import mf

    step, l2 = LIBMF_BEST[rank]

    def train(rows: Ratings, n: int) -> Vectors:
        triples = np.stack([rows.user, rows.item, rows.rating], 1).astype(np.float32)
        options = {"lambda_p1": 0.0, "lambda_q1": 0.0, "lambda_p2": l2, "lambda_q2": l2}
        threads = {"nr_threads": settings.threads, "nr_bins": 20, "nr_iters": n}
        engine = mf.MF(k=rank, eta=step, quiet=True, **threads, **options)
        with silent():
            engine.fit(triples)
        model = engine.model
        p, q = (
            np.ctypeslib.as_array(ctypes.cast(at, ctypes.POINTER(ctypes.c_float)), (m, model.k))
            for at, m in ((model.P, model.m), (model.Q, model.n))
        )
        return {"mean": 0.0, "p": np.nan_to_num(p), "q": np.nan_to_num(q)}

    return peer(train, epochs, settings)


def cmfrec(settings: Settings, rank: int, epochs: int) -> Run:
    """ALS with biases, by conjugate gradients, its penalty by occurrence as ours."""
    import pandas as pd
    from cmfrec import CMF

    def train(rows: Ratings, n: int) -> Vectors:
        frame = pd.DataFrame({"UserId": rows.user, "ItemId": rows.item, "Rating": rows.rating})
        model = CMF(
            k=rank,
            niter=n,
            lambda_=0.06,
            scale_lam=True,
            method="als",
            use_cg=True,
            finalize_chol=False,
            use_float=True,
            verbose=False,
            nthreads=settings.threads,
            precompute_for_predictions=False,
        ).fit(frame)
        users, items = np.argsort(model.user_mapping_), np.argsort(model.item_mapping_)
        return {
            "mean": model.glob_mean_,
            "p": model.A_[users],
            "q": model.B_[items],
            "user_bias": model.user_bias_[users],
            "item_bias": model.item_bias_[items],
        }

    return peer(train, epochs, settings)


def implicit(settings: Settings, rank: int, epochs: int) -> Run:
    """A run of implicit, with its own objective, for the time of an epoch."""
    from implicit.als import AlternatingLeastSquares
    from scipy.sparse import csr_matrix

    def train(rows: Ratings, n: int) -> Vectors:
        matrix = csr_matrix((rows.rating.astype(np.float32), (rows.user, rows.item)))
        model = AlternatingLeastSquares(
            rank, iterations=n, num_threads=settings.threads, random_state=0
        )
        model.fit(matrix, show_progress=False)
        return {"mean": 0.0, "p": model.user_factors, "q": model.item_factors}

    return peer(train, epochs, settings)


def of_rank(rank: int, name: str, target: float, epochs: dict[str, int]) -> Benchmark:
    """The comparison at one rank; epochs of each peer."""
    made = {
        TUSKML: (partial(tuskml, rank=rank), tusk.NEEDS),
        LIBMF: (partial(libmf, rank=rank, epochs=epochs[LIBMF]), ("libmf",)),
        CMFREC: (partial(cmfrec, rank=rank, epochs=epochs[CMFREC]), ("cmfrec",)),
        IMPLICIT: (partial(implicit, rank=rank, epochs=epochs[IMPLICIT]), ("implicit",)),
        NUMBA: (partial(numba_sgd, rank=rank, epochs=epochs[NUMBA], linear=False), ("numba",)),
        NUMBA_LINEAR: (
            partial(numba_sgd, rank=rank, epochs=epochs[NUMBA_LINEAR], linear=True),
            ("numba",),
        ),
    }
    return Benchmark(
        name=name,
        title=f"Matrix factorization, 1M ratings (6,040 x 3,706), rank {rank}, to RMSE {target}",
        contenders=tuple(Contender(one, *parts) for one, parts in made.items()),
        goals=(
            goals.faster_than(PEERS, 1.5, alone=True, quality="rmse", worst=target),
            goals.faster_than(PEERS, 1.5, quality="rmse", worst=target),
            goals.faster_than(NUMBA_LINEAR, 1.0, alone=True, quality="rmse", worst=target),
            goals.quality_at_most("rmse", target),
        ),
        prepare=ratings.synthetic,
    )


def benchmark(settings: Settings) -> Benchmark:
    """The first of two ranks."""
    epochs = {LIBMF: 10, CMFREC: 5, IMPLICIT: 5, NUMBA: 9, NUMBA_LINEAR: 5}
    return of_rank(RANK, "factorization", TARGET, epochs)


if __name__ == "__main__":
    harness.main(benchmark)
