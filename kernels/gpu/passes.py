"""A `Pass` whose rows are on a device. Operators use it like any other pass.

The rows are also in the host's memory. So the CPU's kernels take over where the device cannot: for
rows that are not on the device, or for an epoch whose model is too wide.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.gpu import curvature, source
from tuskml.kernels.gpu.chunks import chunk_rows, table, within
from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.epochs import run_epoch
from tuskml.kernels.gpu.linear_systems import DeviceTriangles
from tuskml.kernels.gpu.rows import DeviceRows, Part, Placed, places
from tuskml.kernels.gpu.source import Source
from tuskml.kernels.passes import Epoch, Floats, Pass, Triangles
from tuskml.kernels.segments import value_size


@dataclass(frozen=True)
class DevicePass(Pass):
    """The rows of G groups: groups `which` of those on the device.

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
        """Whether these very rows are on the device."""
        if self.on_device is None or self.which is None or self.heads is None:
            return False
        return (
            len(self.which) == self.n_groups
            and np.array_equal(self.groups["head"], self.heads)
            and np.array_equal(self.groups["n_rows"], self.on_device.n_rows[self.which])
        )

    def of(self, which: NDArray[np.intp]) -> Pass:
        if len(which) == self.n_groups or self.which is None or self.heads is None:
            return super().of(which)
        return replace(super().of(which), which=self.which[which], heads=self.heads[which])  # type: ignore[call-arg]

    def gradient(self, weights: Floats) -> Floats:
        if not self.at_hand:
            return super().gradient(weights)
        width = 2 if self.loss_only else self.n_features + 3
        return self.sums(weights, width, self._gradient_of)

    def _gradient_of(self, visit: "Visit") -> None:
        d, size = self.n_features, value_size(int(self.groups["kind"][0]))
        kernel = source.gradient(d, size, visit.usual_rows) if d <= source.MOST_FUSED else None
        if kernel is None or kernel.shared > self.device.shared_bytes:
            visit.wide(None)
            return
        visit.launch(kernel, [*visit.rows, visit.weights, *visit.losses,
                              np.int32(self.loss_only), visit.out])  # fmt: skip

    def curvature(self, weights: Floats, shift: Floats, scale: Floats, precise: bool) -> Floats:
        if not self.at_hand:
            return super().curvature(weights, shift, scale, precise)
        return self.device.to_host(self._curvature_sums(weights, shift, scale, precise))

    def curvature_apart(
        self, weights: Floats, shift: Floats, scale: Floats, precise: bool
    ) -> tuple[Floats, Triangles]:
        d = self.n_features
        if not self.at_hand or d > source.MOST_GROUPED:
            return super().curvature_apart(weights, shift, scale, precise)
        sums = self._curvature_sums(weights, shift, scale, precise)
        apart = DeviceTriangles(self.device, sums[:, d + 3 :], self.p)
        return self.device.to_host(sums[:, : d + 3]), apart

    def _curvature_sums(self, weights: Floats, shift: Floats, scale: Floats, precise: bool) -> Any:
        place = [self.device.to_device(a) for a in (shift, scale)]

        def curvature_of(visit: "Visit") -> None:
            d, size = self.n_features, value_size(int(self.groups["kind"][0]))
            if d > source.MOST_GROUPED:
                visit.apart = curvature.add_wide(visit, place[0], place[1], precise)
                return
            kernel = source.curvature(d, size)
            arguments = [*visit.rows, visit.weights, *place, *visit.losses, visit.out]
            visit.launch(kernel, arguments)

        p = self.p
        inside = 0 if self.n_features > source.MOST_GROUPED else p * (p + 1) // 2
        return self.sums_on_device(weights, p + 2 + inside, curvature_of)

    def sums(self, weights: Floats, width: int, launch: Any) -> Floats:
        """Sums by group (G, width). `launch` adds them up for each part of the rows."""
        return self.device.to_host(self.sums_on_device(weights, width, launch))

    def sums_on_device(self, weights: Floats, width: int, launch: Any) -> Any:
        """The same, left on the device."""
        assert self.on_device is not None
        given = self.device.to_device(np.asarray(weights, np.float64))
        losses = self.losses_on_device()
        total = None
        for part in self.on_device.visit():
            passes.raise_if_cancelled(self.cancel_mark)
            visit = Visit(self, part, self._table(part), given, losses, width)
            launch(visit)
            visit.add_chunks()
            here = visit.out[: self.n_groups]
            if visit.apart is not None:
                here = self.device.xp.concatenate([here, visit.apart], axis=1)
            total = here if total is None else total + here
        return total

    def losses_on_device(self) -> list[Any]:
        """Kernel arguments: the loss, and the meaning of the groups' labels."""
        assert self.on_device is not None
        held = self.on_device
        given = [
            held.constant("positive", self.positive),
            held.constant("weight", self.class_weight),
        ]
        return [np.int32(self.loss), np.float64(self.smoothing), *given]

    def _table(self, part: Part) -> Placed:
        """Chunks of the part's rows. They are cached for the next pass over the same groups."""
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
        made = Placed(table(first, n_rows, step, self.stride), self.device)
        rows.tables[key] = (self.which, made)
        return made

    def sgd(self, epoch: Epoch, weights: Floats, average: Floats | None, shared: bool) -> Floats:
        if not self._runs_epochs():
            return super().sgd(epoch, weights, average, shared)
        return run_epoch(self, epoch, weights, average)

    def svrg(
        self, epoch: Epoch, anchor: Floats, full: Floats, weights: Floats, average: Floats
    ) -> None:
        if not self._runs_epochs():
            super().svrg(epoch, anchor, full, weights, average)
            return
        run_epoch(self, epoch, weights, average, (anchor, full))

    def _runs_epochs(self) -> bool:
        """Whether an epoch can run on the device: all rows are there, and a model fits a block."""
        return (
            self.at_hand
            and self.on_device is not None
            and self.on_device.resident
            and source.fits_epoch(self.n_features, self.device.shared_bytes)
        )


class Visit:
    """A pass over one part of the rows: arguments that its kernels share, and memory for sums.

    rows: values, labels and chunks. out (G + partial, width): each group's sums in its row. apart:
    sums (G, ...) that are too large to have one copy per chunk; they follow those of `out`.
    """

    def __init__(
        self, rows: Pass, part: Part, placed: Placed, weights: Any, losses: list[Any], width: int
    ) -> None:
        assert isinstance(rows, DevicePass)
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
        """Sums of rows of any width. curvature (rows,): receives h by row; None: not wanted."""
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


def on_device(rows: Pass, device: Device, budget: int | None = None) -> Pass:
    """The same dense rows, copied to the device. budget: bytes there for rows, for tests."""
    groups = rows.groups

    d, kind = rows.n_features, int(groups["kind"][0])
    n_rows = groups["n_rows"].astype(np.int64)
    start = places(n_rows)

    def fill(first: int, values: NDArray[Any], labels: NDArray[np.float64]) -> None:
        rows.copy_rows(start, first, values, labels)

    placed = DeviceRows.of_host(device, d, kind, n_rows, fill, budget)
    return DevicePass(
        **{name: getattr(rows, name) for name in Pass.__dataclass_fields__},
        on_device=placed,
        which=np.arange(len(groups)),
        heads=groups["head"].copy(),
    )
