"""A `Pass` whose rows are also on a device, and visits of them there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.rows import DeviceRows, DeviceTable, Part, chunk_rows, table, within
from tuskml.kernels.gpu.source import Source
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import value_size


@dataclass(frozen=True)
class PlacedPass(Pass):
    """The rows of G groups: groups `which` of those on the device, and their launch parameters.

    heads: addresses of the groups' rows in the host's memory, which identify the rows.
    """

    on_device: DeviceRows | None = None
    which: NDArray[np.intp] | None = None
    heads: NDArray[np.uintp] | None = None

    @property
    def device(self) -> Device:
        """The device of the rows."""
        assert self.on_device is not None
        return self.on_device.device

    @property
    def at_hand(self) -> bool:
        """Returns whether the rows of the pass are those on the device."""
        if self.on_device is None or self.which is None or self.heads is None:
            return False
        return (
            len(self.which) == self.n_groups
            and np.array_equal(self.groups["head"], self.heads)
            and np.array_equal(self.groups["n_rows"], self.on_device.n_rows[self.which])
        )

    def losses_on_device(self) -> list[Any]:
        """Kernel arguments: the loss, and the meaning of the groups' labels."""
        assert self.on_device is not None
        held = self.on_device
        copies = [
            held.constant("positive", self.positive),
            held.constant("weight", self.class_weight),
        ]
        return [np.int32(self.loss), np.float64(self.smoothing), *copies]

    def table(self, part: Part) -> DeviceTable:
        """Chunks of the part's rows, cached for the next pass over the same groups."""
        rows = self.on_device
        assert rows is not None
        key = (part.low, part.high, self.stride)
        known = rows.tables.get(key)
        assert self.which is not None
        if known is not None and np.array_equal(known[0], self.which):
            return known[1]
        first, n_rows = within(
            rows.start[:-1][self.which], rows.n_rows[self.which], part.low, part.high
        )
        step = chunk_rows(rows.n_rows[self.which], self.stride)
        placed = DeviceTable(table(first, n_rows, step, self.stride), self.device)
        rows.tables[key] = (self.which, placed)
        return placed


class Visit:
    """A pass over one part of the rows: arguments that its kernels share, and memory for sums.

    rows: values, labels and chunks. out (G + partial, width): each group's sums in its row. apart:
    sums (G, ...) that are too large to have one copy per chunk; they follow those of `out`.
    """

    def __init__(
        self,
        rows: PlacedPass,
        part: Part,
        placed: DeviceTable,
        weights: Any,
        losses: list[Any],
        width: int,
    ) -> None:
        self.of, self.part, self.placed, self.table = rows, part, placed, placed.table
        self.device, self.width = rows.device, width
        self.weights, self.losses = weights, losses
        self.n_chunks, self.usual_rows = placed.n_chunks, placed.usual_rows
        self.rows = [part.values, part.labels, placed.chunks]
        shape = (rows.n_groups + placed.table.n_partial, width)
        new = self.device.xp.empty if placed.whole else self.device.xp.zeros
        self.out = new(shape, np.float64)
        self.apart: Any = None

    def launch(self, kernel: Source, arguments: Sequence[Any], slabs: int = 1) -> None:
        """Launches one block per chunk."""
        if self.n_chunks:
            self.device.launch(kernel, (self.n_chunks, slabs), arguments)

    def wide(self, curvature: Any) -> None:
        """Sums of rows of any width.

        curvature (rows,): receives h by row, or None.
        """
        d = self.of.n_features
        size = value_size(int(self.of.groups["kind"][0]))
        derivative = self.device.xp.empty(self.part.values.shape[0], np.float64)
        shape = [np.int64(d), np.int64(self.width)]
        arguments = [*self.rows, self.weights, *self.losses, *shape, derivative, curvature]
        self.launch(source.wide("wide_rows", size), [*arguments, self.out])
        if self.width > 2:
            columns = source.wide("wide_columns", size)
            arguments = [self.part.values, self.placed.chunks, *shape, derivative, self.out]
            self.launch(columns, arguments, -(-d // 256))

    def add_chunks(self) -> None:
        """Adds up the sums of groups of several chunks."""
        if self.placed.n_spans:
            grid = (self.placed.n_spans, -(-self.width // 32))
            arguments = [self.out, self.placed.spans, np.int32(self.width), self.out]
            self.device.launch(source.SUMS, grid, arguments)
