"""Frames when the disk is full, the process dies or memory is short, each in a process."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tuskml.kvstore import ModelStore

pytestmark = pytest.mark.native

WIDTH = 256


def in_a_process(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Runs a program that has INDEX, numpy and the store's names, and its folder in argv."""
    text = f"""
import os, signal, sys, numpy as np
from tuskml.errors import StoreError
from tuskml.kvstore import LEAST_FRAME_MEMORY, LEAST_MEMORY, ModelStore
from tuskml.partitioner import IndexMap
def touch(frames, keys, value, width={WIDTH}):
    held = frames.acquire(keys, width)
    for weights in held.weights:
        weights[:] = value
    frames.release(held, changed=True)
{program}"""
    command = [sys.executable, "-c", text, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


FULL_DISK = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
keys, path = np.arange(2000), sys.argv[1] + "/s"
store = ModelStore.create(path, IndexMap.by_rule(256))
frames = store.frames(LEAST_FRAME_MEMORY)
for part in np.split(keys, 10):
    touch(frames, part, 1)
store.checkpoint({"epoch": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, -1))
refused = 0
for part in np.split(keys, 10):
    try:
        touch(frames, part, 2)
    except StoreError as error:
        refused += "File too large" in str(error)
try:
    store.checkpoint({"epoch": "?"})
except StoreError as error:
    refused += 100
assert refused > 100
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
for work in (lambda: touch(frames, keys[:100], 2), store.checkpoint, frames.flush):
    try:
        work()
    except StoreError as error:
        print(error)
store.close()
with ModelStore.resume(path) as store:
    assert store.last_checkpoint.metadata == {"epoch": 1}
    assert (store.get(keys) == 1).all()
    with store.frames(LEAST_FRAME_MEMORY) as frames:
        for part in np.split(keys, 10):
            touch(frames, part, 2)
    store.checkpoint({"epoch": 2})
with ModelStore.resume(path) as store:
    assert (store.get(keys) == 2).all()
"""


def test_a_full_disk_when_frames_leave_memory(tmp_path: Path) -> None:
    """Files may not grow, as on a full disk: an error, and the last checkpoint is there."""
    done = in_a_process(FULL_DISK, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("resume from its last checkpoint") >= 2


def test_killed_between_flush_and_checkpoint(tmp_path: Path) -> None:
    program = """
store = ModelStore.create(sys.argv[1] + "/s", IndexMap.by_rule(256))
frames = store.frames(LEAST_FRAME_MEMORY)
touch(frames, np.arange(500), 1)
store.checkpoint({"epoch": 1})
for part in np.split(np.arange(5000), 10):
    touch(frames, part, 2)
frames.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = in_a_process(program, tmp_path)
    assert done.returncode == -signal.SIGKILL, done.stderr
    with ModelStore.resume(tmp_path / "s") as store:
        assert store.last_checkpoint is not None
        assert store.last_checkpoint.metadata == {"epoch": 1}
        found = store.get(np.arange(5000))
    assert (found[:500] == 1).all()
    assert not found[500:].any()


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.memory
@pytest.mark.parametrize("widths", [(1,), (1024,), (1, 1024, 16)])
def test_memory_is_a_promise(tmp_path: Path, widths: tuple[int, ...]) -> None:
    """What the process has of its own grows by no more than frames may take, and what LevelDB
    may; partitions of one width take the place of those of another.
    """
    program = f"""
import ctypes
from tuskml.kvstore import native
def resident():
    text = open("/proc/self/status").read().split("RssAnon:")[1]
    return int(text.split()[0]) * 1024
memory, widths = 24 << 20, {widths}
most = {{1: 100_000, 16: 50_000, 1024: 1_000}}  # keys a call
store = ModelStore.create(sys.argv[1] + "/s", IndexMap.by_rule(1), memory=LEAST_MEMORY)
frames, random = store.frames(memory), np.random.default_rng(0)
before, peak = resident(), 0
for turn, width in enumerate(widths):
    for first in range(0, 2 * memory // (4 * width + 60), most[width]):
        keys = np.arange(first, first + most[width]) + (turn << 40)
        sizes = np.full(len(keys), width, np.uint32)
        out, error = np.zeros(len(keys), np.uintp), np.zeros(512, np.uint8)
        pointers = [array.ctypes.data for array in (keys, sizes, out, error)]
        ahead, n = pointers[:2], len(keys)
        text = error.ctypes.data_as(ctypes.c_char_p)
        code = frames._native.ks_acquire(
            frames._frames, 0, *ahead, n, pointers[2], None, None, text)
        assert code == 0, error.tobytes()
        before_frame = (4 * width + 7) // 8 * 8  # where its weights begin
        assert native.Frame.from_address(int(out[0])).weights == out[0] - before_frame
        for at in (out - before_frame).tolist():
            ctypes.memset(at, 1, 4 * width)
        frames._native.ks_release(frames._frames, 0, pointers[2], n, 1)
        peak = max(peak, resident())
used = peak - before
print(used, memory, frames.counters)
assert frames.counters.written > 0
assert memory // 2 < used < memory + LEAST_MEMORY // 8
"""
    done = in_a_process(program, tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
