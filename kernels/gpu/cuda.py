"""CuPy's device. Only this module imports CuPy, and only when a GPU is requested."""

import functools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import TuskError
from tuskml.kernels.gpu.device import Device, Mark
from tuskml.kernels.gpu.source import Source

INSTALL = "pip install 'tuskml[gpu]'"
ASKED_SHARED = 40 << 10
"""Bytes of shared memory, static and dynamic, that a kernel has without a request: 48 KiB."""
LEAST_CAPABILITY = 80
"""Compute capability 8.0, the first with asynchronous copies into shared memory."""


@functools.cache
def availability() -> str | None:
    """Why no GPU can be used: package, driver or device is missing. None if a GPU can be used."""
    if _left_behind.is_set():
        return (
            "this process was forked from one that uses the GPU, which CUDA does not survive: "
            "start it by 'spawn'"
        )
    try:
        import cupy
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return f"CuPy is not installed: {INSTALL}"
        return f"CuPy cannot be imported ({first_line(error)}): {INSTALL}"
    try:
        return missing_hardware(cupy) or missing_compiler(cupy)
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CUDA finds no usable device ({first_line(error)})"


def missing_hardware(cupy: Any) -> str | None:
    """Which requirement of CuPy is missing: the driver, a device, or a device new enough."""
    if cupy.cuda.runtime.driverGetVersion() == 0:
        return "there is no NVIDIA driver on this machine"
    if cupy.cuda.runtime.getDeviceCount() == 0:
        return "the NVIDIA driver sees no device"
    capability = int(cupy.cuda.Device().compute_capability)
    if capability < LEAST_CAPABILITY:
        return (
            f"the GPU has compute capability {capability / 10}, "
            f"at least {LEAST_CAPABILITY / 10} is needed"
        )
    return None


def missing_compiler(cupy: Any) -> str | None:
    """Why kernels cannot be compiled: NVRTC is loaded when first used, not with CuPy."""
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        return f"CUDA's compiler NVRTC cannot be loaded ({first_line(error)}): {INSTALL}"
    return None


def first_line(error: Exception) -> str:
    """An error's text without its longer explanations."""
    return (str(error) or type(error).__name__).strip().splitlines()[0]


@contextmanager
def failures() -> Iterator[None]:
    """Turns CuPy's errors of driver, compiler and memory into errors of one sentence."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith("cupy"):
            raise
        raise TuskError(
            f"the GPU failed ({type(error).__name__}: {first_line(error)}); option 'device' 'cpu' "
            "trains without it"
        ) from error


@functools.cache
def device() -> Device:
    """The current GPU. Raises an error if `availability` gives a reason against it."""
    return Cuda()


_left_behind = threading.Event()


def _forked() -> None:
    """Runs in a forked child. CUDA's context does not work there if the parent used the GPU."""
    if device.cache_info().currsize:
        _left_behind.set()
        availability.cache_clear()


os.register_at_fork(after_in_child=_forked)


class CudaMark:
    """A CUDA event."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def wait(self) -> None:
        self.event.synchronize()


class Cuda:
    """CuPy's current device. Kernels run in the null stream, uploads in a separate stream."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.copies = cupy.cuda.Stream(non_blocking=True)
        number = cupy.cuda.runtime.getDevice()
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self._name: str = properties["name"].decode()
        self._shared_bytes = int(properties["sharedMemPerBlockOptin"])
        self._kernels: dict[Source, Any] = {}

    @property
    def name(self) -> str:
        return self._name

    @property
    def shared_bytes(self) -> int:
        return self._shared_bytes

    @property
    def xp(self) -> Any:
        return self.cupy

    def free_bytes(self) -> int:
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        return int(free) + int(self.cupy.get_default_memory_pool().free_bytes())

    def to_device(self, array: NDArray[Any]) -> Any:
        return self.cupy.asarray(np.ascontiguousarray(array))

    def to_host(self, array: Any) -> NDArray[Any]:
        found: NDArray[Any] = self.cupy.asnumpy(array)
        return found

    def pinned(self, size: int) -> NDArray[np.uint8]:
        memory = self.cupy.cuda.alloc_pinned_memory(size)
        return np.frombuffer(memory, np.uint8, size)

    def launch(self, source: Source, grid: tuple[int, int], arguments: Sequence[Any]) -> None:
        kernel = self._kernels.get(source)
        if kernel is None:
            kernel = self._kernels[source] = self._compile(source)
        given = tuple(np.uintp(0) if a is None else a for a in arguments)
        kernel((*grid, 1), (source.threads, 1, 1), given, shared_mem=source.shared)

    def _compile(self, source: Source) -> Any:
        kernel = self.cupy.RawKernel(source.text(), source.kernel, options=("--std=c++17",))
        if source.shared > ASKED_SHARED:
            kernel.max_dynamic_shared_size_bytes = source.shared
        return kernel

    def upload(self, target: Any, source: NDArray[Any]) -> None:
        target.data.copy_from_host_async(source.ctypes.data, source.nbytes, self.copies)

    def uploaded(self) -> Mark:
        return self._marked(self.copies)

    def launched(self) -> Mark:
        return self._marked(self.cupy.cuda.Stream.null)

    def _marked(self, stream: Any) -> Mark:
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return CudaMark(event)

    def launch_after(self, mark: Mark) -> None:
        assert isinstance(mark, CudaMark)
        self.cupy.cuda.Stream.null.wait_event(mark.event)

    def upload_after(self, mark: Mark) -> None:
        assert isinstance(mark, CudaMark)
        self.copies.wait_event(mark.event)

    def release(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()
