"""The decision whether a batch of groups trains on the GPU, by the option `device` and the
hardware.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.gpu import cuda
from tuskml.kernels.gpu.passes import DevicePass, on_device
from tuskml.kernels.passes import Pass
from tuskml.kernels.segments import dense_bytes
from tuskml.schedule import budget

PASSES = 20
"""Assumed number of passes over the rows in a training: more by gradients, fewer by curvatures."""
THREAD_BANDWIDTH, BUS_BANDWIDTH = 6.5e9, 40e9
"""Bytes of rows per second that a thread of the CPU reads for gradients, and that are copied to
the GPU, measured on the host of an H200 with 16 threads. The GPU's passes take negligible time in
comparison.
"""
START, SHAPE = 2.0, 0.6
"""Seconds to start a GPU in a process, and to compile the kernels for a width of rows."""
LEAST_LEFT, HYSTERESIS = 0.05, 0.2
"""Least seconds left of a training, and least relative gain, for a move to the GPU."""
PARTS = 4
"""Parts of the rows that are on the GPU one at a time, after it ran out of memory."""
SLOW_DOUBLES = 8
"""Floats in the time of a double from which on `auto` keeps rows on the CPU: kernels sum in
double, which a desktop's GPU does at 1/64 of the speed.
"""
NEVER_BELOW = int(SHAPE * THREAD_BANDWIDTH / PASSES)
"""Lower bound of `least_bytes`: even a GPU in use has to compile kernels for new rows, while one
thread trains them.
"""
Trained = TypeVar("Trained")


@dataclass(frozen=True)
class Answer:
    """The decision whether to use the GPU, and its reason in words."""

    use: bool
    reason: str

    def is_gpu(self, option: str) -> bool:
        """Returns whether to use the GPU. Raises OptionError if `device` is 'gpu' and it is not
        usable.
        """
        if option == "gpu" and not self.use:
            raise OptionError(
                f"option 'device' is 'gpu', but {self.reason}; expected 'auto' or 'cpu' here"
            )
        return self.use

    def describe(self, option: str) -> str:
        """Returns where kernels run, as text for an explanation."""
        if self.use:
            return f"gpu: {self.reason}"
        return "cpu" + (f"; gpu not possible: {self.reason}" if option != "cpu" else "")


def answer(option: str, groups: NDArray[np.void]) -> Answer:
    """Decides whether groups of one kind use the GPU. Never raises an error."""
    sparse = bool(groups["kind"][0] >= 2)
    reason = refusal(option, sparse, 0 if sparse else dense_bytes(groups))
    return Answer(True, cuda.device().name) if reason is None else Answer(False, reason)


def refusal(option: str, sparse: bool, size: int) -> str | None:
    """Says why rows of `size` bytes do not train on the GPU; None if they do."""
    if option == "cpu":
        return "device is 'cpu'"
    if sparse:
        return "features are sparse, and a GPU takes dense ones"
    if option == "auto" and size < least_bytes():
        return (
            f"rows take {size / 2**20:,.1f} MiB, a GPU is used from {least_bytes() >> 20:,} MiB on"
        )
    reason = cuda.availability()
    if reason is None and option == "auto" and cuda.device().double_cost > SLOW_DOUBLES:
        cost = cuda.device().double_cost
        return f"the GPU computes in double at 1/{cost} of its speed; 'device' 'gpu' takes it"
    return reason


def least_bytes() -> int:
    """Bytes of rows from which on `auto` uses an available GPU.

    The passes that it spares the CPU's threads then take longer than to get the GPU, unless this
    process has it already, to compile kernels and to copy the rows.
    """
    return int(beginning() / max(saved_seconds_per_byte(), 1 / BUS_BANDWIDTH))


def saved_seconds(groups: NDArray[np.void]) -> float:
    """Seconds by which dense rows are expected to train sooner on the GPU than by threads."""
    return max(saved_seconds_per_byte() * dense_bytes(groups) - beginning(), 0.0)


def least_left(groups: NDArray[np.void]) -> float:
    """Seconds that a training must have left by the CPU to go on by the GPU, which has kernels."""
    return LEAST_LEFT + dense_bytes(groups) / BUS_BANDWIDTH / (1 - HYSTERESIS)


def saved_seconds_per_byte() -> float:
    """Seconds of the CPU's threads for all passes over a byte, less those of its copy."""
    return PASSES / (THREAD_BANDWIDTH * budget.threads()) - 1 / BUS_BANDWIDTH


def beginning() -> float:
    """Seconds to get the GPU, unless this process has it, and to compile kernels."""
    return SHAPE + START * (not cuda.in_use())


def without_kernels(what: str) -> Answer:
    """The answer for a task that has no GPU kernels."""
    return Answer(False, f"{what} runs on the CPU only")


def refuse_gpu(option: str, what: str) -> None:
    """Raises OptionError if the option is 'gpu' and `what` has no GPU kernels."""
    without_kernels(what).is_gpu(option)


@contextmanager
def on_gpu(rows: Pass, budget: int | None = None) -> Iterator[Pass]:
    """The same rows on the GPU, until the context ends. Raises GpuError on failure.

    budget: bytes for rows; None means all free memory of the GPU.
    """
    with cuda.failures():
        placed = on_device(rows, cuda.device(), budget)
        assert isinstance(placed, DevicePass)
        assert placed.on_device is not None
        try:
            yield placed
        finally:
            placed.on_device.close()


def train_on_gpu(rows: Pass, train: Callable[[Pass], Trained]) -> Trained:
    """What `train` makes of the rows on the GPU, in parts if its memory does not do for all."""
    try:
        with on_gpu(rows) as placed:
            return train(placed)
    except cuda.GpuError as error:
        if not error.no_memory:
            raise
    with on_gpu(rows, dense_bytes(rows.groups) // PARTS) as placed:
        return train(placed)


def gpu_name() -> str:
    """The name of the GPU, for a model's `plan`."""
    return cuda.device().name
