"""Frames hold what a dictionary would, whoever takes them, whatever leaves memory meanwhile."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.errors import StoreError
from tuskml.kvstore import LEAST_FRAME_MEMORY, Frames, ModelStore
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.native

WIDTH = 256
INDEX = IndexMap.by_rule(WIDTH)
PATIENCE = 60
"""Seconds after which a thread that should have ended is stuck."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ModelStore]:
    """An empty store whose partitions have 256 weights."""
    with ModelStore.create(tmp_path / "store", INDEX) as store:
        yield store


def values_of(keys: "np.ndarray", factor: int = 1) -> np.ndarray:
    return (np.arange(len(keys) * WIDTH, dtype=np.float32).reshape(-1, WIDTH) + 1) * factor


def touch(frames: Frames, keys, change: Callable[[np.ndarray], None], worker: int = 0) -> None:
    """Changes each frame's weights in place."""
    held = frames.acquire(keys, WIDTH, worker)
    for weights in held.weights:
        change(weights)
    frames.release(held, changed=True)


def adds_up(frames: Frames) -> None:
    counted = frames.counters
    assert counted.wanted == counted.hits + counted.pushed + counted.requests
    assert 0 <= counted.found <= counted.requests


# --- truth ---


def width_of(key: int) -> int:
    """Of any size from one weight to tens of kilobytes."""
    return (1, 3, 16, 17, 300, 5000, 12000)[key % 7]


class Model:
    """A dictionary beside a store with frames; what the last checkpoint had beside both."""

    def __init__(self, path: Path, dtype: str, keep_stamps: bool) -> None:
        self.path, self.dtype, self.keep_stamps = path, np.dtype(dtype), keep_stamps
        self.weights: dict[int, np.ndarray] = {}
        self.stamps: dict[int, float] = {}
        self.store = ModelStore.create(path, INDEX, dtype)
        self.frames = self.open()
        self.checkpoint(0)

    def open(self) -> Frames:
        return self.store.frames(LEAST_FRAME_MEMORY, 2, self.keep_stamps)

    def touch(self, seed: int) -> None:
        """Takes some frames, looks whether they are right, and changes them or not."""
        random, changed = np.random.default_rng(seed), seed % 3 > 0
        keys = np.flatnonzero(random.random(100) < 0.06)[:12]
        held = self.frames.acquire(keys, [width_of(key) for key in keys], seed % 2)
        stamps = held.stamps
        for i, key in enumerate(keys.tolist()):
            zeros = np.zeros(width_of(key), self.dtype)
            found = held.weights[i]
            assert found.tobytes() == self.weights.get(key, zeros).tobytes()
            assert found.ctypes.data % 64 == 0
            if self.keep_stamps:
                assert stamps[i] == self.stamps.get(key, 0)
            if changed:
                found[:] = random.integers(-3, 4, len(found))
                stamps[i] = float(random.integers(0, 3))
                self.weights[key], self.stamps[key] = found.copy(), stamps[i]
        held.stamps = stamps
        self.frames.release(held, changed)

    def flush(self, seed: int) -> None:
        self.frames.flush()

    def reopen(self, seed: int) -> None:
        self.frames.close()
        self.stamps = {}
        self.frames = self.open()

    def checkpoint(self, seed: int) -> None:
        self.store.checkpoint()
        self.safe = dict(self.weights)

    def resume(self, seed: int) -> None:
        self.store.close()
        assert self.frames.closed
        self.weights, self.stamps = dict(self.safe), {}
        self.store = ModelStore.resume(self.path)
        self.frames = self.open()

    def look(self) -> None:
        """What LevelDB has is what the dictionary has, and nothing that was never written to."""
        self.frames.close()
        expected = {key: found for key, found in self.weights.items() if found.any()}
        stored = {}
        for keys, starts, values in self.store.scan():
            for i, key in enumerate(keys.tolist()):
                stored[key] = values[starts[i] : starts[i + 1]]
        assert expected.keys() <= stored.keys() <= self.weights.keys()
        for key, found in stored.items():
            assert found.tobytes() == self.weights[key].tobytes()


OPERATIONS = [Model.touch] * 12 + [Model.flush, Model.reopen, Model.checkpoint, Model.resume]


