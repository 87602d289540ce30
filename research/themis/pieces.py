"""Bundles of pieces: 8, 4, 2 or 1 workers of one machine.

Sizes that divide each other can be packed whenever there is room for each size and all larger ones
(E. G. Coffman, M. R. Garey, D. S. Johnson, Bin packing with divisible item sizes, Journal of
Complexity 3, 1987: first fit decreasing is optimal). So an auction need not name machines: as many
goods as there are sizes say which bundles fit together, and machines are chosen afterwards.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

SIZES = (8, 4, 2, 1)
"""Workers of a piece."""
Counts = NDArray[np.int64]


def capacity(free: Counts) -> Counts:
    """Returns the room (4,) that free workers by machine (M,) leave for pieces of each size."""
    return np.array([int((free // size).sum()) * size for size in SIZES], np.int64)


def use(pieces: Counts) -> Counts:
    """Returns the workers (B, 4) in pieces at least as large as each size; pieces: (B, 4)."""
    return np.cumsum(pieces * np.array(SIZES), axis=1).astype(np.int64)


def fits(pieces: Counts, free: Counts) -> bool:
    """Returns whether pieces by size (4,) fit on machines with a given number of free workers
    (M,).
    """
    return bool((use(pieces[None])[0] <= capacity(free)).all())


def split(workers: int) -> list[int]:
    """The fewest pieces of a given number of workers, the largest first."""
    found = []
    for size in SIZES:
        several, workers = divmod(workers, size)
        found += [size] * several
    return found


def packed(wanted: Sequence[Sequence[int]], free: Counts) -> list[dict[int, int]]:
    """Machines of pieces: of each owner the workers on each machine.

    wanted: the sizes of the pieces of each owner, which fit; free: by machine (M,). The largest
    pieces come first. A piece goes where its owner has workers, or else where it leaves the least.
    """
    left = free.astype(np.int64)
    found: list[dict[int, int]] = [{} for _ in wanted]
    for size in SIZES:
        for owner, pieces in enumerate(wanted):
            for _ in range(pieces.count(size)):
                machine = best(left, size, found[owner])
                found[owner][machine] = found[owner].get(machine, 0) + size
                left[machine] -= size
    return found


def best(left: Counts, size: int, mine: dict[int, int]) -> int:
    """The machine for a piece. ValueError where none has room."""
    for machine in mine:
        if left[machine] >= size:
            return machine
    room = np.where(left >= size, left, np.iinfo(np.int64).max)
    machine = int(room.argmin())
    if left[machine] < size:
        raise ValueError(f"no machine has {size} free workers")
    return machine
