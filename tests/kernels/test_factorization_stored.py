"""Factors in a store: against training in memory, with frames that a test hands out."""

import ctypes
import itertools
import threading
from dataclasses import replace

import numpy as np
import pytest
from rows import block, rows_pass
from test_factorization import made, ratings

from tuskml.errors import Interrupted, StoreError
from tuskml.kernels import passes
from tuskml.kernels.factorization import Shape, StoredFactorization, rating_ids
from tuskml.kvstore.native import FrameAccess

TOO_LARGE, FAILED, CORRUPT, NO_MEMORY, CANCELLED = 4, 1, 2, 3, 5


class Frame(ctypes.Structure):
    _fields_ = [
        ("weights", ctypes.c_void_p),
        ("stamp", ctypes.c_double),
        ("width", ctypes.c_uint32),
    ]


FRAMES = ctypes.POINTER(ctypes.POINTER(Frame))
KEYS, WIDTHS = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
IS_CANCELLED = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
ACQUIRE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_int32, KEYS, WIDTHS, ctypes.c_int64, FRAMES,
    IS_CANCELLED, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char),
)  # fmt: skip
RELEASE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int32, FRAMES, ctypes.c_int64, ctypes.c_int
)


class Store:
    """Frames in a dictionary; holds the contract of frames.h, and says when it is broken."""

    def __init__(self, fail=None, shared=False):
        """fail: the code of all but the first calls; shared: two workers may hold one key."""
        self.fail, self.shared = fail, shared
        self.frames, self.weights = {}, {}
        self.held = {}
        self.acquired = 0
        self.wrong = []
        self.lock = threading.Lock()
        self.most = 0  # keys in a call
        self.calls_back = ACQUIRE(self._acquire), RELEASE(self._release)
        self.struct = FrameAccess.of(4, *self.calls_back)

    @property
    def access(self):
        return ctypes.addressof(self.struct)

    def _acquire(self, _, worker, keys, widths, n, out, cancelled, argument, error):
        with self.lock:
            keys = [keys[k] for k in range(n)]
            if worker in self.held:
                self.wrong.append("a worker asked twice")
            if any(a >= b for a, b in itertools.pairwise(keys)):
                self.wrong.append("keys do not rise")
            if cancelled(argument):
                return CANCELLED
            self.most = max(self.most, n)
            if self.fail and self.acquired >= 100:
                ctypes.memmove(error, b"the disk is full\0", 17)
                return self.fail
            taken = set(keys)
            if not self.shared and any(taken & other for other in self.held.values()):
                self.wrong.append("two workers have one vector")
            for k, key in enumerate(keys):
                out[k] = ctypes.pointer(self._frame(key, widths[k]))
            self.held[worker] = taken
            self.acquired += n
            return 0

    def _frame(self, key, width):
        if key not in self.frames:
            room = np.zeros(width + 16, np.float32)
            first = -room.ctypes.data % 64 // 4  # kernels load whole lines
            self.weights[key] = room[first : first + width]
            self.frames[key] = Frame(self.weights[key].ctypes.data, 0, width)
        if self.frames[key].width != width:
            self.wrong.append("a key has two widths")
        return self.frames[key]

    def _release(self, _, worker, held, n, changed):
        with self.lock:
            if len(self.held.pop(worker, ())) != n:
                self.wrong.append("what was released was not what was held")

    def table(self, model, per_key):
        """All vectors, as `Factorization.vectors` gives them."""
        shape, first = model.shape, model.first_item
        numbers = np.zeros(((first + shape.n_items + per_key) * shape.stride,))
        for key, weights in self.weights.items():
            at = key * max(1, per_key * shape.stride)
            numbers[at : at + len(weights)] = weights
        rows = numbers.reshape(-1, shape.stride)
        assert not rows[:, shape.width :].any(), "padding stays 0"
        rows = np.concatenate([rows[: shape.n_users], rows[first : first + shape.n_items]])
        found = rows[:, : shape.width] * np.sqrt(model.deviation)
        if shape.biases:
            found[:, 0] = rows[:, 0] * model.deviation
        return found

    def check(self):
        assert self.wrong == []
        assert self.held == {}


KEY_BYTES = 1


