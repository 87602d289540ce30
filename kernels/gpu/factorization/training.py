"""Matrix factorization with ratings and vectors on a device.

The objective, the initial vectors and the steps are those of `tuskml.kernels.factorization`. Only
the order of the ratings differs (`ratings.py`), so results agree up to the effect of the order.
Sums of errors are double; vectors are float, as on the CPU.
"""

from typing import Any, Self

import numpy as np

from tuskml.kernels import passes
from tuskml.kernels.factorization import Shape
from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.factorization.ratings import (
    MOST_GRID,
    MOST_WORKERS,
    ROW_BYTES,
    Columns,
    Ratings,
    Side,
    ratings_of,
)
from tuskml.kernels.gpu.factorization.records import AT_ONCE, as_table
from tuskml.kernels.gpu.factorization.sort import RatingRows, sort_on_host
from tuskml.kernels.gpu.nets.orders import MASK, scramble
from tuskml.kernels.library import Charges
from tuskml.kernels.passes import Floats, Pass

START = 0.03
"""Scale of the initial p.q, as in `kernels/native/factorization/train.hpp`."""
ROOM = 0.9
"""Share of the device's free memory that a training may take."""
ID_BYTES = 40
"""Bytes per user or item, in addition to its vector."""
BLOCK_BYTES = 32
"""Bytes per block of ratings."""
PIECE_ROW_BYTES = 160
"""Bytes of device memory per rating while one piece is sorted and the next one is copied."""
LEAST_PIECE, MOST_PIECE = 1 << 16, 1 << 24
"""Ratings per piece if not all are sorted at once."""


def resident_bytes(shape: Shape, validation: bool) -> int:
    """Bytes of device memory for vectors and tables of ids; validation: also for the best
    vectors.
    """
    stride = source.factor_stride(shape.rank, shape.biases)
    each = 4 * stride * (1 + validation) + ID_BYTES
    return each * (shape.n_users + shape.n_items)


def piece_rows(device: Device, n: int, shape: Shape, validation: bool) -> int:
    """Number of ratings that the device takes at once: n if all fit, 0 if too few fit."""
    room = int(ROOM * device.free_bytes()) - resident_bytes(shape, validation)
    if n * ROW_BYTES <= room:
        return n
    rows = (room - BLOCK_BYTES * min(n, MOST_GRID**2)) // PIECE_ROW_BYTES
    return min(rows, MOST_PIECE) if rows >= LEAST_PIECE else 0


def too_large(device: Device, n: int, shape: Shape, validation: bool) -> str | None:
    """Reason why the ratings cannot train on the device; None if they can, at once or in
    pieces.
    """
    if piece_rows(device, n, shape, validation):
        return None
    needed = resident_bytes(shape, validation) + LEAST_PIECE * PIECE_ROW_BYTES
    return (
        f"the vectors of {shape.n_users:,} users and {shape.n_items:,} items take about "
        f"{gigabytes(needed)} of its memory, of which {gigabytes(device.free_bytes())} are free"
    )


def gigabytes(size: int) -> str:
    """Formats bytes as gigabytes."""
    return f"{size / 2**30:,.2f} GiB"


