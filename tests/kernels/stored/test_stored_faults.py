"""Stores that fail, trainings that are cancelled, chunks that are too large."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from rows import block, rows_pass
from stored_reference import sparse_rows
from test_stored_weights import MOST, D, Setup, compare, partitions

from tuskml.errors import DataError, Interrupted, StoreError
from tuskml.kernels import passes
from tuskml.kernels.stored.chunks import Chunks, ChunkTooLarge
from tuskml.kernels.stored.training import Model
from tuskml.kvstore.native import FrameAccess
from tuskml.partitioner.index_map import IndexMap

ACQUIRE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
RELEASE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
)
CANCELLED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


class Faulty:
    """The payloads of ScratchFrames; before the n-th acquire, from 0 on, `before` may fail it.

    before(n, error, cancelled) returns a code of frames.h, 0 for none.
    """

    def __init__(self, frames, before):
        self.inner = FrameAccess.from_address(frames.access)
        self.inner_acquire = ACQUIRE(self.inner.acquire)
        self.before = before
        self.calls, self.held, self.changed, self.workers = 0, {}, [], set()
        self.calls_back = ACQUIRE(self.acquire), RELEASE(self.release)
        self.struct = FrameAccess.of(self.inner.weight_size, *self.calls_back)

    @property
    def access(self):
        return ctypes.addressof(self.struct)

    def acquire(self, _, worker, keys, widths, n, out, cancelled, argument, error):
        number, self.calls = self.calls, self.calls + 1
        self.workers.add(worker)
        assert worker not in self.held
        asked = CANCELLED(cancelled)
        code = self.before(
            number, (ctypes.c_char * 512).from_address(error), lambda: asked(argument)
        )
        if code:
            return code
        self.held[worker] = n
        return self.inner_acquire(
            self.inner.frames, worker, keys, widths, n, out, cancelled, argument, error
        )

    def release(self, _, worker, held, n, changed):
        assert self.held.pop(worker) == n
        self.changed.append(changed)


@pytest.fixture(params=[1, 4])
def setup(request):
    rng = np.random.default_rng(1)
    rows, y = sparse_rows(rng, 2000, D)
    return Setup(rows, y, partitions(), threads=request.param, rows_per_chunk=20)


def failing(setup, code, at, sentence=b""):
    """A store whose acquire number `at` fails, and a training on it."""

    def before(number, error, _):
        if number != at:
            return 0
        error.value = sentence
        return code

    store = Faulty(setup.frames, before)
    return store, replace(setup.training(), access=store.access)


KINDS = {
    1: (StoreError, "the disk is full"),
    2: (StoreError, "a block of key 7 is damaged"),
    3: (MemoryError, "memory"),
    4: (ChunkTooLarge, "a worker's share is 5 bytes"),
    5: (Interrupted, "interrupted"),
}


@pytest.mark.parametrize("pass_name", ["epoch", "loss"])
@pytest.mark.parametrize("code", KINDS)
def test_a_failure_of_the_store_ends_the_pass(setup, code, pass_name):
    kind, sentence = KINDS[code]
    store, training = failing(setup, code, 9, sentence.encode())
    with pytest.raises(kind, match=sentence) as raised:
        getattr(training, pass_name)(Model())
    assert store.held == {}
    if setup.rows.threads == 1:  # others go on until they hear of it
        assert store.calls <= 10
        assert code != 4 or raised.value.chunk == 9


def test_settling_fails_with_the_store(setup):
    store, training = failing(setup, 2, 3, b"key 5 is damaged")
    with pytest.raises(StoreError, match="key 5 is damaged"):
        training.settle(Model(), setup.keys, setup.widths, 100)
    assert store.held == {}


def test_a_store_that_does_not_fail_trains_and_marks_changes(setup):
    store, training = failing(setup, 1, -1)
    result = training.epoch(Model())
    assert store.calls == len(setup.chunks) == len(store.changed)
    assert set(store.changed) == {1}
    assert store.workers <= set(range(setup.rows.threads))
    assert result.keys == sum(len(chunk.keys) for chunk in setup.chunks)
    store.changed.clear()
    training.loss(result.model)
    assert set(store.changed) == {0}


@pytest.mark.parametrize("pass_name", ["epoch", "loss"])
def test_cancelling_stops_soon(setup, pass_name):
    seen = []

    def before(number, _, cancelled):
        if number == 5:
            passes.cancel()
        seen.append(cancelled())
        return 5 if number == 6 else 0

    store = Faulty(setup.frames, before)
    setup.chunks.rows = replace(setup.rows, cancel_mark=passes.cancel_count())
    training = replace(setup.training(), access=store.access)
    with pytest.raises(Interrupted):
        getattr(training, pass_name)(Model())
    assert store.held == {}
    assert store.calls <= 6 + setup.rows.threads
    assert any(seen)
    if setup.rows.threads == 1:
        assert not any(seen[:5])


def test_a_cancelled_mapping(setup):
    rows = replace(setup.rows, cancel_mark=passes.cancel_count())
    passes.cancel()
    with pytest.raises(Interrupted):
        Chunks.map(rows, setup.index.locate, setup.index.sizes, 20, MOST)


def test_a_payload_of_another_width(setup):
    setup.frames._frame(0).width += 1
    with pytest.raises(StoreError, match="the payload of key 0 has 8 weights, not 7"):
        setup.training().epoch(Model())


def test_a_key_that_a_trial_does_not_have(setup):
    trial = setup.training().of([0], setup.frames.access, 0.1)
    other = Setup([([1], [1.0])], np.ones(1), IndexMap.by_rule(1))
    with pytest.raises(StoreError, match="key 0 is not among those of the trial"):
        replace(trial, access=other.frames.access).epoch(Model())


@pytest.mark.parametrize("most_bytes", [1500, 2500, 4500])
def test_large_chunks_are_cut_and_train_the_same(most_bytes):
    rng = np.random.default_rng(2)
    rows, y = sparse_rows(rng, 300, D, mean=2)
    setup = Setup(rows, y, IndexMap.by_rule(4), rows_per_chunk=200, most_bytes=most_bytes)
    chunks = list(setup.chunks)
    assert len(chunks) > 2
    for chunk in chunks:
        assert chunk.weights == chunk.widths.sum()
        assert chunk.weights * 8 + len(chunk.keys) * 128 <= most_bytes
    ends = [0, *(chunk.row + chunk.rows for chunk in chunks)]
    assert [chunk.row for chunk in chunks] == ends[:-1]
    assert ends[-1] == 300
    compare(setup, setup.reference("linear", rows, y), setup.training())


def test_a_chunk_can_be_halved_after_mapping():
    rng = np.random.default_rng(4)
    rows, y = sparse_rows(rng, 150, D)
    setup = Setup(rows, y, partitions())
    before = list(setup.chunks)
    setup.chunks.split(1)
    after = list(setup.chunks)
    assert [(c.row, c.rows) for c in after] == [(0, 64), (64, 32), (96, 32), (128, 22)]
    assert set(after[1].keys) | set(after[2].keys) == set(before[1].keys)
    assert after[1].entries + after[2].entries == before[1].entries
    compare(setup, setup.reference("linear", rows, y), setup.training())


def test_one_row_cannot_be_halved():
    setup = Setup([([1], [1.0])], np.ones(1), IndexMap.by_rule(1))
    with pytest.raises(ChunkTooLarge, match="weights of one row do not fit"):
        setup.chunks.split(0)
    with pytest.raises(IndexError, match="there are 1 chunks, no number 1"):
        setup.chunks.split(1)


def test_a_payload_that_is_too_large():
    rows = [([0], [1.0]), (np.arange(0, 100, 5), np.ones(20))]
    with pytest.raises(ChunkTooLarge, match="weights under one key do not fit"):
        Setup(rows, np.ones(2), IndexMap.by_rule(200), most_bytes=1000)


def test_places_never_pass_int32():
    wide = 2**30

    def map_rows(rows, widths):
        groups = block(rows, np.ones(len(rows)), "sparse float64", 10, D)
        return Chunks.map(rows_pass(groups), IndexMap.by_rule(1).locate, widths, 10, 1 << 60)

    chunks = map_rows([([0, 1, 2], np.ones(3))], lambda keys: np.where(keys == 0, wide, 1))
    pages = -(-chunks[0].widths.astype(object) // 2 ** chunks[0].shift)
    assert pages.sum() * 2 ** chunks[0].shift < 2**31
    chunks = map_rows([([k], [1.0]) for k in range(4)], lambda keys: np.full(len(keys), wide))
    assert [chunk.rows for chunk in chunks] == [1] * 4
    with pytest.raises(ChunkTooLarge):
        map_rows([(np.arange(4), np.ones(4))], lambda keys: np.full(len(keys), wide))


def test_index_maps_that_contradict_themselves():
    rows, y = sparse_rows(np.random.default_rng(3), 50, D)
    good = IndexMap.by_rule(8)

    class Wrong:
        locate = staticmethod(good.locate)
        sizes = staticmethod(good.sizes)

    Wrong.locate = staticmethod(lambda ids: (good.locate(ids)[0], good.locate(ids)[1] + 8))
    with pytest.raises(DataError, match="a slot that its payload does not have"):
        Setup(rows, y, Wrong)
    Wrong.locate = staticmethod(lambda ids: (good.locate(ids)[0][1:], good.locate(ids)[1]))
    with pytest.raises(DataError, match="features were given"):
        Setup(rows, y, Wrong)
    Wrong.locate = good.locate
    Wrong.sizes = staticmethod(lambda keys: np.zeros(len(keys), np.int64))
    with pytest.raises(DataError, match="a width each, from 1 to"):
        Setup(rows, y, Wrong)


def test_dense_rows_are_refused():
    groups = block(np.ones((3, 2)), np.ones(3))
    with pytest.raises(DataError, match="sparse rows of one group"):
        Chunks.map(rows_pass(groups), lambda ids: ids, lambda keys: keys, 10, MOST)
