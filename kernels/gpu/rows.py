"""The rows of many groups in a device's memory, or as many of them at a time as fit.

A group's rows are contiguous and begin at a multiple of ALIGNED. SLACK rows of zeros follow the
last row, because kernels read whole tiles. Gaps between rows are zero: values read there have no
weight, but they must be finite.

`Chunks` says how rows are distributed to a kernel's blocks, and where their sums go.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu.device import Device, Mark
from tuskml.kernels.segments import dense_row_bytes

CHUNK = np.dtype([("first", "i8"), ("rows", "i4"), ("group", "i4"), ("place", "i8")])
SPAN = np.dtype([("group", "i8"), ("first", "i8"), ("last", "i8")])
MOST_CHUNKS = 1 << 12
"""Chunks per pass: many times what a GPU runs at once, so that few blocks run alone at the end."""
LEAST_ROWS = 1 << 10
SAMPLED_ROWS = 1 << 10
"""Rows of a chunk when only every k-th chunk is read."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Chunks (CHUNK) of the rows of G groups, and spans (SPAN) of groups with several chunks.

    A chunk writes row `place` of the sums. If its group has no other chunk, this is the group's
    row; else it is one of the n_partial rows after the groups' rows.
    """

    chunks: NDArray[Any]
    spans: NDArray[Any]
    n_partial: int
    n_groups: int


def chunk_rows(n_rows: Ints, stride: int) -> int:
    """Rows per chunk: a multiple of 32 that depends only on the numbers of rows and the stride."""
    if stride > 1:
        return SAMPLED_ROWS
    wanted = -(-int(n_rows.sum()) // MOST_CHUNKS)
    return max(LEAST_ROWS, -(-wanted // 256) * 256)


def table(first: Ints, n_rows: Ints, rows: int, stride: int = 1) -> Table:
    """Cuts groups, whose rows begin at `first`, into chunks of `rows` and takes every stride-th.

    Groups without rows have no chunk.
    """
    all_chunks = -(-n_rows // rows)
    count = -(-all_chunks // stride)  # number of chunks of each group
    group = np.repeat(np.arange(len(n_rows)), count)
    begin = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
    number = (np.arange(len(group)) - begin[group]) * stride
    chunks = np.empty(len(group), CHUNK)
    chunks["group"] = group
    chunks["first"] = first[group] + number * rows
    chunks["rows"] = np.minimum(rows, n_rows[group] - number * rows)
    shared = count[group] > 1
    place = group.astype(np.int64)
    place[shared] = len(n_rows) + np.arange(int(shared.sum()))
    chunks["place"] = place
    several = np.flatnonzero(count > 1)
    spans = np.empty(len(several), SPAN)
    spans["group"] = several
    last = len(n_rows) + np.cumsum(count[several])
    spans["last"] = last
    spans["first"] = last - count[several]
    return Table(chunks, spans, int(shared.sum()), len(n_rows))


def within(first: Ints, n_rows: Ints, low: int, high: int) -> tuple[Ints, Ints]:
    """The groups' rows with indices in low .. high - 1: first rows, from `low`, and row counts."""
    begin = np.clip(first, low, high)
    end = np.clip(first + n_rows, low, high)
    return begin - low, end - begin


ALIGNED = 4
SLACK = 32
STAGED_BYTES = 32 << 20
"""Size of each of two pinned buffers: while one is copied to the device, the other is filled."""
PART_BYTES = 512 << 20
ROOM = 0.8
"""Share of the device's free memory that rows may take."""

Fill = Callable[[int, NDArray[Any], NDArray[np.float64]], None]
"""Writes the rows from an index on into values (n, d) and labels (n,)."""


class DeviceTable:
    """A table with copies of its chunks and spans on the device, where each pass reads them."""

    def __init__(self, table: Table, device: Device) -> None:
        self.table, self.n_chunks, self.n_spans = table, len(table.chunks), len(table.spans)
        self.chunks = device.to_device(table.chunks.view(np.uint8))
        self.spans = device.to_device(table.spans.view(np.uint8))
        self.usual_rows = int(table.chunks["rows"].mean()) if self.n_chunks else 0
        """Average rows per chunk."""
        self.whole = table.n_groups == len(np.unique(table.chunks["group"]))
        """Whether every group has rows here, so that a kernel writes its sums."""


