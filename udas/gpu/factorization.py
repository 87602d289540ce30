"""Matrix factorization whose ratings and vectors are on a device: what the epochs drive.

The objective, the starting vectors and the steps are those of `tuskml.udas.factorization`; the
order of the ratings is another (`ratings.py`), so results agree to what an order makes of them.
Sums of errors are double; vectors are float, as on the CPU.
"""

from types import TracebackType
from typing import Any, Self

import numpy as np

from tuskml.udas import kernels
from tuskml.udas.factorization import Shape
from tuskml.udas.gpu import source
from tuskml.udas.gpu.device import Device
from tuskml.udas.gpu.ratings import (
    MASK,
    MOST_WORKERS,
    ROW_BYTES,
    Ratings,
    Side,
    as_table,
    ratings_of,
    scrambled,
)
from tuskml.udas.gpu.rows import DeviceRows
from tuskml.udas.kernels import Floats, Pass

START = 0.03
"""Of the size at which p.q starts, `udas/native/factorization_train.hpp`."""
AT_ONCE = 1 << 25
"""Ratings that are launched before a cancel is looked for: some 30 ms of them."""
ROOM = 0.9
"""Of the device's free memory."""


def needed_bytes(n: int, shape: Shape, validation: bool) -> int:
    """Of device memory, at most, for n ratings and their vectors; validation: best ones too."""
    stride = source.factor_stride(shape.rank, shape.biases)
    vectors = 4 * stride * (shape.n_users + shape.n_items) * (1 + validation)
    return n * ROW_BYTES + vectors


def too_large(device: Device, n: int, shape: Shape, validation: bool) -> str | None:
    """Why the ratings do not go to the device; None where they do."""
    needed, free = needed_bytes(n, shape, validation), device.free_bytes()
    if needed <= ROOM * free:
        return None
    return (
        f"{n:,} ratings and their vectors take about {needed / 2**30:,.1f} GiB of its memory, "
        f"of which {free / 2**30:,.1f} GiB are free"
    )


