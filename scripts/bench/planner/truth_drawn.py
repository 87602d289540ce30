"""Sets of drawn sizes, for halves that have generators of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from truth_data import Rows, Set

MOST_VALUES = 2_500_000
"""Values of a generated dense set, at most."""


def drawn(
    seed: int,
    dense: int,
    sparse: int,
    generators: Sequence[Callable[[int, int, int], Rows]],
    of_entries: Callable[[int, int, int, int], Rows],
) -> list[Set]:
    """A number of dense sets, of each generator in turn, and sparse ones.

    generators: take a seed, rows and features; of_entries: takes the entries per row too.
    """
    rng = np.random.default_rng(seed)
    found = []
    for number in range(dense):
        make = generators[number % len(generators)]
        d = int(np.exp(rng.uniform(np.log(12), np.log(400))))
        n = int(np.exp(rng.uniform(np.log(2000), np.log(60_000))))
        n = min(n, MOST_VALUES // d)
        l2 = float(rng.choice([0.0, 1e-5, 1e-3]))
        args = (seed + number, n, d)
        name = f"{make.__name__}-{n}x{d}"
        found.append(Set(name, lambda make=make, args=args: make(*args), l2))
    for number in range(sparse):
        d = int(np.exp(rng.uniform(np.log(300), np.log(20_000))))
        n = int(np.exp(rng.uniform(np.log(3000), np.log(40_000))))
        given = (seed + 100 + number, n, d, int(rng.integers(4, 20)))
        l2 = float(rng.choice([1e-5, 1e-4]))
        name = f"{of_entries.__name__}-{n}x{d}x{given[3]}"
        found.append(Set(name, lambda given=given: of_entries(*given), l2))
    return found
