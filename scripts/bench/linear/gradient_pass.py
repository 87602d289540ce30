"""One pass of the dense logistic gradient: d = 28 and d = 100, float32, the same number of bytes.

Measured: bytes a second of tuskml's native kernel, called from Python on rows that already lie in
memory.
Against: a bare float32 sum over the same bytes (numba, fastmath, vectorised), one thread and two.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import data
import goals
import harness
import numpy as np
import tusk
from contender import Benchmark, Contender, Outcome, Run, Settings
from data import Floats
from numpy.typing import NDArray
from rowblock import one_segment

BYTES = 2_000_000 * 28 * 4
PASSES = 20
DIMS = {28: 0.35, 100: 0.6}
Pass = Callable[[Floats, NDArray[np.uint8], Floats, int], float]


def tuskml_pass(X: Floats, y: NDArray[np.uint8], w: Floats, threads: int) -> float:
    """Seconds of one gradient pass of tuskml's kernel."""
    from tuskml.kernels.passes import Pass as Rows
    from tuskml.kernels.passes import cancel_count

    group, memory = one_segment(X, y)
    rows = Rows(group, 1, np.ones(1), None, True, threads, cancel_mark=cancel_count())
    weights = np.append(w, 0.0)[None, :].astype(float)
    rows.gradient(weights)
    start = time.perf_counter()
    for _ in range(PASSES):
        rows.gradient(weights)
    seconds = (time.perf_counter() - start) / PASSES
    del memory
    return seconds


def bare_sum(X: Floats, y: NDArray[np.uint8], w: Floats, threads: int) -> float:
    """Seconds of one float32 sum over the bytes of X, a slice a thread."""
    import numba

    @numba.njit(fastmath=True, nogil=True)
    def total(values: Floats, passes: int) -> float:
        result = np.float32(0)
        for _ in range(passes):
            for i in range(values.size):
                result += values[i]
        return result

    slices = np.array_split(X.reshape(-1), threads)
    total(slices[0][:16], 1)  # compiles
    workers = [threading.Thread(target=total, args=(part, PASSES)) for part in slices]
    start = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return (time.perf_counter() - start) / PASSES


def passes(kernel: Pass, dim: int, threads: int, settings: Settings) -> Run:
    """A contender: the kernel on random rows of one width."""
    X, y = data.dense_rows(settings.rows(BYTES // (4 * dim)), dim)
    w = data.dense_truth(dim)[0]
    labels = y.astype(np.uint8)

    def run() -> Outcome:
        seconds = kernel(X, labels, w, threads)
        return Outcome(seconds, seconds, lambda: {"GB/s": X.nbytes / seconds / 1e9})

    return run


def _name(system: str, dim: int, threads: int) -> str:
    return f"{system}, d={dim}, {threads} thread{'s' if threads > 1 else ''}"


def benchmark(settings: Settings) -> Benchmark:
    """The third row of the table of figures."""
    contenders, wanted = [], []
    for dim, share in DIMS.items():
        for threads in (1, 2):
            contenders.append(
                Contender(
                    _name("tuskml", dim, threads),
                    partial(passes, tuskml_pass, dim, threads),
                    tusk.NEEDS,
                )
            )
            contenders.append(
                Contender(
                    _name("bare sum", dim, threads),
                    partial(passes, bare_sum, dim, threads),
                    ("numba",),
                )
            )
        one, two = (_name("tuskml", dim, threads) for threads in (1, 2))
        wanted.append(goals.faster_than(_name("bare sum", dim, 1), share, of=one))
        wanted.append(goals.faster_than(one, 1.8, of=two))
    return Benchmark(
        name="gradient_pass",
        title="One pass of the logistic gradient against a bare sum over the same bytes",
        contenders=tuple(contenders),
        goals=tuple(wanted),
        notes=("Rows lie in memory; the ratio to the bare sum is the share of its bandwidth.",),
    )


if __name__ == "__main__":
    harness.main(benchmark)
