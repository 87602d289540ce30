"""Sorts ratings that do not all fit on the device, in pieces, into the host's memory.

The rows are read three times. The first pass counts ids, the second counts ratings by buckets of
their keys, and the third distributes ratings to runs of buckets. The device then sorts each run.
The records are the same as if the device had sorted all ratings at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.factorization import Shape
from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.factorization.ratings import (
    Layout,
    Ratings,
    Scale,
    deviation_of,
    side_of_counts,
)
from tuskml.kernels.gpu.factorization.records import PIECE_BYTES, RECORD, OnHost, as_table
from tuskml.kernels.gpu.rows import SLACK, DeviceRows
from tuskml.kernels.library import Charges
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.segments import dense_row_bytes

SCALED = 1 << 20
"""Ratings scaled at a time."""


class RatingRows:
    """Rows [user, item] of one group, at most n of them on the device at a time.

    Twice as much during copies. A context manager: its end frees them.
    """

    def __init__(self, rows: Pass, device: Device, n: int) -> None:
        self.rows, self.n = rows, int(rows.groups["n_rows"][0])
        start = np.array([0, self.n])

        def fill(first: int, values: NDArray[Any], labels: Floats) -> None:
            rows.copy_rows(start, first, values, labels)

        kind, n_rows = int(rows.groups["kind"][0]), rows.groups["n_rows"].astype(np.int64)
        budget = 2 * (n + SLACK) * dense_row_bytes(2, kind)
        self.held = DeviceRows.of_host(device, 2, kind, n_rows, fill, budget)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.held.close()

    def parts(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yields users, items (n,) int64 and ratings (n,) float64 of some rows at a time."""
        for part in self.held.visit():
            passes.raise_if_cancelled(self.rows.cancel_mark)
            n = min(part.high, self.n) - part.low
            if n > 0:
                columns = part.values[:n]
                user, item = (columns[:, k].astype(np.int64) for k in range(2))
                yield user, item, part.labels[:n]


@dataclass(frozen=True)
class Runs:
    """Runs of neighbouring buckets: run r has records first[r] to first[r + 1] - 1 of the table.

    of (n_buckets,): the run of each bucket.
    """

    first: NDArray[np.int64]
    of: NDArray[np.int64]

    @classmethod
    def of_sizes(cls, sizes: NDArray[np.int64], most: int) -> "Runs":
        """Runs of at most `most` ratings. Raises MemoryError if a single bucket has more."""
        if int(sizes.max()) > most:
            raise MemoryError(
                f"{int(sizes.max()):,} ratings of few users or items do not fit into the GPU's "
                "memory at once"
            )
        end = np.cumsum(sizes)
        of = np.zeros(len(sizes), np.int64)
        first = [0]
        bucket = 0
        while bucket < len(sizes):
            behind = int(np.searchsorted(end, first[-1] + most, "right"))
            of[bucket:behind] = len(first) - 1
            first.append(int(end[behind - 1]))
            bucket = behind
        return cls(np.array(first), of)