@given(
    steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 1 << 30)), max_size=60),
    dtype=st.sampled_from(["float32", "float64"]),
    keep_stamps=st.booleans(),
)
@settings(max_examples=20, deadline=None)
def test_frames_are_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, steps, dtype, keep_stamps
) -> None:
    model = Model(tmp_path_factory.mktemp("store") / "s", dtype, keep_stamps)
    try:
        for step, seed in steps:
            step(model, seed)
            adds_up(model.frames)
        model.look()
    finally:
        model.store.discard()


def test_evicted_frames_come_back(store: ModelStore) -> None:
    """A model of eight times the memory."""
    with store.frames(LEAST_FRAME_MEMORY) as frames:
        for factor in (1, 2):
            for first in range(0, 8192, 256):
                touch(frames, np.arange(first, first + 256), lambda w, f=factor: w.fill(f))
        counted = frames.counters
    assert counted.evicted > 2 * 7168
    assert counted.written >= 2 * 7168
    assert counted.requests == 16384 - counted.hits
    assert (store.get(np.arange(8192)) == 2).all()


def test_counters_of_one_worker(store: ModelStore) -> None:
    store.put([3, 4], np.ones((2, WIDTH), np.float32))
    with store.frames(LEAST_FRAME_MEMORY) as frames:
        for keys in ([3, 4, 5], [4, 5, 6], []):
            frames.release(frames.acquire(keys, WIDTH))
        counted = frames.counters
    assert (counted.wanted, counted.hits, counted.pushed, counted.requests) == (6, 2, 0, 4)
    assert (counted.found, counted.bytes_read, counted.written) == (2, 2 * (8 + 4 * WIDTH), 0)
    assert counted.reading > 0
    assert frames.counters == counted


def test_zeros_never_written_are_not_stored(store: ModelStore) -> None:
    with store.frames(LEAST_FRAME_MEMORY) as frames:
        for first in range(0, 4096, 256):
            touch(frames, np.arange(first, first + 256), lambda w: None)
        assert frames.counters.evicted > 0
    assert frames.counters.written == 0
    assert list(store.scan()) == []


def test_zeros_replace_what_was_stored(store: ModelStore) -> None:
    store.put([3], np.ones((1, WIDTH), np.float32))
    with store.frames(LEAST_FRAME_MEMORY) as frames:
        touch(frames, [3], lambda w: w.fill(0))
    assert not store.get([3]).any()


@pytest.mark.parametrize("kept", [True, False])
def test_stamps_travel_with_payloads(store: ModelStore, kept: bool) -> None:
    keys = np.arange(200)
    with store.frames(LEAST_FRAME_MEMORY, keep_stamps=kept) as frames:
        held = frames.acquire(keys, WIDTH)
        held.stamps = (keys % 5).astype(float).tolist()
        frames.release(held, changed=True)
        for first in range(1000, 8000, 500):
            frames.release(frames.acquire(np.arange(first, first + 500), WIDTH))
        held = frames.acquire(keys, WIDTH)
        assert held.stamps == ((keys % 5) * kept).astype(float).tolist()
        frames.release(held)


def test_a_large_table_grows_and_finds(tmp_path: Path) -> None:
    """One weight a key, keys with a stride: as many frames as fit, all found again."""
    keys = np.arange(150_000) * 64
    with (
        ModelStore.create(tmp_path / "s", IndexMap.by_rule(1)) as store,
        store.frames(16 << 20) as frames,
    ):
        for _ in range(2):
            for part in np.split(keys, 15):
                frames.release(frames.acquire(part, 1))
        counted = frames.counters
    assert (counted.requests, counted.hits, counted.evicted) == (len(keys), len(keys), 0)


# --- many workers ---


def run_all(works: "list[Callable[[], None]]") -> None:
    """Each in a thread; raises what one raised, and does not wait for ever."""
    pool = ThreadPoolExecutor(len(works))
    try:
        for future in [pool.submit(work) for work in works]:
            future.result(timeout=PATIENCE)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@pytest.mark.parametrize("n_keys", [150, 3000])
def test_no_update_of_any_worker_is_lost(store: ModelStore, n_keys: int) -> None:
    """Each worker adds to a slot of its own, and under a lock to one of all."""
    workers, rounds, lock = 4, 60, threading.Lock()
    added = np.zeros((workers, n_keys))

    def work(worker: int) -> None:
        random = np.random.default_rng(worker)
        for turn in range(rounds):
            keys = np.sort(random.choice(n_keys, 120, replace=False))
            held = frames.acquire(keys, WIDTH, worker)
            for weights in held.weights:
                weights[worker] += 1
            with lock:
                for weights in held.weights:
                    weights[WIDTH - 1] += 1
            added[worker, keys] += 1
            frames.release(held, changed=True)
            if turn % 20 == worker:
                frames.counters  # noqa: B018, beside the others

    with store.frames(LEAST_FRAME_MEMORY, workers) as frames:
        run_all([lambda w=w: work(w) for w in range(workers)])
        adds_up(frames)
        assert frames.counters.wanted == workers * rounds * 120
        assert (frames.counters.evicted > 0) == (n_keys > 1000)
    found = store.get(np.arange(n_keys))
    assert np.array_equal(found[:, :workers].T, added)
    assert np.array_equal(found[:, -1], added.sum(axis=0))


