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
from tuskml.udas import kernels
from tuskml.udas.factorization import Shape, StoredFactorization, rating_ids

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


class Access(ctypes.Structure):
    _fields_ = [
        ("frames", ctypes.c_void_p),
        ("weight_size", ctypes.c_int32),
        ("acquire", ACQUIRE),
        ("release", RELEASE),
    ]


class Store:
    """Frames in a dictionary; holds the contract of frames.h, and says when it is broken."""

    def __init__(self, dtype=np.float32, most=10**9, fail=None):
        self.dtype, self.most, self.fail = dtype, most, fail
        self.frames, self.weights = {}, {}
        self.held = {}
        self.acquired = 0
        self.wrong = []
        self.lock = threading.Lock()
        self.struct = Access(
            None, np.dtype(dtype).itemsize, ACQUIRE(self._acquire), RELEASE(self._release)
        )

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
            if n > self.most:
                return TOO_LARGE
            if self.fail and self.acquired >= 100:
                ctypes.memmove(error, b"the disk is full\0", 17)
                return self.fail
            taken = set(keys)
            if any(taken & other for other in self.held.values()):
                self.wrong.append("two workers have one vector")
            for k, key in enumerate(keys):
                out[k] = ctypes.pointer(self._frame(key, widths[k]))
            self.held[worker] = taken
            self.acquired += n
            return 0

    def _frame(self, key, width):
        if key not in self.frames:
            self.weights[key] = np.zeros(width, self.dtype)
            self.frames[key] = Frame(self.weights[key].ctypes.data, 0, width)
        if self.frames[key].width != width:
            self.wrong.append("a key has two widths")
        return self.frames[key]

    def _release(self, _, worker, held, n, changed):
        with self.lock:
            if len(self.held.pop(worker, ())) != n:
                self.wrong.append("what was released was not what was held")

    def table(self, shape, key_a_weight):
        """All vectors, as `Factorization.vectors` gives them."""
        found = np.zeros((shape.n_users + shape.n_items, shape.width))
        for key, weights in self.weights.items():
            if key_a_weight:
                found[divmod(key, shape.width)] = weights[0]
            else:
                found[key] = weights
        return found

    def check(self):
        assert self.wrong == []
        assert self.held == {}