def sort_on_host(
    rows: Pass,
    device: Device,
    shape: Shape,
    seed: int,
    charges: Charges,
    most: int,
    *,
    lock_free: bool,
) -> Ratings:
    """Sorts the ratings of one group's rows.

    most: number that the device sorts at once.
    """
    n, xp, put = int(rows.groups["n_rows"][0]), device.xp, device.to_device
    low, high = (float(rows.labels()[name][0]) for name in ("low", "high"))
    unit = Scale.of_range(low, high, shape.biases)
    table: NDArray[np.int32] = charges.empty((n, 3), np.int32)
    with RatingRows(rows, device, most) as source:
        layout = count_ratings(source, device, shape, seed, lock_free=lock_free)
        sizes = xp.zeros(layout.n_buckets, np.int64)
        for user, item, rating in source.parts():
            keys = keys_of(layout, xp, user, item, unit.floats(rating))[0]
            sizes += xp.bincount(layout.buckets(keys), minlength=layout.n_buckets)
        runs = Runs.of_sizes(device.to_host(sizes), most)
        deal(source, device, layout, runs, put(runs.of), table, unit)
    mean, deviation = sort_runs(device, layout, runs, table, shape.biases, rows.cancel_mark)
    scale(table, mean, deviation, rows.cancel_mark)
    schedule = layout.schedule(device, sizes)
    capacity = min(PIECE_BYTES // RECORD, most)
    records = OnHost(device, table, device.to_host(schedule.start), capacity)
    ratings = Ratings(records, layout.users, layout.items, schedule, mean, deviation)
    return unit.in_callers_units(ratings)


def count_ratings(
    source: RatingRows, device: Device, shape: Shape, seed: int, *, lock_free: bool
) -> Layout:
    """Layout from the number of ratings of each user and each item."""
    xp = device.xp
    counts = [xp.zeros(n_ids, np.int64) for n_ids in (shape.n_users, shape.n_items)]
    for user, item, _ in source.parts():
        for which, ids in enumerate((user, item)):
            counts[which] += xp.bincount(ids, minlength=len(counts[which]))
    users, items = (side_of_counts(xp, count) for count in counts)
    return Layout.of(device, users, items, source.n, seed, lock_free=lock_free)


def keys_of(layout: Layout, xp: Any, user: Any, item: Any, value: Any) -> tuple[Any, ...]:
    """Keys, indices of users and items, and float32 values."""
    user, item = layout.users.place[user], layout.items.place[item]
    return layout.keys(xp, user, item, value), user, item, value


def deal(
    source: RatingRows,
    device: Device,
    layout: Layout,
    runs: Runs,
    of: Any,
    table: NDArray[np.int32],
    unit: Scale,
) -> None:
    """Writes records of unscaled ratings to their runs."""
    xp, filled = device.xp, runs.first[:-1].copy()
    for user_id, item_id, rating in source.parts():
        keys, user, item, value = keys_of(layout, xp, user_id, item_id, unit.floats(rating))
        run = of[layout.buckets(keys)]
        order = xp.argsort(run)
        records = device.to_host(as_table(xp, user[order], item[order], value[order]))
        counts = device.to_host(xp.bincount(run, minlength=len(filled)))
        at = 0
        for r in np.flatnonzero(counts).tolist():
            n = int(counts[r])
            table[filled[r] : filled[r] + n] = records[at : at + n]
            filled[r] += n
            at += n


def sort_runs(
    device: Device, layout: Layout, runs: Runs, table: NDArray[np.int32], biases: bool, mark: int
) -> tuple[float, float]:
    """Sorts each run; returns mean (0 without biases) and deviation of all ratings.

    Distances are from the first run's mean, so that their squares lose no digits.
    """
    xp, near, total, square = device.xp, 0.0, 0.0, 0.0
    for low, high in zip(runs.first[:-1].tolist(), runs.first[1:].tolist(), strict=True):
        if low == high:
            continue
        passes.raise_if_cancelled(mark)
        records = device.to_device(table[low:high])
        value = xp.ascontiguousarray(records[:, 2]).view(np.float32)
        order = xp.argsort(layout.keys(xp, records[:, 0], records[:, 1], value))
        table[low:high] = device.to_host(records[order])
        value = value[order].astype(np.float64)
        if biases and low == 0:
            near = float(value.sum()) / high
        value = value - near
        total += float(value.sum())
        square += float(xp.square(value).sum())
    off = total / len(table) if biases else 0.0
    mean = near + off
    return mean, deviation_of(square / len(table) - off * off, mean)


def scale(table: NDArray[np.int32], mean: float, deviation: float, mark: int) -> None:
    """Makes values distances from the mean in units of the deviation."""
    for low in range(0, len(table), SCALED):
        passes.raise_if_cancelled(mark)
        values = table[low : low + SCALED].view(np.float32)[:, 2]
        values[:] = (values.astype(np.float64) - mean) / deviation
