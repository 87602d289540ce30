"""Sparse logistic regression by SGD: 200k rows, a million features, about 100 non-zeros a row,
five epochs, no penalty.

Measured: from DuckDB lists to a model, and the training alone; log-loss on the training rows and
on rows held out.
Against: scikit-learn SGDClassifier on CSR, loaded from the same table; a HOGWILD! loop in numba on
two threads (float32, one shared weight vector, no locks) on arrays that already lie in memory.
Both with constant steps, the size of which was chosen for the log-loss after five epochs.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import data
import goals
import harness
import numpy as np
import quality
import tusk
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from load import csr_arrays, open_plain

EPOCHS = 5
STEP = 1.0
SKLEARN = "scikit-learn SGDClassifier on CSR, with load"
NUMBA = "numba HOGWILD!, 2 threads, no load"


def tuskml(settings: Settings) -> Run:
    """train_model with algorithm hogwild."""
    con = tusk.connect(data.sparse(settings), settings)
    options = {
        "algorithm": "hogwild",
        "max_iter": EPOCHS,
        "epsilon": 0,
        "step": STEP,
        "schedule": "constant",
        "threads": settings.threads,
    }
    sql = tusk.train_sql("sparse(ids, vals)", options, "data.sparse")

    def run() -> Outcome:
        """Converts to arrays: a list of a million Python floats takes half as long as the
        training.
        """
        start = time.perf_counter()
        model = con.sql(sql).to_arrow_table().column("m").combine_chunks()
        coef = model.field("coef").flatten().to_numpy()
        seconds = time.perf_counter() - start
        facts = {key: model.field(key)[0].as_py() for key in ("iterations", "status")}
        return Outcome(
            seconds,
            model.field("seconds")[0].as_py(),
            lambda: _quality(coef, model.field("intercept")[0].as_py(), settings) | facts,
        )

    return run


def sklearn_csr(settings: Settings) -> Run:
    """The Arrow buffers are the CSR matrix; SGDClassifier reads float32 as it is."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import SGDClassifier

    con = open_plain(data.sparse(settings), settings)

    def run() -> Outcome:
        start = time.perf_counter()
        offsets, ids, vals, y = csr_arrays(con, "sparse")
        X = csr_matrix((vals, ids, offsets), shape=(len(y), data.SPARSE_DIM))
        loaded = time.perf_counter()
        options = {"penalty": None, "learning_rate": "constant", "eta0": STEP, "random_state": 0}
        model = SGDClassifier(loss="log_loss", max_iter=EPOCHS, tol=None, **options).fit(X, y)
        end = time.perf_counter()
        return Outcome(
            end - start, end - loaded, lambda: _quality(model.coef_, model.intercept_[0], settings)
        )

    return run


def numba_hogwild(settings: Settings) -> Run:
    """A run of threads that walk their halves of the rows in order (the rows are independent
    draws; a random order takes twice as long and ends no better) and write the shared weights
    without locks.
    """
    offsets, ids, vals, y = csr_arrays(open_plain(data.sparse(settings), settings), "sparse")
    signs = np.where(y > 0, 1, -1).astype(np.float32)
    rows_of = np.array_split(np.arange(len(y), dtype=np.int32), settings.threads)
    epochs = _hogwild_loop()
    epochs(
        offsets,
        ids,
        vals,
        signs,
        rows_of[0][:1],
        np.zeros(data.SPARSE_DIM + 1, np.float32),
        0.0,
        1,
    )  # compiles

    def run() -> Outcome:
        w = np.zeros(data.SPARSE_DIM + 1, np.float32)
        arguments = [(offsets, ids, vals, signs, rows, w, STEP, EPOCHS) for rows in rows_of]
        workers = [threading.Thread(target=epochs, args=one) for one in arguments]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds = time.perf_counter() - start
        return Outcome(seconds, seconds, lambda: _quality(w[:-1], float(w[-1]), settings))

    return run


def _hogwild_loop() -> Any:
    import numba

    @numba.njit(nogil=True, fastmath=True)
    def epochs(offsets, ids, vals, signs, rows, w, step, count):  # type: ignore[no-untyped-def]
        for _ in range(count):
            for row in rows:
                first, last = offsets[row], offsets[row + 1]
                margin = w[-1]
                for k in range(first, last):
                    margin += vals[k] * w[ids[k]]
                scale = np.float32(step * signs[row] / (1 + np.exp(signs[row] * margin)))
                for k in range(first, last):
                    w[ids[k]] += scale * vals[k]
                w[-1] += np.float32(0.01) * scale  # as SGDClassifier does for sparse data

    return epochs


def _quality(coef: Any, intercept: float, settings: Settings) -> dict[str, float | str]:
    con = open_plain(data.sparse(settings), settings)
    tables = {"log-loss": "sparse", "held-out log-loss": "sparse_test"}
    return {
        key: quality.sparse_log_loss(*csr_arrays(con, table), coef, intercept)
        for key, table in tables.items()
    }


def benchmark(settings: Settings) -> Benchmark:
    """The sixth row of the table of figures."""
    return Benchmark(
        name="sparse_sgd",
        title="Sparse logistic regression, 200k x 1M, ~100 non-zeros a row, 5 epochs",
        contenders=(
            Contender(TUSKML, tuskml, tusk.NEEDS),
            Contender(SKLEARN, sklearn_csr, ("sklearn", "scipy")),
            Contender(NUMBA, numba_hogwild, ("numba",)),
        ),
        goals=(
            goals.faster_than(SKLEARN, 2.5),
            goals.faster_than(NUMBA, 1.2, alone=True),
            goals.quality_no_worse("log-loss", [SKLEARN, NUMBA], 0.01),
        ),
        prepare=data.sparse,
    )


if __name__ == "__main__":
    harness.main(benchmark)
