"""The interface of a device for the passes: memory, kernels, and copies that run concurrently.

A device has two queues of work: copies from pinned memory (`upload`) and kernels (`launch`). Each
queue runs in order, and waits for the other only at a mark.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu.source import Source


class Mark(Protocol):
    """A point in one of the queues of work."""

    def wait(self) -> None:
        """Waits until the device has reached the mark."""


class Device(Protocol):
    """A GPU, or a stand-in for one. xp: the module of its arrays, with NumPy's interface."""

    @property
    def name(self) -> str: ...

    @property
    def xp(self) -> Any: ...

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a block may use."""

    @property
    def double_cost(self) -> int:
        """Number of floats computed in the time of one double."""

    def enter(self) -> AbstractContextManager[None]:
        """A context in which arrays of `xp` are computed in the queue of kernels."""

    def free_bytes(self) -> int:
        """Bytes of memory that can be allocated."""

    def to_device(self, array: NDArray[Any]) -> Any:
        """Copies an array to the device."""

    def to_host(self, array: Any) -> NDArray[Any]:
        """Copies an array to NumPy's memory after all earlier launches have finished."""

    def allocate_pinned(self, size: int) -> NDArray[np.uint8]:
        """Allocates pinned host memory, which uploads read without an extra copy."""

    def launch(self, source: Source, grid: tuple[int, int], arguments: Sequence[Any]) -> None:
        """Launches a kernel. Arguments: arrays on the device, NumPy scalars, or None for NULL."""

    def upload(self, target: Any, source: NDArray[Any]) -> None:
        """Starts a copy from pinned memory to a contiguous array of the same size."""

    def mark_uploads(self) -> Mark:
        """A mark after all uploads so far."""

    def mark_launches(self) -> Mark:
        """A mark after all launches so far."""

    def launch_after(self, mark: Mark) -> None:
        """Makes later launches wait for the mark."""

    def upload_after(self, mark: Mark) -> None:
        """Makes later uploads wait for the mark."""

    def release(self) -> None:
        """Returns unused memory to the system."""
