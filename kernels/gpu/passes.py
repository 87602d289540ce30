"""A `Pass` whose rows are on a device. Operators use it like any other pass.

The rows are also in the host's memory. So the CPU's kernels take over where the device cannot: for
rows that are not on the device, or for an epoch whose model is too wide.

The curvature of more features than a block's registers hold is computed in panels by cuBLAS.

In stochastic epochs one launch trains all groups, one block per group. Rows come in the same runs
as in the CPU's kernels (`tk_runs`), so the steps are the same. A group keeps only one block busy,
so the GPU pays off only for many groups.

Curvatures stay on the device, where Newton's step solves with them. For 100,000 groups with 16
features they take 122 MB, and copying them to the host and back would take longer than a pass over
the rows. Operators use them like the array (G, p (p + 1) / 2).
"""

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.placed_pass import PlacedPass, Visit
from tuskml.kernels.gpu.rows import DeviceRows, places
from tuskml.kernels.passes import Epoch, Floats, Pass, Solution, Triangles, raise_if_cancelled
from tuskml.kernels.segments import value_size

Which = NDArray[np.bool_] | NDArray[np.intp]


class DeviceTriangles:
    """Packed lower triangles of G symmetric p x p matrices; values (G, p (p + 1) / 2)."""

    def __init__(self, device: Device, values: Any, p: int) -> None:
        self.device, self.values, self.p = device, values, p

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the array that this represents."""
        return len(self.values), self.p * (self.p + 1) // 2

    def _places(self, which: Which) -> Any:
        numbers = np.flatnonzero(which) if which.dtype == bool else which
        return self.device.to_device(np.asarray(numbers, np.int64))

    def __getitem__(self, which: Which) -> "DeviceTriangles":
        return DeviceTriangles(self.device, self.values[self._places(which)], self.p)

    def __setitem__(self, which: Which, other: "DeviceTriangles | Floats") -> None:
        if isinstance(other, np.ndarray):
            self.values[self._places(which)] = self.device.to_device(other)
        else:
            self.values[self._places(which)] = other.values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.device.to_host(self.values), dtype)

    def __truediv__(self, by: Floats) -> "DeviceTriangles":
        return DeviceTriangles(self.device, self.values / self.device.to_device(by), self.p)

    def copy(self) -> "DeviceTriangles":
        """Copies the values."""
        return DeviceTriangles(self.device, self.values.copy(), self.p)

    def room(self, n: int) -> "DeviceTriangles":
        """Allocates triangles of the same size for n groups."""
        values = self.device.xp.empty((n, self.shape[1]), np.float64)
        return DeviceTriangles(self.device, values, self.p)

    def add_to_diagonal(self, more: Floats) -> None:
        """Adds `more` (G, p) to the diagonals."""
        rows = np.arange(self.p)
        places = self.device.to_device(rows * (rows + 1) // 2 + rows)
        self.values[:, places] += self.device.to_device(
            np.broadcast_to(more, (len(self.values), self.p))
        )

    def clear_last_row(self) -> None:
        """Removes the last coordinate from the systems."""
        self.values[:, self.shape[1] - self.p :] = 0.0

    def solve(self, gradient: Floats) -> Solution:
        """Solves for steps (G, p) in one launch, like `kernels.solve`."""
        xp, n = self.device.xp, len(self.values)
        step, rank = xp.empty((n, self.p), np.float64), xp.empty(n, np.int64)
        pivot = xp.empty(n, np.float64)
        right_side = self.device.to_device(gradient)
        values = xp.ascontiguousarray(self.values)
        arguments = [values, right_side, step, rank, pivot]
        self.device.launch(source.solver(self.p), (n, 1), arguments)
        host = self.device.to_host
        return Solution(host(step), host(rank), host(pivot), None)


PIECE_VALUES = 1 << 23
"""Values of a group's rows per launch: tens of milliseconds for its block between checks for a
cancel.
"""


def run_epoch(
    rows: PlacedPass,
    epoch: Epoch,
    weights: Floats,
    average: Floats | None,
    anchored: tuple[Floats, Floats] | None = None,
) -> Floats:
    """Runs one epoch: updates weights (G, p) and fills average (G, p).

    Returns sums of losses (G,), each taken before its step. anchored: SVRG's anchor and the mean
    gradient there, both (G, p).
    """
    raise_if_cancelled(rows.cancel_mark)
    held, device = rows.on_device, rows.device
    assert held is not None
    assert rows.which is not None
    put, n, d = device.to_device, rows.n_groups, rows.n_features
    (part,) = held.visit()
    kernel = source.epoch(d, value_size(held.kind), epoch.batch_size, anchored is not None)
    place = [put(held.start[:-1][rows.which]), put(held.n_rows[rows.which])]
    runs = [put(a) for a in rows.runs(epoch)]
    moved, loss = put(weights), device.xp.zeros(n, np.float64)
    mean: Any = None if average is None else device.xp.empty((n, d + 1), np.float64)
    arguments = [
        part.values,
        part.labels,
        *place,
        *runs,
        *rows.losses_on_device(),
        np.int32(rows.fit_intercept),
        np.int32(d),
        np.int32(epoch.batch_size),
        np.int32(epoch.power),
        np.float64(epoch.epochs_done),
        np.float64(epoch.l1),
        np.float64(epoch.l2),
        *(put(a) for a in (epoch.step, epoch.shift, epoch.scale)),
        *(put(a) for a in anchored or (np.zeros(1), np.zeros(1))),
    ]
    each = max(epoch.batch_size, PIECE_VALUES // d)
    carried = device.xp.empty((n, 2 * d + 7), np.float64)
    for piece in range(-(-int(held.n_rows[rows.which].max()) // each)):
        if piece:
            device.mark_launches().wait()
            raise_if_cancelled(rows.cancel_mark)
        whole = [*arguments, np.int32(piece > 0), np.int64(each), carried, moved, mean, loss]
        device.launch(kernel, (n, 1), whole)
    weights[:] = device.to_host(moved)
    if average is not None:
        average[:] = device.to_host(mean)
    return device.to_host(loss)


PANEL_ROWS = 1 << 13
PANEL_BYTES = 256 << 20


def add_wide(visit: Visit, shift: Any, scale: Any, precise: bool) -> Any:
    """Adds up a part's gradients and sum(h z z') (G, p (p + 1) / 2), one group after another.

    Sums within a panel are in the rows' type, or in double when `precise`. Sums over panels are in
    double.
    """
    device, of = visit.device, visit.of
    xp, d = device.xp, of.n_features
    size = value_size(int(of.groups["kind"][0]))
    each = 8 if precise or size == 8 else 4
    curvature = xp.zeros(visit.part.values.shape[0], np.float64)
    visit.wide(curvature)
    rows = max(32, min(PANEL_ROWS, PANEL_BYTES // ((d + 1) * each)))
    panel = xp.empty((rows, d + 1), np.float32 if each == 4 else np.float64)
    kernel = source.wide("wide_panel", size, each)
    assert of.on_device is not None
    below = of.on_device.constant("below", triangle(d + 1))
    chunks = visit.table.chunks
    sums = xp.zeros((of.n_groups, (d + 1) * (d + 2) // 2), np.float64)
    for own in np.split(chunks, np.flatnonzero(np.diff(chunks["group"])) + 1):
        if not len(own):
            continue
        raise_if_cancelled(of.cancel_mark)
        group, total = int(own["group"][0]), xp.zeros((d + 1, d + 1), np.float64)
        for first, n in panels(own, rows):
            arguments = [
                visit.part.values,
                np.int64(first),
                curvature,
                shift[group],
                scale[group],
                np.int64(d),
                panel,
            ]
            device.launch(kernel, (n, -(-(d + 1) // 256)), arguments)
            some = panel[:n]
            total += some.T @ some
        sums[group] = total[below[0], below[1]]
    return sums


@functools.lru_cache(maxsize=4)
def triangle(p: int) -> NDArray[np.int64]:
    """Rows and columns of a packed lower triangle, (2, p (p + 1) / 2)."""
    return np.stack(np.tril_indices(p))


def panels(chunks: Any, rows: int) -> list[tuple[int, int]]:
    """Cuts chunks into panels: first row and number of rows. Joins neighbouring chunks."""
    ranges: list[tuple[int, int]] = []
    for chunk in chunks:
        first, left = int(chunk["first"]), int(chunk["rows"])
        if ranges and sum(ranges[-1]) == first and ranges[-1][1] < rows:
            more = min(left, rows - ranges[-1][1])
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + more)
            first, left = first + more, left - more
        while left > 0:
            ranges.append((first, min(left, rows)))
            first, left = first + min(left, rows), left - min(left, rows)
    return ranges


@dataclass(frozen=True)
class DevicePass(PlacedPass):
    """Sums over rows, by the device's kernels."""

    def of(self, which: NDArray[np.intp]) -> Pass:
        if len(which) == self.n_groups or self.which is None or self.heads is None:
            return super().of(which)
        return replace(super().of(which), which=self.which[which], heads=self.heads[which])  # type: ignore[call-arg]

    def gradient(self, weights: Floats) -> Floats:
        if not self.at_hand:
            return super().gradient(weights)
        width = 2 if self.loss_only else self.n_features + 3
        return self.sums(weights, width, self._gradient_of)

    def _gradient_of(self, visit: Visit) -> None:
        d, size = self.n_features, value_size(int(self.groups["kind"][0]))
        kernel = source.gradient(d, size, visit.usual_rows) if d <= source.MOST_FUSED else None
        if kernel is None or kernel.shared > self.device.shared_bytes:
            visit.wide(None)
            return
        visit.launch(
            kernel,
            [*visit.rows, visit.weights, *visit.losses, np.int32(self.loss_only), visit.out],
        )

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

        def curvature_of(visit: Visit) -> None:
            d, size = self.n_features, value_size(int(self.groups["kind"][0]))
            if d > source.MOST_GROUPED:
                visit.apart = add_wide(visit, place[0], place[1], precise)
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
        """Sums by group as in `sums`, left on the device."""
        assert self.on_device is not None
        copies = self.device.to_device(np.asarray(weights, np.float64))
        losses = self.losses_on_device()
        total = None
        for part in self.on_device.visit():
            passes.raise_if_cancelled(self.cancel_mark)
            visit = Visit(self, part, self.table(part), copies, losses, width)
            launch(visit)
            visit.add_chunks()
            here = visit.out[: self.n_groups]
            if visit.apart is not None:
                here = self.device.xp.concatenate([here, visit.apart], axis=1)
            total = here if total is None else total + here
        return total

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
        """Returns whether an epoch can run on the device: all rows are there, and a model fits a
        block.
        """
        return (
            self.at_hand
            and self.on_device is not None
            and self.on_device.resident
            and source.fits_epoch(self.n_features, self.device.shared_bytes)
        )


def on_device(rows: Pass, device: Device, budget: int | None = None) -> Pass:
    """The same dense rows, copied to the device.

    budget: bytes for rows there, for tests.
    """
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
