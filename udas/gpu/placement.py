"""Whether a batch of groups trains on the GPU: what the option `device` asks and what is there."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.udas.gpu import cuda
from tuskml.udas.gpu.passes import DevicePass, on_device
from tuskml.udas.kernels import Pass
from tuskml.udas.segments import dense_bytes

LEAST_BYTES = 1 << 30
"""Of rows, where `auto` takes a GPU that is there.

Not measured: where a pass takes the CPU milliseconds, less is saved than copying the rows,
compiling the kernels and launching them costs.
"""


@dataclass(frozen=True)
class Answer:
    """Whether to use the GPU, and why (not), in words."""

    use: bool
    reason: str

    def taken(self, option: str) -> bool:
        """Whether to use it. OptionError where `device` is 'gpu' and it cannot be."""
        if option == "gpu" and not self.use:
            raise OptionError(
                f"option 'device' is 'gpu', but {self.reason}; expected 'auto' or 'cpu' here"
            )
        return self.use

    def told(self, option: str) -> str:
        """For an explanation, where kernels run."""
        if self.use:
            return f"gpu: {self.reason}"
        return "cpu" + (f"; gpu not possible: {self.reason}" if option != "cpu" else "")


def answer(option: str, groups: NDArray[np.void]) -> Answer:
    """What `device` comes to for groups of one kind; never an error."""
    sparse = bool(groups["kind"][0] >= 2)
    reason = refusal(option, sparse, 0 if sparse else dense_bytes(groups))
    return Answer(True, cuda.device().name) if reason is None else Answer(False, reason)


def refusal(option: str, sparse: bool, size: int) -> str | None:
    """Why rows of `size` bytes do not train on the GPU; None where they do."""
    if option == "cpu":
        return "device is 'cpu'"
    if sparse:
        return "features are sparse, and it takes dense ones"
    if option == "auto" and size < LEAST_BYTES:
        return f"rows take {size / 2**20:,.1f} MiB, from {LEAST_BYTES >> 20:,} MiB on it would pay"
    return cuda.availability()


def without_kernels(what: str) -> Answer:
    """Of what the GPU has no kernels for."""
    return Answer(False, f"{what} runs on the CPU alone")


def refuse_gpu(option: str, what: str) -> None:
    """Raises OptionError where 'gpu' is asked for and `what` has no kernels for it."""
    without_kernels(what).taken(option)


@contextmanager
def on_gpu(rows: Pass) -> Iterator[Pass]:
    """The same rows on the GPU, until the context ends. TuskError where it fails."""
    with cuda.failures():
        placed = on_device(rows, cuda.device())
        assert isinstance(placed, DevicePass)
        assert placed.on_device is not None
        try:
            yield placed
        finally:
            placed.on_device.close()


def gpu_name() -> str:
    """The device's, for a model's `plan`."""
    return cuda.device().name
