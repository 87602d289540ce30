"""CuPy's device. Only this module imports CuPy, and only when a GPU is requested."""

import functools
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import TuskError
from tuskml.kernels.gpu.device import Device, Mark
from tuskml.kernels.gpu.source import Source
from tuskml.schedule.pool import signals_blocked

INSTALL = "pip install 'tuskml[gpu]'"
ASKED_SHARED = 40 << 10
"""Bytes of shared memory, static and dynamic, that a kernel may use without a special attribute:
48 KiB.
"""
LEAST_CAPABILITY = 80
"""Compute capability 8.0, the first with asynchronous copies into shared memory."""
Answer = TypeVar("Answer")


class GpuError(TuskError):
    """The GPU failed.

    no_memory: it had too little memory; fewer rows at a time may fit.
    """

    no_memory = False


def availability() -> str | None:
    """Reason why no GPU can be used: package, driver or device is missing, or it failed before.

    None if a GPU can be used.
    """
    if _left_behind.is_set():
        return (
            "this process was forked from one that uses the GPU, which CUDA does not survive: "
            "start it by 'spawn'"
        )
    return _broken[0] if _broken else first_look()


@functools.cache
def first_look() -> str | None:
    """Result of `availability` in a process without failures, cached."""
    keep_kernels_somewhere()
    try:
        with signals_blocked():
            import cupy
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
            return f"CuPy is not installed: {INSTALL}"
        return f"CuPy cannot be imported ({first_line(error)}): {INSTALL}"
    try:
        with signals_blocked():
            return missing_hardware(cupy) or missing_compiler(cupy)
    except Exception as error:
        return f"CUDA finds no usable device ({first_line(error)})"


def keep_kernels_somewhere() -> None:
    """Sets a folder for CuPy's compiled kernels if its own, in the home, cannot be written."""
    if "CUPY_CACHE_DIR" in os.environ:
        return
    try:
        folder = Path.home() / ".cupy" / "kernel_cache"
        folder.mkdir(parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK)
    except (OSError, RuntimeError):  # without a home directory
        usable = False
    if not usable:
        os.environ["CUPY_CACHE_DIR"] = tempfile.mkdtemp(prefix="tuskml-cupy-")


def missing_hardware(cupy: Any) -> str | None:
    """Returns which requirement of CuPy is missing: the driver, a device, or a device new
    enough.
    """
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
    """Reason why kernels cannot be compiled: NVRTC is loaded when first used, not with CuPy."""
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
    """Turns CuPy's errors of driver, compiler and memory into errors of one sentence.

    All work inside goes to one stream, after the earlier work of the caller's own stream.
    """
    try:
        with device().enter():
            yield
    except Exception as error:
        if not type(error).__module__.startswith("cupy"):
            raise
        raise gpu_error(error) from error


def gpu_error(error: Exception) -> GpuError:
    """Converts an error of CuPy to one sentence, and checks whether the GPU still answers."""
    converted = GpuError(
        f"the GPU failed ({type(error).__name__}: {first_line(error)}); option 'device' 'cpu' "
        "trains without it"
    )
    converted.no_memory = isinstance(error, MemoryError)
    if not converted.no_memory:
        look_again(error)
    return converted


def look_again(error: Exception) -> None:
    """Records that the GPU no longer answers, as after a fault of a kernel: CUDA does not
    recover.
    """
    try:
        device().mark_launches().wait()
    except Exception:
        _broken[:] = [f"the GPU failed earlier in this process ({first_line(error)})"]


def unless_it_fails(
    option: str, there: Callable[[], Answer], here: Callable[[], Answer]
) -> Answer:
    """Result of `there` on the GPU, or of `here` if it fails and `device` is not 'gpu'."""
    try:
        return there()
    except GpuError:
        if option == "gpu":
            raise
        return here()


@functools.cache
def device() -> Device:
    """The current GPU. Raises an error if `availability` gives a reason against it."""
    with signals_blocked():
        created = Cuda()
    _used.set()
    return created


