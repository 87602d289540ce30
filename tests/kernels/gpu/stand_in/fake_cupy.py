"""What `cuda.py` uses of CuPy, with CuPy's signatures, on the stand-in's memory and kernels.

Kernels and NumPy's functions run at once; copies of the host's memory wait until a stream or an
event does. `test_cupy.py` holds these signatures against CuPy's own where that can be imported.
"""

import ctypes
import re
from types import SimpleNamespace

from standin import StandIn, cell, compile_kernel
from strict_arrays import MemoryPointer, StrictNumPy

UNASKED_SHARED = 48 << 10
MOST_SHARED = 227 << 10


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


class Stream:
    """Copies in their order; the null stream has none, its kernels run at once."""

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.queue, self.arrived, self.ptr = [], 0, id(self)

    def __enter__(self):
        Stream.current.append(self)
        return self

    def __exit__(self, *_):
        Stream.current.pop()

    def wait_event(self, event):
        event.synchronize()


Stream.null = Stream(null=True)
Stream.current = [Stream.null]


class Event:
    """A place in a stream."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.stream, self.count = None, 0

    def record(self, stream=None):
        assert isinstance(stream, Stream)
        self.stream, self.count = stream, stream.arrived + len(stream.queue)

    def synchronize(self):
        assert self.stream is not None
        while self.stream.arrived < self.count:
            to, source, size = self.stream.queue.pop(0)
            ctypes.memmove(to, source, size)
            self.stream.arrived += 1


class RawKernel:
    """The kernel compiled for the CPU; block: as many threads as its text says."""

    def __init__(
        self, code, name, options=(), backend="nvrtc", translate_cucomplex=False, *,
        enable_cooperative_groups=False, jitify=None,
    ):  # fmt: skip
        assert type(options) is tuple
        made = SimpleNamespace(text=lambda: code, kernel=name)
        self.call, self.code = None, code
        self.made = made
        self.max_dynamic_shared_size_bytes = UNASKED_SHARED

    def compile(self, log_stream=None):
        self.call = compile_kernel(self.made)

    def __call__(self, grid, block, args, *, shared_mem=0):
        assert [type(a) for a in (grid, block, args)] == [tuple] * 3
        assert len(grid) == len(block) == 3
        assert all(type(number) is int for number in (*grid, *block, shared_mem))
        assert shared_mem <= self.max_dynamic_shared_size_bytes <= MOST_SHARED
        for name in re.findall(r"#define THREADS (\d+)", self.code):
            assert int(name) == block[0]
        cells = [cell(a) for a in args]
        pointers = (ctypes.c_void_p * len(cells))(*(c.ctypes.data for c in cells))
        size = (ctypes.c_uint * 2)(*grid[:2])
        code = self.call(size, block[0], ctypes.c_long(shared_mem), pointers, 1)
        assert code == 0


class MemoryPool:
    """Nothing is kept."""

    def free_bytes(self):
        return 0

    def free_all_blocks(self, stream=None):
        pass


def alloc_pinned_memory(size):
    return bytearray(size)


def get_default_memory_pool():
    return MemoryPool()


def get_default_pinned_memory_pool():
    return MemoryPool()


def asarray(a, dtype=None, order=None, *, copy=None, blocking=False):
    return StandIn().to_device(a)


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    return StandIn().to_host(a)


class Module(StrictNumPy):
    """The module `cupy`; free: bytes of the device."""

    RawKernel = staticmethod(RawKernel)
    asarray, asnumpy = staticmethod(asarray), staticmethod(asnumpy)
    get_default_memory_pool = staticmethod(get_default_memory_pool)
    get_default_pinned_memory_pool = staticmethod(get_default_pinned_memory_pool)

    def __init__(self, free=1 << 40):
        self.cuda = SimpleNamespace(
            Stream=Stream, Event=Event, MemoryPointer=MemoryPointer,
            alloc_pinned_memory=alloc_pinned_memory,
            get_current_stream=lambda: Stream.current[-1], get_cublas_handle=lambda: 1,
            Device=lambda device=None: SimpleNamespace(compute_capability="90"),
            nvrtc=SimpleNamespace(getVersion=lambda: (12, 9)),
            runtime=SimpleNamespace(
                CUDARuntimeError=CUDARuntimeError,
                driverGetVersion=lambda: 12090,
                getDeviceCount=lambda: 1,
                getDevice=lambda: 0,
                getDeviceProperties=lambda device: {
                    "name": b"a fake", "sharedMemPerBlockOptin": MOST_SHARED,
                },
                memGetInfo=lambda: (free, free),
            ),
        )  # fmt: skip
