"""Payloads that a worker reads and delivers to others: recounted by a trace; kept in memory."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuskml.errors import StoreError
from tuskml.kvstore import LEAST_FRAME_MEMORY, Frames, ModelStore
from tuskml.partitioner import IndexMap

pytestmark = pytest.mark.native

WIDTH, WORKERS = 256, 3
KEYS = np.arange(1000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelStore]:
    """1,000 partitions of 256 weights, all of the number of their key."""
    path: Path = tmp_path_factory.mktemp("pushes") / "store"
    with ModelStore.create(path, IndexMap.by_rule(WIDTH)) as store:
        store.put(KEYS, np.repeat(KEYS, WIDTH).astype(np.float32))
        yield store


def take(frames: Frames, keys: "np.ndarray", worker: int) -> None:
    held = frames.acquire(keys, WIDTH, worker)
    assert [float(weights[0]) for weights in held.weights] == keys.tolist()
    frames.release(held)


def counts(frames: Frames) -> tuple[int, int, int]:
    counted = frames.counters
    assert counted.wanted == counted.hits + counted.pushed + counted.requests
    return counted.requests, counted.pushed, counted.hits


class Trace:
    """What the workers do, one at a time, and what a store without limits would answer."""

    def __init__(self) -> None:
        self.memory: set[int] = set()
        self.expected: list[set[int]] = [set() for _ in range(WORKERS)]
        self.delivered: list[set[int]] = [set() for _ in range(WORKERS)]
        self.requests = self.pushed = self.hits = 0

    def expect(self, worker: int, keys: set[int]) -> None:
        self.expected[worker], self.delivered[worker] = keys, set()

    def acquire(self, worker: int, keys: set[int]) -> None:
        got = keys & self.delivered[worker]
        self.expect(worker, set())
        self.pushed += len(got)
        for key in keys - got:
            if key in self.memory:
                self.hits += 1
                continue
            self.requests += 1
            self.memory.add(key)
            for other in range(WORKERS):
                if other != worker and key in self.expected[other]:
                    self.delivered[other].add(key)


steps = st.lists(
    st.tuples(
        st.sampled_from(["expect", "acquire", "release"]),
        st.integers(0, WORKERS - 1),
        st.sets(st.integers(0, 30), max_size=12),
    ),
    max_size=40,
)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps)
def test_counters_are_those_of_an_independent_trace(
    store: ModelStore, given_steps: "list[tuple[str, int, set[int]]]"
) -> None:
    trace, held = Trace(), {}
    with store.frames(4 << 20, WORKERS, pushes=True) as frames:
        for what, worker, keys in given_steps:
            ordered = np.array(sorted(keys), np.int64)
            if what == "expect":
                frames.expect(ordered, worker)
                trace.expect(worker, keys)
            elif what == "acquire" and worker not in held and keys:
                held[worker] = frames.acquire(ordered, WIDTH, worker)
                trace.acquire(worker, keys)
                assert [float(w[0]) for w in held[worker].weights] == ordered.tolist()
            elif what == "release" and worker in held:
                frames.release(held.pop(worker))
        for one in held.values():
            frames.release(one)
        assert counts(frames) == (trace.requests, trace.pushed, trace.hits)
        frames.expect([], 0)
        frames.expect([], 1)
        frames.expect([], 2)


@pytest.mark.parametrize("pushes", [False, True])
def test_a_hit_on_ones_own_is_a_hit(store: ModelStore, pushes: bool) -> None:
    """Two workers, of which one calls: nobody hands it anything."""
    with store.frames(4 << 20, 2, pushes=pushes) as frames:
        for _ in range(3):
            take(frames, KEYS[:200], 0)
            frames.expect(KEYS[:200], 0)
        assert counts(frames) == (200, 0, 400)


def test_what_another_read_before_it_was_expected_is_a_hit(store: ModelStore) -> None:
    with store.frames(4 << 20, 2, pushes=True) as frames:
        take(frames, KEYS[:100], 0)
        frames.expect(KEYS[:100], 1)
        take(frames, KEYS[:100], 1)
        assert counts(frames) == (100, 0, 100)


@pytest.mark.parametrize("pushes", [False, True])
def test_what_is_delivered_stays_until_it_is_taken(store: ModelStore, pushes: bool) -> None:
    """Others pass through a small memory in between; without pushing it is read again."""
    with store.frames(LEAST_FRAME_MEMORY, 2, pushes=pushes) as frames:
        if pushes:
            frames.expect(KEYS[:300], 1)
        take(frames, KEYS[:300], 0)
        for first in range(300, 1000, 100):
            take(frames, KEYS[first : first + 100], 0)
        before = frames.counters
        take(frames, KEYS[:300], 1)
        after = frames.counters
    assert before.evicted > 0
    assert after.pushed == (300 if pushes else 0)
    assert (after.requests == before.requests) == pushes


def test_deliveries_keep_to_the_workers_share(store: ModelStore) -> None:
    with store.frames(LEAST_FRAME_MEMORY, 2, pushes=True) as frames:
        fit = frames.share // frames.bytes_of(WIDTH)
        held = frames.acquire(KEYS[: fit // 2], WIDTH, 1)
        frames.expect(KEYS[fit // 2 : fit // 2 + fit], 1)
        half = KEYS[fit // 2 : fit // 2 + fit]
        take(frames, half, 0)
        take(frames, KEYS[-fit:], 0)
        frames.release(held)
        before = frames.counters.pushed
        take(frames, half, 1)
        assert 0 < frames.counters.pushed - before <= fit - fit // 2


def test_other_keys_than_those_expected(store: ModelStore) -> None:
    """What was delivered in vain can leave memory again."""
    with store.frames(LEAST_FRAME_MEMORY, 2, pushes=True) as frames:
        for first in range(0, 900, 100):
            frames.expect(KEYS[first : first + 100], 1)
            take(frames, KEYS[first : first + 100], 0)
            take(frames, KEYS[900:], 1)
        assert frames.counters.pushed == 0
        assert frames.counters.evicted > 0
        frames.close()


def test_a_worker_that_there_is_not(store: ModelStore) -> None:
    frames = store.frames(LEAST_FRAME_MEMORY, 2, pushes=True)
    with frames, pytest.raises(StoreError, match="workers are 0 to 1, got 2"):
        frames.expect([1], 2)
