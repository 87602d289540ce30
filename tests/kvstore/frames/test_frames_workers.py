"""Workers that share frames: what one reads or fails to read, and that no update is lost."""

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

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


def adds_up(frames: Frames) -> None:
    counted = frames.counters
    assert counted.wanted == counted.hits + counted.pushed + counted.requests
    assert 0 <= counted.found <= counted.requests


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


@pytest.mark.parametrize("pushes", [False, True])
@pytest.mark.parametrize(
    ("n_keys", "gap", "most", "memory"),
    [(3000, 3, 45, 1 << 20), (400, 1, 250, 4 << 20), (20000, 1, 60, 1 << 20)],
)
def test_kernels_side_by_side(
    store: ModelStore,
    worker: ctypes.CDLL,
    n_keys: int,
    gap: int,
    most: int,
    memory: int,
    pushes: bool,
) -> None:
    """Four of them, beside each other without the GIL, while frames leave memory and come back."""
    workers, rounds = 4, 200
    added = np.zeros((workers, n_keys), np.int64)
    worker.work.argtypes = [ctypes.c_void_p, ctypes.c_int32] + [ctypes.c_int64] * 4
    worker.work.argtypes += [ctypes.c_void_p]

    def run(number: int) -> None:
        counts = added[number].ctypes.data
        assert worker.work(frames.access, number, n_keys, gap, most, rounds, counts) == 0

    with store.frames(memory, workers, pushes=pushes) as frames:
        run_all([lambda w=w: run(w) for w in range(workers)])
        adds_up(frames)
        assert frames.counters.wanted == added.sum()
        assert (frames.counters.evicted > 0) == (n_keys > 400)
        assert pushes or not frames.counters.pushed
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
        assert frames.counters.hits == 200
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
    assert (counted.requests, counted.pushed, counted.hits) == (1000, 0, 400)
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


# --- damage ---


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
