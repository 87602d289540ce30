"""Placement of groups' rows on workers, and the order in which threads begin groups.

Learning over groups (S. Li, A. Kumar, Towards an optimized GROUP BY abstraction for large-scale
machine learning, "Kingpin"). Minimise the makespan of an epoch of all configurations of all
groups, where a worker trains one configuration at a time, and a configuration is trained by one
worker at a time. The times are proportional to rows, so the makespan is counted in rows of one
configuration.

Source: section 4.4, equation 2 and algorithm 1, and section 4.7, algorithm 2, of the paper.
"""

import heapq
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Sizes = NDArray[np.int64]
WHOLE = 10
SHARD = np.dtype([("group", "i8"), ("worker", "i8"), ("first", "i8"), ("last", "i8")])
"""Rows [first, last) of a group, counted within the group."""


def least_makespan(sizes: Sizes, workers: int) -> int:
    """C*, in rows: no schedule can be shorter (equation 2).

    sizes: rows of each group, (G,). A group is trained by one worker at a time, so its own rows
    are a bound as well as the mean over the workers. Raises ValueError without a worker.
    """
    if workers < 1:
        raise ValueError(f"there are {workers} workers, expected at least 1")
    return max(-(-int(sizes.sum()) // workers), int(sizes.max(initial=0)))


def wrap_around(sizes: Sizes, workers: int) -> NDArray[np.void]:
    """Shards (S,) of dtype SHARD, by worker and then in the order in which it trains on them.

    Algorithm 1: workers are filled one after the other up to C*; what overflows goes on to the
    next worker, a whole row at least. All workers but the last of those in use hold C* rows, and
    no group is on more than two workers.
    """
    return _in_a_row(sizes, least_makespan(sizes, workers))


def evenly(sizes: Sizes, workers: int, whole: float | None = None) -> NDArray[np.void]:
    """Shards (S,) of dtype SHARD as `wrap_around`, of groups that several workers train at a time.

    Configurations of a group, or sums over its rows, are on several workers at a time, so its own
    rows are no bound: no worker has more than the mean. As long as no group has more than that,
    the shards are those of `wrap_around`. whole: the most rows of a group that is not cut, which a
    free worker takes; by default a tenth of a worker's share.
    """
    if whole is None:
        whole = -(-int(sizes.sum()) // workers) / WHOLE
    large = np.flatnonzero(sizes > whole)
    shards = _in_a_row(sizes[large], -(-int(sizes[large].sum()) // workers))
    shards["group"] = large[shards["group"]]
    return shards


def workers_of(shards: NDArray[np.void], parts: Sizes) -> NDArray[np.int64]:
    """The worker of each part of a group, (P,): that of its middle row.

    shards: the group's, by their first row; parts: rows of each part, in their order.
    """
    middle = np.cumsum(parts) - parts / 2
    found: NDArray[np.int64] = shards["worker"][np.searchsorted(shards["last"], middle)]
    return found


def _in_a_row(sizes: Sizes, capacity: int) -> NDArray[np.void]:
    """Deals groups in order to workers in order, each with `capacity` rows."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    # All groups in a row: they are cut where a group ends and where a worker is full.
    cuts = np.union1d(ends[sizes > 0], np.arange(capacity, total, max(capacity, 1)))
    begins = np.r_[0, cuts[:-1]] if len(cuts) else cuts
    shards = np.empty(len(cuts), SHARD)
    shards["group"] = np.searchsorted(ends, begins, side="right")
    shards["worker"] = begins // max(capacity, 1)
    starts = (ends - sizes)[shards["group"]]
    shards["first"], shards["last"] = begins - starts, cuts - starts
    return shards


def constrained_wrap_around(sizes: Sizes, workers: int) -> NDArray[np.void]:
    """Shards (S,) of dtype SHARD by worker, for learners whose workers train on a group together.

    Algorithm 2: from the largest group to the smallest, a group is split into round(n_i p / n)
    equal shards, at least one, and each goes to the worker with the fewest rows.
    """
    least_makespan(sizes, workers)
    filled = [(0, worker) for worker in range(workers)]
    assignments = []
    for group in np.argsort(-sizes, kind="stable"):
        parts = min(max(1, _nearest(int(sizes[group]) * workers, int(sizes.sum()))), workers)
        for first, last in _split(int(sizes[group]), parts):
            rows, worker = heapq.heappop(filled)
            heapq.heappush(filled, (rows + last - first, worker))
            assignments.append((group, worker, first, last))
    shards = np.array(assignments, SHARD)
    by_worker: NDArray[np.void] = shards[np.argsort(shards["worker"], kind="stable")]
    return by_worker


def _nearest(part: int, whole: int) -> int:
    """Rounds part / whole to the nearest integer, halves up; 0 / 0 is 0."""
    return (2 * part + whole) // (2 * whole) if whole else 0


def _split(rows: int, shards: int) -> Iterator[tuple[int, int]]:
    """Bounds of equal shards; the first ones have one row more if the rows do not divide."""
    each, more = divmod(rows, shards)
    first = 0
    for number in range(shards):
        last = first + each + (number < more)
        if last > first:
            yield first, last
        first = last


def rows_by_worker(shards: NDArray[np.void], workers: int) -> Sizes:
    """Rows of each worker, (workers,)."""
    rows = np.zeros(workers, np.int64)
    np.add.at(rows, shards["worker"], shards["last"] - shards["first"])
    return rows


# Indices of groups (G,) from the most rows to the fewest; equal ones keep their order.
# If each thread claims the next group when it is free, a large group at the end leaves the others
# idle. In this order the makespan is at most 4/3 of the least one (R. L. Graham, Bounds on
# multiprocessing timing anomalies, SIAM J. Appl. Math. 1969).


def heaviest_first(sizes: Sizes) -> NDArray[np.intp]:
    """Places of groups (G,) from the most rows to the fewest; of equal ones the first is first.

    Where each thread claims the next group when it is free, a large group at the end leaves the
    others idle. In this order the makespan is at most 4/3 of the least one (R. L. Graham, Bounds
    on multiprocessing timing anomalies, SIAM J. Appl. Math. 1969).
    """
    return np.argsort(-sizes, kind="stable")


def greedy_makespan(sizes: Sizes, workers: int) -> int:
    """Rows of the busiest worker if each claims the next group when it is free.

    sizes: rows of each group (G,), in the order in which they are claimed.
    """
    ends = [0] * workers
    for rows in sizes.tolist():
        ends[0] += rows
        ends.sort()
    return ends[-1]
