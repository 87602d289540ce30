"""A `Pass` whose rows are on a device. Operators use it like any other pass.

The rows are also in the host's memory. So the CPU's kernels take over where the device cannot: for
rows that are not on the device, or for an epoch whose model is too wide.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.gpu import curvature, source
from tuskml.kernels.gpu.device import Device
from tuskml.kernels.gpu.epochs import run_epoch
from tuskml.kernels.gpu.linear_systems import DeviceTriangles
from tuskml.kernels.gpu.placed_pass import PlacedPass, Visit
from tuskml.kernels.gpu.rows import DeviceRows, places
from tuskml.kernels.passes import Epoch, Floats, Pass, Triangles
from tuskml.kernels.segments import value_size


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