def in_use() -> bool:
    """Returns whether this process already uses a GPU, whose start takes seconds."""
    return _used.is_set()


_left_behind, _used = threading.Event(), threading.Event()
_broken: list[str] = []
"""Reason why the GPU is not used any more after a failure."""


def _note_fork() -> None:
    """Runs in a forked child. CUDA's context does not work there if the parent used the GPU."""
    if in_use():
        _left_behind.set()


os.register_at_fork(after_in_child=_note_fork)


class CudaMark:
    """A CUDA event."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def wait(self) -> None:
        self.event.synchronize()


class Cuda:
    """CuPy's current device. Kernels run in the null stream, uploads in a stream of their own."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.kernels = cupy.cuda.Stream.null
        self.copies = cupy.cuda.Stream(non_blocking=True)
        number = cupy.cuda.runtime.getDevice()
        properties = cupy.cuda.runtime.getDeviceProperties(number)
        self._name: str = properties["name"].decode()
        self._shared_bytes = int(properties["sharedMemPerBlockOptin"])
        self._slow_doubles = int(properties.get("singleToDoublePrecisionPerfRatio", 2))
        self._compiled: dict[Source, Any] = {}
        cupy.cuda.get_cublas_handle()  # now, while signals are blocked: it may start threads

    @property
    def name(self) -> str:
        return self._name

    @property
    def shared_bytes(self) -> int:
        return self._shared_bytes

    @property
    def double_cost(self) -> int:
        """Number of floats computed in the time of one double: 2, or 64 on a desktop's GPU."""
        return self._slow_doubles

    @property
    def xp(self) -> Any:
        return self.cupy

    @contextmanager
    def enter(self) -> Iterator[None]:
        own = self.cupy.cuda.get_current_stream()
        if own.ptr != self.kernels.ptr:
            mark = self._mark(own)
            self.launch_after(mark)
        with self.kernels:
            yield

    def free_bytes(self) -> int:
        free, _ = self.cupy.cuda.runtime.memGetInfo()
        return int(free) + int(self.cupy.get_default_memory_pool().free_bytes())

    def to_device(self, array: NDArray[Any]) -> Any:
        return self.cupy.asarray(np.ascontiguousarray(array))

    def to_host(self, array: Any) -> NDArray[Any]:
        copy: NDArray[Any] = self.cupy.asnumpy(array)
        return copy

    def allocate_pinned(self, size: int) -> NDArray[np.uint8]:
        memory = self.cupy.cuda.alloc_pinned_memory(size)
        return np.frombuffer(memory, np.uint8, size)

    def launch(self, source: Source, grid: tuple[int, int], arguments: Sequence[Any]) -> None:
        kernel = self._compiled.get(source)
        if kernel is None:
            kernel = self._compiled[source] = self._compile(source)
        values = tuple(np.uintp(0) if a is None else a for a in arguments)
        kernel((*grid, 1), (source.threads, 1, 1), values, shared_mem=source.shared)

    def _compile(self, source: Source) -> Any:
        kernel = self.cupy.RawKernel(source.text(), source.kernel, options=("--std=c++17",))
        with signals_blocked():
            kernel.compile()
        if source.shared > ASKED_SHARED:
            kernel.max_dynamic_shared_size_bytes = source.shared
        return kernel

    def upload(self, target: Any, source: NDArray[Any]) -> None:
        target.data.copy_from_host_async(source.ctypes.data, source.nbytes, self.copies)

    def mark_uploads(self) -> Mark:
        return self._mark(self.copies)

    def mark_launches(self) -> Mark:
        return self._mark(self.kernels)

    def _mark(self, stream: Any) -> Mark:
        event = self.cupy.cuda.Event(disable_timing=True)
        event.record(stream)
        return CudaMark(event)

    def launch_after(self, mark: Mark) -> None:
        assert isinstance(mark, CudaMark)
        self.kernels.wait_event(mark.event)

    def upload_after(self, mark: Mark) -> None:
        assert isinstance(mark, CudaMark)
        self.copies.wait_event(mark.event)

    def release(self) -> None:
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()
