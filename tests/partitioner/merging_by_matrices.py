"""Algorithm 3 of Qin, Torres, Rusu (VLDB 2017) as its listing has it, in whole numbers."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Rows = list[set[int]]


def partitions_of(rows: Rows, n_features: int, seek: int, unit: int):
    """Yields (first, second, together, rows of both, saved) of each merge, then the partitions."""
    parts = {k: {k} for k in range(n_features)}
    steps = []
    while True:
        best = max(
            combinations(sorted(parts), 2),
            key=lambda pair: (reduction(rows, parts, *pair, seek, unit), -pair[0], -pair[1]),
            default=None,
        )
        if best is None or (saved := reduction(rows, parts, *best, seek, unit)) <= 0:
            return steps, parts
        i, j = best
        together = affinity(rows, parts[i], parts[j])
        parts[i] |= parts.pop(j)
        steps.append((i, j, together, affinity(rows, parts[i], parts[i]), saved))


def affinity(rows: Rows, one: set[int], other: set[int]) -> int:
    """AF[i][j]: rows that access both partitions."""
    return sum(bool(row & one) and bool(row & other) for row in rows)


def cost(rows: Rows, part: set[int], seek: int, unit: int) -> int:
    """C_i, in whole numbers."""
    return affinity(rows, part, part) * (seek + len(part) * unit)


def reduction(rows: Rows, parts: dict[int, set[int]], i: int, j: int, seek: int, unit: int) -> int:
    """Delta_ij of line 12."""
    merged = cost(rows, parts[i] | parts[j], seek, unit)
    return cost(rows, parts[i], seek, unit) + cost(rows, parts[j], seek, unit) - merged


def steps_by_matrices(
    accessed: NDArray[np.int64], seek: int, unit: int
) -> list[tuple[int, int, int]]:
    """(first, second, saved) of each merge, as the listing's affinity matrix has them.

    accessed: 1 where row r accesses feature k, shape (rows, features).
    """
    n = accessed.shape[1]
    parts, sizes, steps = accessed.T.copy(), np.ones(n, np.int64), []
    while True:
        together = parts @ parts.T
        own = np.diag(together) * (seek + sizes * unit)
        either = np.diag(together)[:, None] + np.diag(together) - together
        saved = own[:, None] + own - either * (seek + (sizes[:, None] + sizes) * unit)
        saved[np.tril_indices(n)] = 0
        i, j = np.unravel_index(np.argmax(saved), (n, n))  # the first of equal ones
        if saved[i, j] <= 0:
            return steps
        steps.append((int(i), int(j), int(saved[i, j])))
        parts[i] |= parts[j]
        parts[j], sizes[i], sizes[j] = 0, sizes[i] + sizes[j], 0