def stored(store, arrays, *, threads=1, key_a_weight=False, block_bytes=1 << 16, **given):
    """A factorization of ratings whose vectors are in the store."""
    user, item, rating = arrays
    rows = rows_pass(
        block(np.stack([user, item], 1).astype(float), rating),
        "matrix_factorization",
        threads=threads,
    )
    ids = rating_ids(rows)
    shape = Shape(ids.n_users, ids.n_items, **{"rank": 5, "biases": True, "l2": 0.05} | given)
    return StoredFactorization(
        rows, 0, shape, 3, access=store.access, key_a_weight=key_a_weight, block_bytes=block_bytes
    )


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("key_a_weight", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_as_in_memory(biases, key_a_weight, dtype):
    """One block in both: the same ratings in the same order from the same start."""
    arrays = ratings(40, 30, 900)
    store = Store(dtype)
    with stored(store, arrays, key_a_weight=key_a_weight, biases=biases) as model:
        found = [model.epoch(k, 0.05).objective for k in range(6)]
        at_end = model.loss(model.mean)
        mean, coef = model.mean, store.table(model.shape, key_a_weight)
    with made(*arrays, rank=5, biases=biases, seed=3) as model:
        wanted = [model.epoch(k, 0.05) for k in range(6)]
        wanted_mean, wanted_coef = model.vectors()
        objective = model.objective()
    assert mean == wanted_mean
    np.testing.assert_allclose(coef, wanted_coef, rtol=1e-3, atol=1e-5)
    assert found == pytest.approx(wanted, rel=1e-4)
    assert at_end.objective == pytest.approx(objective, rel=1e-4)
    assert at_end.n_keys == len(store.frames)
    store.check()


@pytest.mark.parametrize("key_a_weight", [True, False])
def test_threads_change_no_bit_and_share_no_vector(key_a_weight):
    arrays = ratings(200, 150, 12_000)
    tables = []
    for threads in (1, 4):
        store = Store()
        with stored(
            store, arrays, threads=threads, key_a_weight=key_a_weight, block_bytes=4096
        ) as model:
            ends = [model.epoch(k, 0.05).objective for k in range(3)]
            tables.append((ends, store.table(model.shape, key_a_weight)))
        store.check()
    assert tables[0][0] == tables[1][0]
    assert (tables[0][1] == tables[1][1]).all()
    assert ends[-1] < 0.7 * ends[0]


def test_a_block_that_does_not_fit_is_trained_in_halves():
    """The order of the ratings stays, so that the model does."""
    arrays = ratings(40, 30, 900)
    tables = []
    for most in (10**9, 7):
        store = Store(np.float64, most)
        with stored(store, arrays) as model:
            visits = [model.epoch(k, 0.05) for k in range(2)]
            tables.append(store.table(model.shape, False))
        store.check()
    assert visits[0].n_keys > 200
    np.testing.assert_allclose(tables[1], tables[0], rtol=1e-4, atol=1e-6)


def test_two_vectors_must_fit():
    store = Store(most=1)
    with stored(store, ratings()) as model, pytest.raises(MemoryError, match="two vectors of 6"):
        model.epoch(0, 0.05)
    store.check()


@pytest.mark.parametrize("code", [FAILED, CORRUPT])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_failing_store_ends_the_epoch(code, threads):
    store = Store(fail=code)
    with (
        stored(store, ratings(200, 150, 12_000), threads=threads, block_bytes=4096) as model,
        pytest.raises(StoreError, match="the disk is full"),
    ):
        model.epoch(0, 0.05)
    store.check()


def test_no_memory():
    store = Store(fail=NO_MEMORY)
    arrays = ratings(200, 150, 12_000)
    with stored(store, arrays, block_bytes=4096) as model, pytest.raises(MemoryError):
        model.epoch(0, 0.05)
    store.check()


def test_cancelled():
    store = Store()
    user, item, rating = ratings(200, 150, 12_000)
    rows = rows_pass(block(np.stack([user, item], 1).astype(float), rating), threads=2)
    rows = replace(rows, cancel_mark=kernels.cancel_count())
    shape = Shape(200, 150, 5, True, 0.05)
    with StoredFactorization(
        rows, 0, shape, 0, access=store.access, key_a_weight=False, block_bytes=4096
    ) as model:
        model.epoch(0, 0.05)
        kernels.cancel()
        with pytest.raises(Interrupted):
            model.epoch(1, 0.05)
    store.check()


def test_other_ratings():
    """Held-out ratings, some of users and items that were never trained: their vectors are 0."""
    user, item, rating = ratings(60, 50, 2000)
    test = np.arange(len(user)) % 5 == 0
    kept, other = ((user[w], item[w], rating[w]) for w in (~test & (user < 55), test))
    store = Store()
    with stored(store, kept) as model:
        for k in range(5):
            model.epoch(k, 0.05)
        mean = model.mean
    n_users = kept[0].max() + 1
    assert (n_users, other[0].max(), other[1].max()) == (55, 59, 49)
    moved = Store()  # items come behind as many users as there are
    for key, weights in store.weights.items():
        there = key if key < n_users else key - n_users + 60
        moved.weights[there] = weights
        moved.frames[there] = Frame(weights.ctypes.data, 1, 6)
    with stored(moved, other, l2=0.0) as model:
        found = model.loss(mean).objective
    table = moved.table(Shape(60, 50, 5, True, 0.0), False)
    assert (table[55:60] == 0).all()
    p, q = table[other[0]], table[60 + other[1]]
    margin = mean + p[:, 0] + q[:, 0] + np.einsum("nk,nk->n", p[:, 1:], q[:, 1:])
    assert found == pytest.approx(np.mean((margin - other[2]) ** 2) / 2, rel=1e-5)
    moved.check()
