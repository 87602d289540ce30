"""The benchmark `factorization` at rank 100."""

from __future__ import annotations

import harness
from contender import Benchmark, Settings
from factorization import CMFREC, IMPLICIT, LIBMF, NUMBA, NUMBA_LINEAR, TARGET, of_rank


def benchmark(settings: Settings) -> Benchmark:
    """The second of two ranks."""
    epochs = {LIBMF: 8, CMFREC: 6, IMPLICIT: 5, NUMBA: 9, NUMBA_LINEAR: 5}
    return of_rank(100, "factorization_100", TARGET, epochs)


if __name__ == "__main__":
    harness.main(benchmark)