@pytest.fixture(scope="module")
def worker(root: Path, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """worker.c, which runs without the GIL; CFLAGS may name a sanitizer."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        pytest.skip("needs a C compiler")
    path = tmp_path_factory.mktemp("worker") / "worker.so"
    flags = ["-shared", "-fPIC", "-O1", "-g", "-Wall", "-Wextra", "-Werror"]
    flags += [f"-I{root / 'kvstore' / 'native'}", *os.environ.get("CFLAGS", "").split()]
    source = str(root / "tests" / "kvstore" / "worker.c")
    subprocess.run([compiler, *flags, "-o", str(path), source], check=True)
    return ctypes.CDLL(str(path))


@pytest.mark.parametrize(
    ("n_keys", "gap", "most", "memory"),
    [(3000, 3, 45, 1 << 20), (400, 1, 250, 4 << 20), (20000, 1, 60, 1 << 20)],
)
def test_kernels_side_by_side(
    store: ModelStore, worker: ctypes.CDLL, n_keys: int, gap: int, most: int, memory: int
) -> None:
    """Four of them, beside each other without the GIL, while frames leave memory and come back."""
    workers, rounds = 4, 200
    added = np.zeros((workers, n_keys), np.int64)
    worker.work.argtypes = [ctypes.c_void_p, ctypes.c_int32] + [ctypes.c_int64] * 4
    worker.work.argtypes += [ctypes.c_void_p]

    def run(number: int) -> None:
        counts = added[number].ctypes.data
        assert worker.work(frames.access, number, n_keys, gap, most, rounds, counts) == 0

    with store.frames(memory, workers) as frames:
        run_all([lambda w=w: run(w) for w in range(workers)])
        adds_up(frames)
        assert frames.counters.wanted == added.sum()
        assert (frames.counters.evicted > 0) == (n_keys > 400)
    with store.frames(memory) as frames:
        for keys in np.array_split(np.arange(n_keys), n_keys // 40):
            held = frames.acquire(keys, [worker.width_of(key) for key in keys.tolist()])
            found = np.array([weights[:workers] for weights in held.weights])
            assert np.array_equal(found.T, added[:, keys])
            assert not any(weights[workers:].any() for weights in held.weights)
            frames.release(held)


class Reader:
    """A worker in a thread that stops where it is asked whether to, until told to go on.

    It is asked after it made room for 512 frames, and before it reads each slice of 256 of them:
    of 1,000 keys the third time is between slices. Who waits for others is asked time and again.
    """

    def __init__(
        self, frames: Frames, keys: np.ndarray, worker: int, stop_at: int = 3, width: int = WIDTH
    ) -> None:
        self.between, self.go_on = threading.Event(), threading.Event()
        self.cancel, self.asked, self.stop_at, self.stuck = False, 0, stop_at, False
        self.error: Exception | None = None
        self.frames, self.keys, self.worker, self.width = frames, keys, worker, width
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def cancelled(self) -> bool:
        self.asked += 1
        if self.asked == self.stop_at:
            self.between.set()
            self.stuck = not self.go_on.wait(PATIENCE)
        return self.cancel

    def run(self) -> None:
        try:
            self.held = self.frames.acquire(self.keys, self.width, self.worker, self.cancelled)
        except StoreError as error:
            self.error = error
        self.between.set()

    def end(self) -> "Reader":
        self.go_on.set()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        assert not self.stuck
        return self


KEYS = np.arange(1000)


@pytest.fixture
def full(store: ModelStore) -> ModelStore:
    """A store with 1,000 partitions."""
    store.put(KEYS, values_of(KEYS))
    return store


def test_what_one_reads_is_there_for_all_at_once(full: ModelStore) -> None:
    with full.frames(16 << 20, 3) as frames:
        reader = Reader(frames, KEYS, 0)
        assert reader.between.wait(PATIENCE)
        early = frames.acquire(KEYS[:200], WIDTH, 1)  # a published slice of a call still running
        assert (np.stack(early.weights) == values_of(KEYS)[:200]).all()
        assert frames.counters.pushed == 200
        waiting = Reader(frames, KEYS[800:], 2, stop_at=1)
        assert waiting.between.wait(PATIENCE)  # asked because it waits: it has nothing to read
        waiting.go_on.set()
        late = reader.end().held
        held = waiting.end().held
        assert (np.stack(held.weights) == values_of(KEYS)[800:]).all()
        assert held.weights[0].ctypes.data == late.weights[800].ctypes.data
        for one in (early, late, held):
            frames.release(one)
        counted = frames.counters
    assert (counted.requests, counted.pushed, counted.hits) == (1000, 400, 0)
    assert counted.waiting > 0


def test_what_a_cancelled_worker_did_not_read_others_do(full: ModelStore) -> None:
    with full.frames(16 << 20, 3) as frames:
        reader = Reader(frames, KEYS, 0)
        assert reader.between.wait(PATIENCE)
        waiting = [Reader(frames, KEYS[300:], worker, stop_at=1) for worker in (1, 2)]
        for other in waiting:
            assert other.between.wait(PATIENCE)
            other.go_on.set()
        reader.cancel = True
        assert "cancelled" in str(reader.end().error)
        for other in waiting:
            held = other.end().held
            assert (np.stack(held.weights) == values_of(KEYS)[300:]).all()
            frames.release(held)
        adds_up(frames)
        frames.release(frames.acquire(KEYS, WIDTH, 0))
    assert frames.counters.found == frames.counters.requests


def test_all_may_cancel_and_nothing_is_held(full: ModelStore) -> None:
    with full.frames(16 << 20, 3) as frames:
        reader = Reader(frames, KEYS, 0)
        assert reader.between.wait(PATIENCE)
        other = Reader(frames, KEYS[700:], 1, stop_at=1)
        assert other.between.wait(PATIENCE)
        other.cancel = True
        assert "cancelled" in str(other.end().error)
        reader.cancel = True
        assert "cancelled" in str(reader.end().error)
        held = frames.acquire(KEYS, WIDTH, 1)
        assert (np.stack(held.weights) == values_of(KEYS)).all()
        frames.release(held)
        full.checkpoint()


@pytest.mark.parametrize("cancel", [True, False])
def test_room_between_held_frames(tmp_path: Path, cancel: bool) -> None:
    """A wide partition waits for those who hold narrow ones all over memory."""
    wide, keys = 100_000, np.arange(13_000)
    with (
        ModelStore.create(tmp_path / "s", IndexMap.by_rule(1)) as store,
        store.frames(LEAST_FRAME_MEMORY, 2) as frames,
    ):
        for part in np.split(keys, 2):
            frames.release(frames.acquire(part, 1))
        held = frames.acquire(keys[::16], 1)
        for weights in held.weights:
            weights[0] = 1
        taking = Reader(frames, np.array([1 << 40]), 1, stop_at=2, width=wide)
        assert taking.between.wait(PATIENCE)  # it waits, and asks whether to stop
        taking.cancel = cancel
        taking.go_on.set()
        if cancel:
            assert "cancelled" in str(taking.end().error)
        frames.release(held, changed=True)
        if not cancel:
            own = taking.end().held
            assert not own.weights[0].any()
            frames.release(own)
        held = frames.acquire(keys[::16], 1)
        assert all(weights[0] == 1 for weights in held.weights)
        frames.release(held)


# --- what is refused ---


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda s, f: f.acquire(np.arange(1000), WIDTH), "a worker's share is [0-9]+: give more"),
        (lambda s, f: f.acquire([1], WIDTH, 2), "workers are 0 to 1, got 2"),
        (lambda s, f: f.acquire([1], WIDTH, -1), "workers are 0 to 1, got -1"),
        (lambda s, f: f.acquire([2, 1], WIDTH), "keys must rise"),
        (lambda s, f: f.acquire([1, 1], WIDTH), "keys must rise"),
        (lambda s, f: f.acquire([1], 0), "have 1 to 16777215 weights: got key 1 with 0"),
        (lambda s, f: f.acquire([3], 7), "another number of weights"),
        (lambda s, f: (f.acquire([3], WIDTH, 1), f.acquire([3], 7)), "has 256 in memory"),
        (lambda s, f: (f.acquire([3], WIDTH), f.acquire([4], WIDTH)), "worker 0 holds 1 frames"),
        (lambda s, f: s.put([3], np.ones((1, WIDTH), np.float32)), "open frames"),
        (lambda s, f: s.add([3], [0, 1], [0], [1]), "open frames"),
        (lambda s, f: s.frames(LEAST_FRAME_MEMORY), "open frames: close them first"),
        (lambda s, f: (f.acquire([3], WIDTH), s.checkpoint()), "hold frames"),
        (lambda s, f: (f.acquire([3], WIDTH), s.get([3])), "hold frames"),
        (lambda s, f: (f.acquire([3], WIDTH), f.flush()), "hold frames"),
        (lambda s, f: (f.acquire([3], WIDTH), f.close()), "hold frames"),
        (lambda s, f: (f.acquire([3], WIDTH), s.close()), "hold frames"),
        (lambda s, f: (f.close(), f.acquire([3], WIDTH)), "frames of the store .* are closed"),
        (lambda s, f: (f.close(), s.frames(1000)), "frames need 1048576 bytes"),
        (lambda s, f: (f.close(), s.frames(LEAST_FRAME_MEMORY, 0)), "workers must be 1 to"),
    ],
)
def test_what_is_refused(store: ModelStore, call, reason: str) -> None:
    store.put([3], np.ones((1, WIDTH), np.float32))
    frames = store.frames(LEAST_FRAME_MEMORY, 2)
    taken = []
    acquire = frames.acquire
    frames.acquire = lambda *given: taken.append(acquire(*given)) or taken[-1]
    with pytest.raises(StoreError, match=reason):
        call(store, frames)
    for held in taken:
        frames.release(held)
    frames.close()
    assert (store.get([3]) == 1).all()


def test_reading_the_store_writes_frames_first(store: ModelStore) -> None:
    with store.frames(LEAST_FRAME_MEMORY) as frames:
        touch(frames, [3], lambda w: w.fill(1))
        assert (store.get([3]) == 1).all()
        touch(frames, [3], lambda w: w.fill(2))
        assert (store.weights([3 * WIDTH]) == 2).all()
        touch(frames, [3], lambda w: w.fill(3))
        assert [values[0] for _, _, values in store.scan()] == [3]


def test_an_exception_drops_what_was_not_written(store: ModelStore) -> None:
    def fail() -> None:
        with store.frames(LEAST_FRAME_MEMORY) as frames:
            touch(frames, [3], lambda w: w.fill(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not store.get([3]).any()
    store.frames(LEAST_FRAME_MEMORY).close()


# --- faults ---


def spoil(store: ModelStore) -> "dict[Path, bytes]":
    """Flips a bit in the middle of each table, in place since LevelDB has them mapped."""
    whole = {path: path.read_bytes() for path in (store.path / "database").glob("*.ldb")}
    assert whole
    for path, data in whole.items():
        middle = len(data) // 2
        write(path, data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    return whole


def write(path: Path, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.write(data)


def test_damage_ends_in_an_error_and_the_store_closes(full: ModelStore) -> None:
    full.checkpoint()
    whole = spoil(full)
    with full.frames(16 << 20, 2) as frames:
        for worker in (0, 1):
            with pytest.raises(StoreError, match="is damaged"):
                frames.acquire(KEYS, WIDTH, worker)
            adds_up(frames)
        for path, data in whole.items():
            write(path, data)
        held = frames.acquire(KEYS, WIDTH, 1)
        assert (np.stack(held.weights) == values_of(KEYS)).all()
        frames.release(held)
        adds_up(frames)


def test_damage_reaches_all_who_wait(full: ModelStore) -> None:
    """The reader fails; those who wait for it read for themselves, and fail too."""
    full.checkpoint()
    with full.frames(16 << 20, 3) as frames:
        reader = Reader(frames, KEYS, 0)
        assert reader.between.wait(PATIENCE)
        others = [Reader(frames, KEYS[300:], worker, stop_at=1) for worker in (1, 2)]
        for other in others:
            assert other.between.wait(PATIENCE)
            other.go_on.set()
        spoil(full)
        for other in [reader, *others]:
            assert "is damaged" in str(other.end().error)
        adds_up(frames)


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


def test_a_full_disk_when_frames_leave_memory(tmp_path: Path) -> None:
    """Files may not grow, as on a full disk: an error, and the last checkpoint is there."""
    program = """
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
    done = in_a_process(program, tmp_path)
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


@pytest.mark.slow
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