class DeviceFactorization:
    """Ratings and vectors in training. A context manager: its end frees them.

    Vectors are on the device, ratings where they were sorted. Without lock_free all results have
    the same bits on the same device. at_once: number of ratings that fit on the device, if not all
    do.
    """

    def __init__(
        self,
        device: Device,
        ratings: Ratings,
        shape: Shape,
        seed: int,
        *,
        lock_free: bool,
        cancel_mark: int = -1,
        at_once: int | None = None,
    ) -> None:
        self.device, self.shape, self.seed = device, shape, seed
        self.cancel_mark, self.lock_free = cancel_mark, lock_free
        self.ratings, self.at_once = ratings, at_once
        self.n = self.ratings.n
        stride = source.factor_stride(shape.rank, shape.biases)
        sides = (self.ratings.users, self.ratings.items)
        self.vectors_of = [device.xp.zeros((s.observations, stride), np.float32) for s in sides]
        self.kept: list[Any] | None = None
        self.held: tuple[Pass, Any] | None = None
        self.start()

    @classmethod
    def of_columns(
        cls,
        device: Device,
        columns: Columns,
        shape: Shape,
        seed: int,
        *,
        lock_free: bool,
        cancel_mark: int = -1,
    ) -> "DeviceFactorization":
        """Builds it from columns whose ids are within the shape."""
        n_ids = shape.n_users, shape.n_items
        ratings = ratings_of(
            device, columns, n_ids, biases=shape.biases, seed=seed, lock_free=lock_free
        )
        return cls(device, ratings, shape, seed, lock_free=lock_free, cancel_mark=cancel_mark)

    @classmethod
    def of_rows(
        cls,
        rows: Pass,
        device: Device,
        shape: Shape,
        seed: int,
        *,
        lock_free: bool,
        memory: int = 0,
        at_once: int | None = None,
    ) -> "DeviceFactorization":
        """Builds it from rows of one group, dense [user, item], in the host's memory.

        memory: the account that records are charged to if they stay there; at_once: ratings that
        the device takes at a time (`piece_rows`), by default all.
        """
        n = int(rows.groups["n_rows"][0])
        if at_once is None or at_once >= n:
            columns = columns_of(rows, device)
            return cls.of_columns(
                device, columns, shape, seed, lock_free=lock_free, cancel_mark=rows.cancel_mark
            )
        charges = Charges(memory)
        ratings = sort_on_host(rows, device, shape, seed, charges, at_once, lock_free=lock_free)
        return cls(
            device,
            ratings,
            shape,
            seed,
            lock_free=lock_free,
            cancel_mark=rows.cancel_mark,
            at_once=at_once,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.vectors_of, self.kept, self.held = [], None, None
        self.ratings.records.close()
        del self.ratings
        self.device.release()

    def start(self) -> None:
        """Resets the vectors to their initial values."""
        seed = int(scramble(np.array([self.seed & MASK], np.uint64))[0])
        spread = np.float32((START / self.shape.rank) ** 0.5)
        for part, side in enumerate((self.ratings.users, self.ratings.items)):
            vectors = self.vectors_of[part]
            arguments = [
                side.ids,
                np.int64(side.observations),
                np.uint64((seed + part) & MASK),
                spread,
                vectors,
            ]
            self._launch("start_vectors", -(-vectors.size // source.FACTOR_THREADS), arguments)

    def keep(self) -> None:
        """Copies the vectors, for `restore`."""
        if self.kept is None:
            self.kept = [vectors.copy() for vectors in self.vectors_of]
            return
        for copy, vectors in zip(self.kept, self.vectors_of, strict=True):
            copy[:] = vectors

    def restore(self) -> None:
        """Resets the vectors to their values at the last `keep`."""
        assert self.kept is not None
        for copy, vectors in zip(self.kept, self.vectors_of, strict=True):
            vectors[:] = copy

    def epoch(self, number: int, step: float, lock_free: bool = False) -> float:
        """Trains each rating once. Returns the mean of losses before each update, plus penalty.

        lock_free: as the ratings were laid out.
        """
        if lock_free != self.lock_free:
            raise ValueError(f"lock_free is {lock_free}, these ratings lie for {self.lock_free}")
        shape, schedule, deviation = self.shape, self.ratings.schedule, self.ratings.deviation
        sums = self.device.xp.zeros(schedule.workers, np.float64)
        keep = np.float32(1 - step * shape.l2_factors / deviation)
        rule = [np.float32(step), np.float32(1 - step * shape.l2) if shape.biases else keep, keep]
        launched = 0
        for some in self.ratings.records.rounds(schedule, self.seed, number):
            passes.raise_if_cancelled(self.cancel_mark)
            arguments = [
                some.table,
                some.start,
                some.order,
                np.int64(len(some.order)),
                np.int64(schedule.workers),
                *rule,
                *self.vectors_of,
                sums,
            ]
            self._launch("train_ratings", self._blocks(schedule.workers), arguments)
            launched += some.n
            if launched >= AT_ONCE:
                self.device.mark_launches().wait()
                launched = 0
        return self._objective(float(sums.sum()))

    def objective(self) -> float:
        """The objective at the current vectors."""
        return self._objective(float(sum(map(self._errors, self.ratings.records.tables()))))

    def loss(self, rows: Pass) -> float:
        """The mean loss over other rows of one group, their ids within the shape."""
        if self.at_once is not None:
            return self._loss_by_parts(rows, self.at_once)
        if self.held is None or self.held[0] is not rows:
            self.held = rows, self._others(*columns_of(rows, self.device))
        return self.loss_of(self.held[1])

    def _loss_by_parts(self, rows: Pass, at_once: int) -> float:
        with RatingRows(rows, self.device, at_once) as source:
            errors = sum(self._errors(self._others(*part)) for part in source.parts())
            return 0.5 * float(errors) * self.ratings.variance / source.n

    def loss_at(self, user: Any, item: Any, rating: Any) -> float:
        """Mean loss over ratings on the device."""
        return self.loss_of(self._others(user, item, rating))

    def loss_of(self, table: Any) -> float:
        """Mean loss over records of indices."""
        return 0.5 * float(self._errors(table)) * self.ratings.variance / len(table)

    def vectors(self) -> tuple[float, Floats]:
        """mu, and all vectors (n_users + n_items, width), users first, zeros for unseen ids."""
        shape, deviation = self.shape, self.ratings.deviation
        coef = np.zeros((shape.n_users + shape.n_items, shape.width))
        first = 0
        for vectors, side, n_ids in zip(
            self.vectors_of,
            (self.ratings.users, self.ratings.items),
            (shape.n_users, shape.n_items),
            strict=True,
        ):
            ids = self.device.to_host(side.ids)
            result = self.device.to_host(vectors)[:, : shape.width].astype(np.float64)
            with np.errstate(invalid="ignore"):  # 0 times infinity; the caller checks for it
                result *= np.sqrt(deviation)
                if shape.biases:
                    result[:, 0] *= np.sqrt(deviation)
            coef[first + ids] = result
            first += n_ids
        return self.ratings.mean, coef

    def _others(self, user: Any, item: Any, rating: Any) -> Any:
        """Records of other ratings. Ids that the training has not seen have index -1."""
        known = self.ratings
        value = (rating.astype(np.float64) - known.mean) / known.deviation
        return as_table(self.device.xp, known.users.place[user], known.items.place[item], value)

    def _errors(self, table: Any) -> Any:
        """Sum of squared errors, in units of the deviation, on the device, without a wait."""
        passes.raise_if_cancelled(self.cancel_mark)
        workers = max(1, min(MOST_WORKERS, len(table) // 16))
        sums = self.device.xp.empty(workers, np.float64)
        arguments = [table, np.int64(len(table)), np.int64(workers), *self.vectors_of, sums]
        self._launch("rating_errors", self._blocks(workers), arguments)
        return sums.sum()

    def _objective(self, square_errors: float) -> float:
        loss = 0.5 * square_errors * self.ratings.variance
        return (loss + self._penalty()) / self.n

    def _penalty(self) -> float:
        if not self.shape.l2 > 0:
            return 0.0
        sides = (self.ratings.users, self.ratings.items)
        return 0.5 * sum(map(self._squares, self.vectors_of, sides))

    def _squares(self, vectors: Any, side: Side) -> float:
        """Sum over ratings of |vector|^2 times its penalty's weight, in the caller's units."""
        shape, deviation = self.shape, self.ratings.deviation
        workers = max(1, min(MOST_WORKERS, side.observations))
        sums = self.device.xp.empty(workers, np.float64)
        first = np.float64(shape.l2 * deviation / shape.l2_factors if shape.biases else 1.0)
        arguments = [
            vectors,
            side.count,
            np.int64(side.observations),
            np.int64(workers),
            first,
            sums,
        ]
        self._launch("squares", self._blocks(workers), arguments)
        return shape.l2_factors * deviation * float(sums.sum())

    def _blocks(self, workers: int) -> int:
        stride = source.factor_stride(self.shape.rank, self.shape.biases)
        return -(-workers * source.factor_lanes(stride) // source.FACTOR_THREADS)

    def _launch(self, kernel: str, blocks: int, arguments: list[Any]) -> None:
        code = source.factors(kernel, self.shape.rank, self.shape.biases)
        self.device.launch(code, (blocks, 1), arguments)


def columns_of(rows: Pass, device: Device) -> tuple[Any, Any, Any]:
    """Copies users, items (n,) int64 and ratings (n,) float64 of one group to the device."""
    with RatingRows(rows, device, int(rows.groups["n_rows"][0])) as source:
        ((user, item, rating),) = source.parts()
        return user, item, rating.copy()
