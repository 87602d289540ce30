"""Whether a batch of groups trains on the GPU, by the option `device` and the available GPU."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.gpu import cuda
from tuskml.kernels.gpu.passes import DevicePass, on_device
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import dense_bytes

LEAST_BYTES = 1 << 30
"""Bytes of rows from which on `auto` uses an available GPU.

Not measured. If a pass takes the CPU only milliseconds, the GPU saves less time than it takes to
copy the rows and to compile and launch the kernels.
"""


@dataclass(frozen=True)
class Answer:
    """Whether to use the GPU, and the reason in words."""

    use: bool
    reason: str

    def taken(self, option: str) -> bool:
        """Whether to use the GPU. Raises OptionError if `device` is 'gpu' and it is not usable."""
        if option == "gpu" and not self.use:
            raise OptionError(
                f"option 'device' is 'gpu', but {self.reason}; expected 'auto' or 'cpu' here"
            )
        return self.use

    def told(self, option: str) -> str:
        """Where kernels run, as text for an explanation."""
        if self.use:
            return f"gpu: {self.reason}"
        return "cpu" + (f"; gpu not possible: {self.reason}" if option != "cpu" else "")


def answer(option: str, groups: NDArray[np.void]) -> Answer:
    """Decides whether groups of one kind use the GPU. Never raises an error."""
    sparse = bool(groups["kind"][0] >= 2)
    reason = refusal(option, sparse, 0 if sparse else dense_bytes(groups))
    return Answer(True, cuda.device().name) if reason is None else Answer(False, reason)


def refusal(option: str, sparse: bool, size: int) -> str | None:
    """Why rows of `size` bytes do not train on the GPU; None if they do."""
    if option == "cpu":
        return "device is 'cpu'"
    if sparse:
        return "features are sparse, and a GPU takes dense ones"
    if option == "auto" and size < LEAST_BYTES:
        return (
            f"rows take {size / 2**20:,.1f} MiB, a GPU is used from {LEAST_BYTES >> 20:,} MiB on"
        )
    return cuda.availability()


def without_kernels(what: str) -> Answer:
    """The answer for a task that has no GPU kernels."""
    return Answer(False, f"{what} runs on the CPU only")


def refuse_gpu(option: str, what: str) -> None:
    """Raises OptionError if the option is 'gpu' and `what` has no GPU kernels."""
    without_kernels(what).taken(option)


@contextmanager
def on_gpu(rows: Pass) -> Iterator[Pass]:
    """The same rows on the GPU, until the context ends. Raises TuskError on failure."""
    with cuda.failures():
        placed = on_device(rows, cuda.device())
        assert isinstance(placed, DevicePass)
        assert placed.on_device is not None
        try:
            yield placed
        finally:
            placed.on_device.close()


def gpu_name() -> str:
    """The name of the GPU, for a model's `plan`."""
    return cuda.device().name
