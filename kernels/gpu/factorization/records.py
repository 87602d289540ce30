"""A group's ratings during training, on the device or in the host's memory.

Records (n, 3) int32 have the places of user and item, and the bits of a float. Records in the
host's memory are copied in pieces through pinned buffers: while one piece is trained, the next is
copied.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu.device import Device, Mark
from tuskml.kernels.gpu.nets.orders import epoch_key, permutation, permutation_there

RECORD = 12
"""Bytes of a record."""
AT_ONCE = 1 << 25
"""Ratings launched between two checks for a cancel: about 30 ms of work."""
PIECE_BYTES = 32 << 20
"""Size of each of two pinned buffers, and of each of two buffers on the device."""


@dataclass(frozen=True)
class Schedule:
    """The chunks of a training: chunk c has ratings start[c] to start[c + 1] - 1.

    grid: strata per epoch, and chunks per stratum, which run in parallel; 0: lock-free. workers:
    number that train in parallel.
    """

    start: Any
    n_chunks: int
    grid: int
    workers: int

    def order(self, xp: Any, seed: int, epoch: int) -> Any:
        """The chunks of an epoch in order, on the device; if ordered, stratum by stratum."""
        key = epoch_key(seed, epoch)
        if not self.grid:
            return permutation_there(xp, self.n_chunks, key)
        strata = permutation_there(xp, self.grid, key)[:, None] * np.int32(self.grid)
        return (strata + xp.arange(self.grid, dtype=np.int32)).ravel()

    def strata(self, seed: int, epoch: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        """The strata of an ordered epoch, one after another."""
        return permutation(self.grid, epoch_key(seed, epoch))


@dataclass(frozen=True)
class Round:
    """Chunks of one launch: table[start[c]] to table[start[c + 1] - 1], c of `order`.

    All on the device; n: number of their ratings.
    """

    table: Any
    start: Any
    order: Any
    n: int


class Records(Protocol):
    """Ratings in the order of their keys."""

    @property
    def n(self) -> int: ...

    def rounds(self, schedule: Schedule, seed: int, epoch: int) -> Iterator[Round]:
        """The rounds of an epoch. Launch each round before you request the next one."""

    def tables(self) -> Iterator[Any]:
        """Yields all records, as one table on the device at a time."""

    def close(self) -> None:
        """Frees the memory."""


def as_table(xp: Any, user: Any, item: Any, value: Any) -> Any:
    """Packs indices and values into the kernels' records."""
    table = xp.empty((len(value), 3), np.int32)
    table[:, 0], table[:, 1] = user, item
    table[:, 2] = value.astype(np.float32).view(np.int32)
    return table


class OnDevice:
    """A table on the device."""

    def __init__(self, device: Device, table: Any) -> None:
        self.device, self.table, self.n = device, table, len(table)

    def rounds(self, schedule: Schedule, seed: int, epoch: int) -> Iterator[Round]:
        order = schedule.order(self.device.xp, seed, epoch)
        each = schedule.grid or max(1, AT_ONCE * schedule.n_chunks // max(self.n, 1))
        for first in range(0, schedule.n_chunks, each):
            some = order[first : first + each]
            yield Round(self.table, schedule.start, some, self.n * len(some) // schedule.n_chunks)

    def tables(self) -> Iterator[Any]:
        yield self.table

    def close(self) -> None:
        self.table = None


class OnHost:
    """A table in the host's memory, at most `capacity` of its records on the device at a time.

    start (n_chunks + 1,): the schedule's.
    """

    def __init__(
        self, device: Device, table: NDArray[np.int32], start: NDArray[np.int64], capacity: int
    ) -> None:
        self.device, self.table, self.start = device, table, start
        self.n, self.capacity = len(table), capacity
        size = RECORD * capacity
        self.pinned = [
            device.allocate_pinned(size).view(np.int32).reshape(-1, 3) for _ in range(2)
        ]
        self.pieces = [device.xp.empty((capacity, 3), np.int32) for _ in range(2)]
        self.copied: list[Mark | None] = [None, None]
        self.used = [device.mark_launches()] * 2
        self.turn, self.copies = 0, 0
        self.rising: Any = None

    def rounds(self, schedule: Schedule, seed: int, epoch: int) -> Iterator[Round]:
        """Strata or, when lock-free, runs of neighbouring chunks, in random order."""
        xp = self.device.xp
        for first, count, order in self._runs(schedule, seed, epoch):
            low, high = int(self.start[first]), int(self.start[first + count])
            start = schedule.start[first : first + count + 1]
            for at in range(low, high, self.capacity):
                to = min(at + self.capacity, high)
                table = self._load(at, to)
                yield Round(table, xp.clip(start, at, to) - at, order, to - at)
                self._done()

    def _runs(self, schedule: Schedule, seed: int, epoch: int) -> Iterator[tuple[int, int, Any]]:
        """First chunk and number of chunks of each run, and the order in which these are
        trained.
        """
        put, grid = self.device.to_device, schedule.grid
        if grid:
            if self.rising is None:
                self.rising = put(np.arange(grid, dtype=np.int32))
            for stratum in schedule.strata(seed, epoch).tolist():
                yield stratum * grid, grid, self.rising
            return
        key = epoch_key(seed, epoch)
        each = max(1, self.capacity // int(self.start[1]))
        for run in permutation(-(-schedule.n_chunks // each), key).tolist():
            count = min(each, schedule.n_chunks - run * each)
            yield run * each, count, permutation_there(self.device.xp, count, key + run + 1)

    def tables(self) -> Iterator[Any]:
        for low in range(0, self.n, self.capacity):
            yield self._load(low, min(low + self.capacity, self.n))
            self._done()

    def _load(self, low: int, high: int) -> Any:
        """Starts copying records. Later launches wait for the copy."""
        turn, n = self.turn, high - low
        copied = self.copied[turn]
        if copied is not None:
            copied.wait()
        buffer, piece = self.pinned[turn][:n], self.pieces[turn][:n]
        buffer[:] = self.table[low:high]
        self.device.upload_after(self.used[turn])
        self.device.upload(piece, buffer)
        self.copied[turn] = copied = self.device.mark_uploads()
        self.device.launch_after(copied)
        self.copies += 1
        return piece

    def _done(self) -> None:
        """Marks a piece as free; called after all launches that read it."""
        self.used[self.turn] = self.device.mark_launches()
        self.turn = 1 - self.turn

    def close(self) -> None:
        for copied in self.copied:
            if copied is not None:
                copied.wait()
        self.pinned, self.pieces, self.rising = [], [], None
        self.table = np.empty((0, 3), np.int32)
