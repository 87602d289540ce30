"""Arrays whose memory is the system's own."""

import os
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tuskml.kvstore import arrays


@pytest.mark.parametrize("shape", [0, 3, (2, 0), (4, 5), 1 << 17, (2, 1 << 16), np.int64(9)])
@pytest.mark.parametrize("dtype", ["u1", "f4", "V12"])
def test_arrays_are_of_their_shape_and_writable(shape, dtype):
    made = arrays.empty(shape, dtype)
    assert made.dtype == np.dtype(dtype)
    assert made.shape == np.empty(shape, dtype).shape
    assert made.flags.writeable
    assert made.flags.c_contiguous
    made.view(np.uint8)[...] = 7


def test_narrowing_keeps_the_low_bits():
    given = np.arange(100_000, dtype=np.uint32) * 7
    assert (arrays.narrow(given, np.uint16) == given.astype(np.uint16)).all()


def test_they_are_traced_until_their_last_view_goes():
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        view = arrays.empty((2, 1 << 20), np.int32)[1, 5:9]
        assert tracemalloc.get_traced_memory()[0] - before >= 8 << 20
        del view
        assert tracemalloc.get_traced_memory()[0] - before < 1 << 16
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_goes_back_at_once_whatever_lies_behind_it():
    """A block of malloc's that something lies behind would stay with the process."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before, size = resident(), 1 << 20
    made = []
    for _ in range(64):
        made.append(arrays.empty(size, np.uint8))
        made[-1][:] = 1
        made.append(arrays.empty(1 << 10, np.uint8))
    assert resident() - before > 60 * size
    del made[::2]
    assert resident() - before < 4 * size
