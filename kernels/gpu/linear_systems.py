"""Curvatures that stay on the device, where Newton's step solves with them.

For 100,000 groups with 16 features they take 122 MB, and copying them to the host and back would
take longer than a pass over the rows. Operators use them like the array (G, p (p + 1) / 2).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.device import Device
from tuskml.kernels.passes import Floats, Solution

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
