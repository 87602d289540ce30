"""Arrays in files: runs of them at once, and reading ahead."""

import os
import signal
import threading
import tracemalloc

import numpy as np
import pytest

from tuskml.errors import DataError, StoreError
from tuskml.kvstore.arrays import WINDOW, Records, ahead
from tuskml.schedule.pool import QuietThreads

pytestmark = pytest.mark.native


@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_runs_are_what_reads_of_each_are(tmp_path, dtype):
    rng = np.random.default_rng(0)
    records = Records(tmp_path, dtype)
    with records.file:
        whole = rng.integers(0, 2**31, 10_000).astype(dtype)
        records.write(0, whole)
        at, lengths = rng.integers(0, 9_000, 50), rng.integers(0, 900, 50)
        found = records.read_runs(at, lengths)
        each = [whole[a : a + n] for a, n in zip(at, lengths, strict=True)]
        assert (found == np.concatenate(each)).all()
        places = np.arange(0, 10_000, 1_000)
        sizes = rng.integers(0, 1_000, 10)
        items = rng.integers(0, 99, sizes.sum()).astype(dtype)
        records.write_runs(places, sizes, items)
        for a, part in zip(places, np.split(items, np.cumsum(sizes)[:-1]), strict=True):
            whole[a : a + len(part)] = part
        assert (records.read(0, len(whole)) == whole).all()


def test_a_run_beyond_the_end_is_an_error(tmp_path):
    records = Records(tmp_path, "u4")
    with records.file:
        records.write(0, np.arange(100))
        os.ftruncate(records.file.fileno(), 200)
        with pytest.raises(StoreError, match="a file of a training's plan: reading"):
            records.read_runs(np.array([0, 40]), np.array([10, 20]))


def test_windows_are_all_items_in_two_buffers(tmp_path):
    records, n = Records(tmp_path, "u4"), 10 * WINDOW + 7
    whole = np.arange(n, dtype="u4")
    with records.file:
        records.write(0, whole)
        tracemalloc.start()
        try:
            at = 5
            for window in records.windows(5, n - 5):
                assert (window == whole[at : at + len(window)]).all()
                at += len(window)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert at == n
        assert held < 2.75 * WINDOW * whole.itemsize  # with the comparison's booleans


def test_windows_beyond_the_end_are_an_error(tmp_path):
    records = Records(tmp_path, "u4")
    with records.file:
        records.write(0, np.arange(100))
        with pytest.raises(DataError, match="ends too early"):
            list(records.windows(50, 51))
        assert not list(records.windows(100, 0))


def test_what_is_read_ahead_is_all_and_in_order():
    assert list(ahead(lambda k: k * k, range(100))) == [k * k for k in range(100)]
    assert list(ahead(str, [])) == []


def test_a_failed_read_ahead_is_told_in_its_turn():
    found = ahead(lambda k: 1 // (3 - k), range(9))
    assert [next(found) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)


def test_what_reads_ahead_takes_no_signals():
    """A server's signals are for its own thread, whose mask stays as it is."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    asked = lambda _: (threading.get_ident(), signal.pthread_sigmask(signal.SIG_BLOCK, []))  # noqa: E731
    with QuietThreads(2) as pool:
        found = [*pool.map(asked, range(4)), *ahead(asked, range(2))]
    for thread, masked in found:
        assert thread != threading.get_ident()
        assert {signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1} <= masked
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.parametrize("shape", [(1000,), (1000, 1), (10, 100)])
def test_a_short_write_is_gone_on_with(tmp_path, monkeypatch, shape):
    """As at the end of a disk, where the next one tells."""
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: write(fd, bytes(data)[:3000], at))
    records = Records(tmp_path, "V64")
    with records.file:
        items = np.arange(16_000, dtype=np.uint32).view("V64").reshape(shape)
        records.write(0, items)
        assert records.read(0, 1000).tobytes() == items.tobytes()