def places(n_rows: Ints) -> Ints:
    """Returns where each group's rows begin, then the end of the last group's, (G + 1,)."""
    padded = -(-n_rows // ALIGNED) * ALIGNED
    return np.concatenate([[0], np.cumsum(padded)]).astype(np.int64)


@dataclass
class Part:
    """Rows with indices low to high - 1 on the device: values (n + SLACK, d) and labels (n +
    SLACK,).

    used: a mark after the last launches that read them.
    """

    low: int
    high: int
    values: Any
    labels: Any
    used: Mark | None = None


class Staging:
    """Copies rows to the device through two pinned buffers in turn."""

    def __init__(self, device: Device, d: int, dtype: np.dtype[Any], size: int) -> None:
        self.device, self.d, self.dtype = device, d, dtype
        row = d * dtype.itemsize + 8
        self.rows = max(ALIGNED, size // row // ALIGNED * ALIGNED)
        self.buffers = [device.allocate_pinned(self.rows * row + 64) for _ in range(2)]
        self.busy: list[Mark | None] = [None, None]
        self.turn = 0

    def copy(self, fill: Fill, part: Part) -> None:
        """Starts copying a part's rows, one buffer at a time. Returns before the copy is done."""
        for low in range(part.low, part.high, self.rows):
            n = min(self.rows, part.high - low)
            busy = self.busy[self.turn]
            if busy is not None:
                busy.wait()
            values, labels = self._views(self.buffers[self.turn], n)
            fill(low, values, labels)
            at = low - part.low
            self.device.upload(part.values[at : at + n], values)
            self.device.upload(part.labels[at : at + n], labels)
            self.busy[self.turn] = self.device.mark_uploads()
            self.turn = 1 - self.turn

    def _views(
        self, buffer: NDArray[np.uint8], n: int
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        labels = buffer[: 8 * n].view(np.float64)
        behind = -(-8 * n // 64) * 64
        size = n * self.d * self.dtype.itemsize
        values = buffer[behind : behind + size].view(self.dtype).reshape(n, self.d)
        return values, labels

    def drain(self) -> None:
        """Waits for all copies, so that the buffers can be freed."""
        for busy in self.busy:
            if busy is not None:
                busy.wait()


@dataclass
class DeviceRows:
    """Rows of G groups with d features of a kind (`kernels.KINDS`); start (G + 1,), n_rows (G,).

    fill reads them from the host; None: a single part has all of them. part_rows: rows per part;
    all of them if they fit on the device.
    """

    device: Device
    d: int
    kind: int
    n_rows: Ints
    start: Ints
    part_rows: int
    fill: Fill | None
    parts: list[Part] = field(default_factory=list)
    staging: Staging | None = None
    uploads: int = 0
    tables: dict[tuple[int, int, int], tuple[Any, "DeviceTable"]] = field(default_factory=dict)
    constants: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @classmethod
    def of_host(
        cls,
        device: Device,
        d: int,
        kind: int,
        n_rows: Ints,
        fill: Fill,
        budget: int | None = None,
        staged: int = STAGED_BYTES,
    ) -> "DeviceRows":
        """Copies the rows that fit. budget: bytes for rows; by default from the free memory."""
        start = places(n_rows)
        row = dense_row_bytes(d, kind)
        room = int(ROOM * device.free_bytes()) if budget is None else budget
        total = int(start[-1])
        part = total
        if (total + SLACK) * row > room:
            part = max(256, min(PART_BYTES, room // 2) // row // 256 * 256)
        staging = Staging(device, d, dtype_of(kind), min(staged, (total + ALIGNED) * row))
        rows = cls(device, d, kind, n_rows, start, max(part, 1), fill, [], staging)
        if rows.resident:
            try:
                rows.parts = [rows.room(total)]
                rows.load(rows.parts[0], 0)
            finally:  # a pending copy would write into memory reused by others
                staging.drain()
            rows.staging = None
        return rows

    @classmethod
    def of_device(
        cls, device: Device, values: Any, labels: Any, n_rows: Ints, kind: int
    ) -> "DeviceRows":
        """Rows already on the device, with ALIGNED groups and SLACK after the last row."""
        start = places(n_rows)
        if values.shape[0] < start[-1] + SLACK or labels.shape[0] < start[-1] + SLACK:
            raise ValueError(f"rows need {start[-1] + SLACK} places, got {values.shape[0]}")
        total = int(start[-1])
        part = Part(0, total, values, labels)
        return cls(device, values.shape[1], kind, n_rows, start, total, None, [part])

    @property
    def resident(self) -> bool:
        """Returns whether all rows stay on the device."""
        return self.part_rows >= int(self.start[-1])

    def room(self, rows: int) -> Part:
        """Allocates memory for a part."""
        xp = self.device.xp
        values = xp.zeros((rows + SLACK, self.d), dtype_of(self.kind))
        part = Part(0, 0, values, xp.zeros(rows + SLACK, np.float64))
        part.used = self.device.mark_launches()  # after the zeros are written
        return part

    def load(self, part: Part, low: int) -> None:
        """Starts copying the rows from `low` on into a part. Later launches wait for the copy."""
        assert self.staging is not None
        assert self.fill is not None
        part.low, part.high = low, min(low + self.part_rows, int(self.start[-1]))
        if part.used is not None:
            self.device.upload_after(part.used)
        self.staging.copy(self.fill, part)
        self.uploads += 1
        self.device.launch_after(self.device.mark_uploads())

    def visit(self) -> Iterator[Part]:
        """Yields all parts, one after another. While one is in use, the next is copied."""
        if self.resident:
            yield from self.parts
            return
        if not self.parts:
            self.parts = [self.room(self.part_rows) for _ in range(2)]
        for number, low in enumerate(range(0, int(self.start[-1]), self.part_rows)):
            part = self.parts[number % 2]
            self.load(part, low)
            yield part
            part.used = self.device.mark_launches()

    def constant(self, name: str, array: NDArray[Any] | None) -> Any:
        """A copy of the array on the device, cached while passes give the same array."""
        if array is None:
            return None
        known = self.constants.get(name)
        if known is None or known[0] is not array:
            known = self.constants[name] = (array, self.device.to_device(array))
        return known[1]

    def close(self) -> None:
        """Frees the memory."""
        if self.staging is not None:
            self.staging.drain()
        self.parts, self.staging = [], None
        self.tables.clear()
        self.constants.clear()
        self.device.release()


def dtype_of(kind: int) -> np.dtype[Any]:
    """The type of the values of dense rows."""
    return np.dtype(np.float64 if kind & 1 else np.float32)
