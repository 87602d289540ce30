"""Frames hold what a dictionary would, whoever takes them, whatever leaves memory meanwhile."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuskml.errors import StoreError
from tuskml.kvstore import LEAST_FRAME_MEMORY, Frames, ModelStore
from tuskml.kvstore.frames import frame_bytes, frame_share
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.native

WIDTH = 256
INDEX = IndexMap.by_rule(WIDTH)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ModelStore]:
    """An empty store whose partitions have 256 weights."""
    with ModelStore.create(tmp_path / "store", INDEX) as store:
        yield store


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


WITHIN_SHARE = 400_000
"""Bytes of frames that one of two workers may hold at once of LEAST_FRAME_MEMORY."""


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
        sizes = [width_of(key) * self.dtype.itemsize for key in keys.tolist()]
        keys = keys[np.cumsum(sizes) <= WITHIN_SHARE]
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
        assert self.frames.is_closed
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
@example(steps=[(Model.touch, 18177629)], dtype="float64", keep_stamps=False)
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


@pytest.mark.parametrize(("width", "dtype"), [(1, "float32"), (1, "float64"), (16, "float32")])
def test_a_share_is_what_one_call_may_have(tmp_path: Path, width: int, dtype: str) -> None:
    """Narrow frames take 64 bytes beside their weights at most, and three quarters are theirs."""
    with ModelStore.create(tmp_path / "s", INDEX, dtype) as store:
        frames = store.frames(LEAST_FRAME_MEMORY, 3)
        size = width * store.dtype.itemsize
        assert size + 32 <= frames.bytes_of(width) <= size + 64
        assert LEAST_FRAME_MEMORY * 3 // 4 < frames.share * 3 < LEAST_FRAME_MEMORY
        n = frames.share // frames.bytes_of(width)
        held = [frames.acquire(np.arange(n) + i * n, width, i) for i in range(3)]
        assert frames.counters.evicted == 0
        with pytest.raises(StoreError, match="chunk take"):
            frames.acquire(np.arange(n + 1), width)
        for one in held:
            frames.release(one)
        assert frames.counters.requests == 3 * n


def test_one_call_may_have_all_frames_that_fit(tmp_path: Path) -> None:
    """Where that was promised; who breaks the promise gets an error or his frames, and no wait."""
    with ModelStore.create(tmp_path / "s", INDEX) as store:
        size = frame_bytes(WIDTH, 4)
        n = frame_share(LEAST_FRAME_MEMORY, 1) // size
        keys = np.arange(n)
        frames = store.frames(LEAST_FRAME_MEMORY, 3, all_bytes=n * size)
        held = [frames.acquire(keys, WIDTH, i) for i in range(3)]
        assert frames.counters.evicted == 0
        assert (frames.counters.requests, frames.counters.hits) == (n, 2 * n)
        for one in held:
            frames.release(one)
        with pytest.raises(StoreError, match="chunk take"):
            frames.acquire(np.arange(n + 1), WIDTH)
        frames.release(frames.acquire(keys + n, WIDTH, 1))
        assert frames.counters.evicted == n
        frames.close()
        frames = store.frames(LEAST_FRAME_MEMORY, 3, all_bytes=(n + 1) * size)
        with pytest.raises(StoreError, match="chunk take"):
            frames.acquire(keys[: n // 2], WIDTH)


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


@pytest.mark.nightly
def test_a_large_table_grows_and_finds(tmp_path: Path) -> None:
    """One weight a key, keys with a stride: as many frames as fit, all found again."""
    keys = np.arange(60_000) * 64
    with (
        ModelStore.create(tmp_path / "s", IndexMap.by_rule(1)) as store,
        store.frames(16 << 20) as frames,
    ):
        for _ in range(2):
            for part in np.split(keys, 15):
                frames.release(frames.acquire(part, 1))
        counted = frames.counters
    assert (counted.requests, counted.hits, counted.evicted) == (len(keys), len(keys), 0)


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
