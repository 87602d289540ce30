"""Machines of a simulated cluster, and which workers an app gets on them."""

from collections.abc import Sequence
from dataclasses import dataclass

from research.themis.pieces import SIZES


@dataclass(frozen=True)
class Machines:
    """sizes: workers of each machine; racks: the rack of each."""

    sizes: tuple[int, ...]
    racks: tuple[int, ...]

    @property
    def workers(self) -> int:
        """Number of workers of all machines."""
        return sum(self.sizes)


def mixed(workers: int, in_a_rack: int = 16) -> Machines:
    """Machines with 8, 4 and 1 workers: 3/4, 3/16 and 1/16 of all workers.

    The thesis simulates such a mix with 256 GPUs; the counts in its footnote 6 add up to 168.
    """
    eights, fours = workers * 3 // 4 // 8, workers * 3 // 16 // 4
    ones = workers - 8 * eights - 4 * fours
    sizes = (8,) * eights + (4,) * fours + (1,) * ones
    return Machines(sizes, tuple(place // in_a_rack for place in range(len(sizes))))


class Room:
    """Free workers by machine. A piece goes where it leaves the least."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.free = list(sizes)
        self.workers = sum(sizes)
        self.with_free: list[dict[int, None]] = [{} for _ in range(max(sizes, default=0) + 1)]
        for machine, n in enumerate(self.free):
            self.with_free[n][machine] = None

    def take(self, machine: int, workers: int) -> None:
        """They are no longer free; with a negative number they are again."""
        n = self.free[machine]
        del self.with_free[n][machine]
        self.free[machine] = n - workers
        self.with_free[n - workers][machine] = None
        self.workers -= workers

    def give(self, held: dict[int, int], pieces: Sequence[int]) -> int:
        """Places pieces, the largest first, and adds them to what is held; how many workers.

        A piece without room is halved.
        """
        todo, given = sorted(pieces), 0
        while todo and self.workers:
            size = todo.pop()
            machine = self.machine_for(size, held)
            if machine is None:
                todo += [size // 2, size - size // 2]
                todo.sort()
                continue
            self.take(machine, size)
            held[machine] = held.get(machine, 0) + size
            given += size
        return given

    def machine_for(self, size: int, held: dict[int, int]) -> int | None:
        """Returns where its owner has workers, or where it leaves the least; None where nothing
        fits.
        """
        for machine in held:
            if self.free[machine] >= size:
                return machine
        for machines in self.with_free[size:]:
            if machines:
                return next(reversed(machines))
        return None

    def capacity(self) -> list[int]:
        """Room for pieces of each size, in workers."""
        return [
            sum(n // size * len(machines) for n, machines in enumerate(self.with_free)) * size
            for size in SIZES
        ]
