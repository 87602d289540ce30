"""A device made of NumPy: the kernels' own text, compiled for the CPU (`cuda_on_cpu.hpp`).

It is as strict as a GPU would be unforgiving: its arrays are no NumPy arrays to the code under
test, arguments have the types of the kernel's parameters, uploads arrive when something waits for
them, and memory that nobody wrote is NaN.
"""

import contextlib
import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from signatures import refusals
from strict_arrays import DeviceArray, StrictNumPy

HERE = Path(__file__).parent
CACHE = Path(tempfile.gettempdir()) / f"tuskml-cuda-on-cpu-{os.getuid()}"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))
MISSING = None if COMPILER else "no C++ compiler, which runs the CUDA kernels on the CPU"
FLAGS = [
    "-std=c++20",
    "-O1",
    "-g0",
    "-fPIC",
    "-w",
    "-ffp-contract=off",
    "-U_FORTIFY_SOURCE",
]


def run(command):
    """One command of the compiler."""
    subprocess.run(command, check=True, timeout=120)


def prepared():
    """A folder with the header, compiled once: that is half of what a kernel takes."""
    header = HERE / "cuda_on_cpu.hpp"
    text = header.read_text() + COMPILER + " ".join(FLAGS)
    folder = CACHE / hashlib.sha256(text.encode()).hexdigest()[:20]
    if not folder.exists():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as place:
            made = Path(place) / "made"
            made.mkdir()
            shutil.copy(header, made)
            source = made / header.name
            run([COMPILER, *FLAGS, "-x", "c++-header", "-o", f"{source}.gch", source])
            try:
                made.rename(folder)
            except OSError:  # another process was faster
                assert folder.exists()
    return folder


def compile_kernel(source):
    """The launcher of one kernel."""
    text = (
        '#include "cuda_on_cpu.hpp"\n'
        + source.text()
        + 'extern "C" int tusk_launch(const unsigned'
        " *grid, unsigned threads, long shared_bytes, void **arguments, int order) {\n"
        f"    return launch({source.kernel}, grid, threads, shared_bytes, arguments, order);\n}}\n"
    )
    folder = prepared()
    key = hashlib.sha256(text.encode()).hexdigest()[:20]
    target = folder / f"{source.kernel}-{key}.so"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            cpp, made = Path(place) / "kernel.cpp", Path(place) / "kernel.so"
            cpp.write_text(text)
            run([COMPILER, *FLAGS, "-shared", f"-I{folder}", "-o", made, cpp])
            made.rename(target)
    return ctypes.CDLL(str(target)).tusk_launch


class Mark:
    """Behind the uploads that were queued before it."""

    def __init__(self, device, count):
        self.device, self.count = device, count

    def wait(self):
        self.device.arrive(self.count)


class StandIn:
    """NumPy as a device; order: of the threads of a block, 0 rising, 1 falling, 2 scattered."""

    name, double_cost = "NumPy", 2

    def __init__(self, order=0, free=1 << 40, shared_bytes=227 << 10):
        if MISSING:
            pytest.skip(MISSING)
        self.order, self.free, self.shared_bytes = order, free, shared_bytes
        self.xp = StrictNumPy()
        self.queue, self.arrived = [], 0
        self.launches, self.uploads_waiting_seen = [], 0
        self._kernels = {}

    def enter(self):
        return contextlib.nullcontext()

    def free_bytes(self):
        return self.free

    def to_device(self, array):
        assert not isinstance(array, DeviceArray)
        return np.array(array, order="C").view(DeviceArray)

    def to_host(self, array):
        assert isinstance(array, DeviceArray)
        return np.array(array.view(np.ndarray))

    def allocate_pinned(self, size):
        return np.full(size, 255, np.uint8)

    def launch(self, source, grid, arguments):
        kernel = self._kernels.get(source)
        if kernel is None:
            kernel = self._kernels[source] = compile_kernel(source)
        assert source.shared <= self.shared_bytes, source
        wrong = refusals(source, arguments, lambda given: isinstance(given, DeviceArray))
        assert not wrong, wrong
        cells = [cell(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(cells))(*(c.ctypes.data for c in cells))
        size = (ctypes.c_uint * 2)(*grid)
        code = kernel(size, source.threads, ctypes.c_long(source.shared), pointers, self.order)
        assert code == 0, f"{source.kernel}: {('', 'threads wait in vain', 'too large')[code]}"
        self.launches.append((source.kernel, grid))

    def upload(self, target, source):
        assert target.nbytes == source.nbytes
        assert target.flags.c_contiguous
        assert isinstance(target, DeviceArray)
        assert not isinstance(source, DeviceArray)
        self.queue.append((target.view(np.ndarray), source))
        self.uploads_waiting_seen = max(self.uploads_waiting_seen, len(self.queue))

    def arrive(self, count):
        """Uploads arrive up to the count-th ever."""
        while self.arrived < count:
            target, source = self.queue.pop(0)
            target.reshape(-1).view(np.uint8)[:] = source.reshape(-1).view(np.uint8)
            self.arrived += 1

    def mark_uploads(self):
        return Mark(self, self.arrived + len(self.queue))

    def mark_launches(self):
        return Mark(self, 0)

    def launch_after(self, mark):
        mark.wait()

    def upload_after(self, mark):
        mark.wait()

    def release(self):
        pass


def cell(argument):
    """The memory of one argument of a kernel, as the driver takes it: a number or an address."""
    if argument is None:
        return np.zeros(1, np.uintp)
    if isinstance(argument, DeviceArray):
        return np.array([argument.ctypes.data], np.uintp)
    assert isinstance(argument, np.generic), f"{argument!r} has no size of its own"
    return np.array([argument])