class DeviceFactorization:
    """Ratings and vectors in training; a context, whose end frees them.

    user and item: the device's ids (n,) int64 within the shape, rating: (n,), of its own too.
    Without lock_free all results are the same bits on the same device.
    """

    def __init__(
        self, device: Device, user: Any, item: Any, rating: Any, shape: Shape, seed: int, *,
        lock_free: bool, cancel_mark: int = -1,
    ) -> None:  # fmt: skip
        self.device, self.shape, self.seed = device, shape, seed
        self.cancel_mark, self.lock_free = cancel_mark, lock_free
        self.ratings: Ratings = ratings_of(
            device, user, item, rating, (shape.n_users, shape.n_items),
            biases=shape.biases, seed=seed, lock_free=lock_free,
        )  # fmt: skip
        self.n = self.ratings.n
        stride = source.factor_stride(shape.rank, shape.biases)
        sides = (self.ratings.users, self.ratings.items)
        self.vectors_of = [device.xp.zeros((s.seen, stride), np.float32) for s in sides]
        self.kept: list[Any] | None = None
        self.held: tuple[Pass, Any] | None = None
        self.start()

    @classmethod
    def of_rows(
        cls, rows: Pass, device: Device, shape: Shape, seed: int, *, lock_free: bool
    ) -> "DeviceFactorization":
        """From rows of one group, dense [user, item], in the host's memory."""
        user, item, rating = columns_of(rows, device)
        return cls(
            device, user, item, rating, shape, seed,
            lock_free=lock_free, cancel_mark=rows.cancel_mark,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.vectors_of, self.kept, self.held = [], None, None
        del self.ratings
        self.device.release()

    def start(self) -> None:
        """Puts the vectors back to where they were at first."""
        seed = int(scrambled(np.array([self.seed & MASK], np.uint64))[0])
        spread = np.float32((START / self.shape.rank) ** 0.5)
        for part, side in enumerate((self.ratings.users, self.ratings.items)):
            vectors = self.vectors_of[part]
            arguments = [
                side.ids, np.int64(side.seen), np.uint64((seed + part) & MASK), spread, vectors
            ]  # fmt: skip
            self._launch("start_vectors", -(-vectors.size // source.FACTOR_THREADS), arguments)

    def keep(self) -> None:
        """Copies the vectors, for `restore`."""
        if self.kept is None:
            self.kept = [vectors.copy() for vectors in self.vectors_of]
            return
        for kept, vectors in zip(self.kept, self.vectors_of, strict=True):
            kept[:] = vectors

    def restore(self) -> None:
        """Puts the vectors back to where they were at the last `keep`."""
        assert self.kept is not None
        for kept, vectors in zip(self.kept, self.vectors_of, strict=True):
            vectors[:] = kept

    def epoch(self, number: int, step: float, lock_free: bool = False) -> float:
        """Visits each rating once; the mean loss, each before its own update, and penalty.

        lock_free: as the ratings were laid out.
        """
        if lock_free != self.lock_free:
            raise ValueError(f"lock_free is {lock_free}, these ratings lie for {self.lock_free}")
        shape, schedule, deviation = self.shape, self.ratings.schedule, self.ratings.deviation
        order = self.device.to_device(schedule.order(self.seed, number))
        sums = self.device.xp.zeros(schedule.workers, np.float64)
        keep = np.float32(1 - step * shape.l2 / deviation)
        rule = [
            np.float32(step), np.float32(1 - step * shape.l2) if shape.biases else keep, keep
        ]  # fmt: skip
        each = schedule.grid or max(1, AT_ONCE * schedule.n_chunks // max(self.n, 1))
        launched = 0
        for first in range(0, schedule.n_chunks, each):
            kernels.raise_if_cancelled(self.cancel_mark)
            some = order[first : first + each]
            arguments = [
                self.ratings.table, schedule.start, some, np.int64(len(some)),
                np.int64(schedule.workers), *rule, *self.vectors_of, sums,
            ]  # fmt: skip
            self._launch("train_ratings", self._blocks(schedule.workers), arguments)
            launched += self.n * len(some) // schedule.n_chunks
            if launched >= AT_ONCE:
                self.device.launched().wait()
                launched = 0
        return self._objective(float(sums.sum()))

    def objective(self) -> float:
        """The objective at the vectors as they are."""
        return self._objective(self._errors(self.ratings.table))

    def loss(self, rows: Pass) -> float:
        """The mean loss over other rows of one group, their ids within the shape."""
        if self.held is None or self.held[0] is not rows:
            self.held = rows, self._others(*columns_of(rows, self.device))
        return self.loss_of(self.held[1])

    def loss_at(self, user: Any, item: Any, rating: Any) -> float:
        """The same over ratings on the device."""
        return self.loss_of(self._others(user, item, rating))

    def loss_of(self, table: Any) -> float:
        """The same over records of places."""
        return 0.5 * self._errors(table) * self.ratings.deviation**2 / len(table)

    def vectors(self) -> tuple[float, Floats]:
        """mu, and all vectors (n_users + n_items, width), users first, zeros where never seen."""
        shape, deviation = self.shape, self.ratings.deviation
        coef = np.zeros((shape.n_users + shape.n_items, shape.width))
        first = 0
        for vectors, side, n_ids in zip(
            self.vectors_of, (self.ratings.users, self.ratings.items),
            (shape.n_users, shape.n_items), strict=True,
        ):  # fmt: skip
            ids = self.device.to_host(side.ids)
            found = self.device.to_host(vectors)[:, : shape.width].astype(np.float64)
            found *= np.sqrt(deviation)
            if shape.biases:
                found[:, 0] *= np.sqrt(deviation)
            coef[first + ids] = found
            first += n_ids
        return self.ratings.mean, coef

    def _others(self, user: Any, item: Any, rating: Any) -> Any:
        """Records of other ratings; who was never seen has no place."""
        known = self.ratings
        value = (rating.astype(np.float64) - known.mean) / known.deviation
        return as_table(
            self.device.xp, known.users.place[user], known.items.place[item], value
        )  # fmt: skip

    def _errors(self, table: Any) -> float:
        """The sum of squared errors, in units of the deviation."""
        kernels.raise_if_cancelled(self.cancel_mark)
        workers = max(1, min(MOST_WORKERS, len(table) // 16))
        sums = self.device.xp.empty(workers, np.float64)
        arguments = [table, np.int64(len(table)), np.int64(workers), *self.vectors_of, sums]
        self._launch("rating_errors", self._blocks(workers), arguments)
        return float(sums.sum())

    def _objective(self, square_errors: float) -> float:
        loss = 0.5 * square_errors * self.ratings.deviation**2
        return (loss + self._penalty()) / self.n

    def _penalty(self) -> float:
        if not self.shape.l2 > 0:
            return 0.0
        sides = (self.ratings.users, self.ratings.items)
        return 0.5 * self.shape.l2 * sum(map(self._squares, self.vectors_of, sides))

    def _squares(self, vectors: Any, side: Side) -> float:
        """The sum over ratings of |vector|^2, in the caller's units."""
        deviation = self.ratings.deviation
        workers = max(1, min(MOST_WORKERS, side.seen))
        sums = self.device.xp.empty(workers, np.float64)
        first = np.float64(deviation if self.shape.biases else 1.0)
        arguments = [vectors, side.count, np.int64(side.seen), np.int64(workers), first, sums]
        self._launch("squares", self._blocks(workers), arguments)
        return deviation * float(sums.sum())

    def _blocks(self, workers: int) -> int:
        stride = source.factor_stride(self.shape.rank, self.shape.biases)
        return -(-workers * source.factor_lanes(stride) // source.FACTOR_THREADS)

    def _launch(self, kernel: str, blocks: int, arguments: list[Any]) -> None:
        made = source.factors(kernel, self.shape.rank, self.shape.biases)
        self.device.launch(made, (blocks, 1), arguments)


def columns_of(rows: Pass, device: Device) -> tuple[Any, Any, Any]:
    """Users, items (n,) int64 and ratings (n,) float64 of one group, copied to the device."""
    n_rows, kind = rows.groups["n_rows"].astype(np.int64), int(rows.groups["kind"][0])
    start = np.array([0, int(n_rows[0])])

    def fill(first: int, values: Any, labels: Floats) -> None:
        rows.copy_rows(start, first, values, labels)

    held = DeviceRows.of_host(device, 2, kind, n_rows, fill, budget=device.free_bytes())
    if not held.resident:
        held.close()
        raise MemoryError(f"{int(n_rows[0]):,} ratings do not fit into the GPU's memory")
    (part,), n = held.visit(), int(n_rows[0])
    columns = part.values[:n]
    found = columns[:, 0].astype(np.int64), columns[:, 1].astype(np.int64), part.labels[:n].copy()
    held.close()
    return found