def stored(arrays, *, threads=1, per_key=1, block_bytes=1 << 16, most=10**9, **given):
    """A factorization of ratings whose blocks may ask for so many keys at a time."""
    user, item, rating = arrays
    rows = rows_pass(
        block(np.stack([user, item], 1).astype(float), rating),
        "matrix_factorization",
        threads=threads,
    )
    ids = rating_ids(rows)
    shape = Shape(ids.n_users, ids.n_items, **{"rank": 5, "biases": True, "l2": 0.05} | given)
    model = StoredFactorization(rows, 0, shape, 3, block_bytes)
    model.lay_out(per_key, KEY_BYTES, most)
    return model


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("per_key", [0, 1, 7, 64])
@pytest.mark.parametrize("rank", [1, 15, 16, 100])
def test_as_in_memory(biases, per_key, rank):
    """One block in both: the same ratings in the same order from the same start, to the bit."""
    arrays = ratings(40, 30, 900)
    store = Store()
    with stored(arrays, per_key=per_key, rank=rank, biases=biases) as model:
        visits = [model.epoch(store.access, k, 0.05) for k in range(6)]
        at_end = model.loss(store.access, model.mean, model.deviation)
        mean, coef = model.mean, store.table(model, per_key)
    with made(*arrays, rank=rank, biases=biases, seed=3) as model:
        wanted = [model.epoch(k, 0.05) for k in range(6)]
        wanted_mean, wanted_coef = model.vectors()
        objective = model.objective()
    assert mean == wanted_mean
    np.testing.assert_allclose(coef, wanted_coef, rtol=1e-7, atol=1e-12)
    assert [visit.objective for visit in visits] == pytest.approx(wanted, rel=1e-9)
    assert at_end.objective == pytest.approx(objective, rel=1e-6)
    assert at_end.n_vectors == 70
    keys = -(-40 // per_key) + -(-30 // per_key) if per_key else 70 * (rank + biases)
    assert at_end.n_keys == len(store.frames) == keys
    store.check()


@pytest.mark.parametrize("per_key", [0, 1, 7])
def test_threads_change_no_bit_and_share_no_vector(per_key):
    arrays = ratings(200, 150, 12_000)
    tables = []
    for threads in (1, 4):
        store = Store(shared=per_key > 1)
        with stored(arrays, threads=threads, per_key=per_key, block_bytes=4096) as model:
            ends = [model.epoch(store.access, k, 0.05).objective for k in range(3)]
            tables.append((ends, store.table(model, per_key)))
        store.check()
    assert tables[0][0] == tables[1][0]
    assert (tables[0][1] == tables[1][1]).all()
    assert ends[-1] < 0.7 * ends[0]


def test_what_is_in_a_key_changes_no_bit():
    arrays = ratings(200, 150, 12_000)
    tables = []
    for per_key in (1, 2, 5, 33, 500, 0):
        store = Store(shared=True)
        with stored(arrays, threads=2, per_key=per_key, block_bytes=4096) as model:
            ends = [model.epoch(store.access, k, 0.05).objective for k in range(2)]
            tables.append((ends, store.table(model, per_key)))
        store.check()
    for ends, table in tables[1:]:
        assert ends == pytest.approx(tables[0][0], rel=1e-12)
        assert (table == tables[0][1]).all()


@pytest.mark.parametrize("per_key", [1, 3, 8])
def test_counts_are_those_of_the_visits(per_key):
    """What the layout is chosen by is what is asked for; and what NumPy counts."""
    user, item, _ = arrays = ratings(200, 150, 3_000)
    store = Store(shared=True)
    with stored(arrays, per_key=per_key, block_bytes=4096) as model:
        (counted,) = model.count_keys([per_key])
        visit = model.epoch(store.access, 0, 0.05)
    assert visit.n_keys == counted
    with stored(arrays, per_key=per_key, block_bytes=1 << 30) as model:  # one block
        n_users = len(np.unique(user // per_key))
        assert model.count_keys([per_key])[0] == n_users + len(np.unique(item // per_key))
        visit = model.epoch(Store().access, 0, 0.05)
        assert visit.n_vectors == len(np.unique(user)) + len(np.unique(item))


@pytest.mark.parametrize("per_key", [1, 4])
def test_a_block_that_does_not_fit_is_trained_in_pieces(per_key):
    """The order of the ratings stays, so that the model does."""
    arrays = ratings(40, 30, 900)
    tables = []
    for most in (10**9, 7, 2):
        store = Store()
        with stored(arrays, per_key=per_key, most=most * KEY_BYTES) as model:
            visits = [model.epoch(store.access, k, 0.05) for k in range(2)]
            tables.append((visits[-1].objective, store.table(model, per_key)))
        store.check()
        assert store.most <= most
    assert visits[0].n_keys > 200
    for objective, table in tables[1:]:
        assert objective == pytest.approx(tables[0][0], rel=1e-9)
        assert (table == tables[0][1]).all()


def test_two_vectors_must_fit():
    with pytest.raises(MemoryError, match="two vectors of 6"):
        stored(ratings(), most=1)


def test_from_the_start_again():
    arrays = ratings(40, 30, 900)
    with stored(arrays) as model:
        tables = []
        for _ in range(2):
            store = Store()
            model.epoch(store.access, 0, 0.05)
            tables.append(store.table(model, 1))
            model.start()
    assert (tables[0] == tables[1]).all()


@pytest.mark.parametrize("code", [FAILED, CORRUPT])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_failing_store_ends_the_epoch(code, threads):
    store = Store(fail=code)
    with (
        stored(ratings(200, 150, 12_000), threads=threads, block_bytes=4096) as model,
        pytest.raises(StoreError, match="the disk is full"),
    ):
        model.epoch(store.access, 0, 0.05)
    store.check()


def test_no_memory():
    store = Store(fail=NO_MEMORY)
    arrays = ratings(200, 150, 12_000)
    with stored(arrays, block_bytes=4096) as model, pytest.raises(MemoryError):
        model.epoch(store.access, 0, 0.05)
    store.check()


def test_a_share_that_is_smaller_than_was_said():
    store = Store(fail=TOO_LARGE)
    with (
        stored(ratings(200, 150, 12_000), block_bytes=4096) as model,
        pytest.raises(MemoryError, match="raise option 'cache'"),
    ):
        model.epoch(store.access, 0, 0.05)
    store.check()


def test_cancelled():
    store = Store()
    user, item, rating = ratings(200, 150, 12_000)
    rows = rows_pass(block(np.stack([user, item], 1).astype(float), rating), threads=2)
    rows = replace(rows, cancel_mark=passes.cancel_count())
    shape = Shape(200, 150, 5, True, 0.05)
    with StoredFactorization(rows, 0, shape, 0, block_bytes=4096) as model:
        model.lay_out(1, 1, 10**9)
        model.epoch(store.access, 0, 0.05)
        passes.cancel()
        with pytest.raises(Interrupted):
            model.epoch(store.access, 1, 0.05)
        with pytest.raises(Interrupted):
            model.lay_out(1, 1, 10**9)
    store.check()


def test_other_ratings():
    """Held-out ratings, some of users and items that were never trained: their vectors are 0."""
    user, item, rating = ratings(60, 50, 2000)
    test = np.arange(len(user)) % 5 == 0
    kept, other = ((user[w], item[w], rating[w]) for w in (~test & (user < 55), test))
    store = Store()
    with stored(kept) as model:
        for k in range(5):
            model.epoch(store.access, k, 0.05)
        mean, deviation = model.mean, model.deviation
        table = store.table(model, 1)
    n_users = kept[0].max() + 1
    assert (n_users, other[0].max(), other[1].max()) == (55, 59, 49)
    moved = Store()  # items come behind as many users as there are
    for key, weights in store.weights.items():
        there = key if key < n_users else key - n_users + 60
        moved.weights[there] = weights
        moved.frames[there] = Frame(weights.ctypes.data, 0, 16)
    with stored(other, l2=0.0) as model:
        assert model.deviation != deviation
        found = model.loss(moved.access, mean, deviation).objective
    whole = np.zeros((110, 6))
    whole[:55], whole[60 : 60 + len(table) - 55] = table[:55], table[55:]
    p, q = whole[other[0]], whole[60 + other[1]]
    margin = mean + p[:, 0] + q[:, 0] + np.einsum("nk,nk->n", p[:, 1:], q[:, 1:])
    assert found == pytest.approx(np.mean((margin - other[2]) ** 2) / 2, rel=1e-5)
    moved.check()
