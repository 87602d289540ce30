"""The order in which threads that claim one group after another begin them."""

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.placement.shards import Sizes


def heaviest_first(sizes: Sizes) -> NDArray[np.intp]:
    """Places of groups (G,) from the most rows to the fewest; of equal ones the first is first.

    Where each thread claims the next group when it is free, a large group at the end leaves the
    others idle. In this order the makespan is at most 4/3 of the least one (R. L. Graham, Bounds
    on multiprocessing timing anomalies, SIAM J. Appl. Math. 1969).
    """
    return np.argsort(-sizes, kind="stable")


def claimed_makespan(sizes: Sizes, workers: int) -> int:
    """Rows of the worker that has the most, where each claims the next group when it is free.

    sizes: rows of each group (G,), in the order in which they are claimed.
    """
    ends = [0] * workers
    for rows in sizes.tolist():
        ends[0] += rows
        ends.sort()
    return ends[-1]
