"""What the passes need of a device: memory, kernels, and copies that run beside them.

Two orders of work: copies from pinned memory (`upload`) and kernels (`launch`). Each runs in its
own order, and neither waits for the other but at a mark.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.udas.gpu.source import Source


class Mark(Protocol):
    """A point in one of the orders of work."""

    def wait(self) -> None:
        """Returns when the device has got there."""


class Device(Protocol):
    """A GPU, or what stands in for it. xp: its arrays' module, NumPy's interface."""

    @property
    def name(self) -> str: ...

    @property
    def xp(self) -> Any: ...

    @property
    def shared_bytes(self) -> int:
        """Shared memory that a block may have."""

    def free_bytes(self) -> int:
        """Memory that could be allocated."""

    def to_device(self, array: NDArray[Any]) -> Any:
        """A copy on the device."""

    def to_host(self, array: Any) -> NDArray[Any]:
        """A copy in NumPy's memory, of what the launches before leave."""

    def pinned(self, size: int) -> NDArray[np.uint8]:
        """Host memory that uploads need not copy first."""

    def launch(self, source: Source, grid: tuple[int, int], arguments: Sequence[Any]) -> None:
        """Starts a kernel; arguments are the device's arrays, NumPy scalars, None for NULL."""

    def upload(self, target: Any, source: NDArray[Any]) -> None:
        """Starts a copy of pinned memory to a contiguous array of the same bytes."""

    def uploaded(self) -> Mark:
        """Behind all uploads so far."""

    def launched(self) -> Mark:
        """Behind all launches so far."""

    def launch_after(self, mark: Mark) -> None:
        """Launches from now on begin behind the mark."""

    def upload_after(self, mark: Mark) -> None:
        """Uploads from now on begin behind the mark."""

    def release(self) -> None:
        """Gives memory that nothing uses back to the system."""
