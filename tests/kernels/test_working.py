"""NumPy's arrays in the account of a training: counted, refused beyond it, safe afterwards."""

import ctypes
import gc
import threading

import numpy as np
import psutil
import pytest
from rows import block, rows_pass

from tuskml.groups.selection.lanes import side_by_side
from tuskml.kernels.hinge import Interior
from tuskml.kernels.library import FLOOR, charge_memory, here, memory_use

MEGABYTE = 1 << 20


@pytest.fixture
def account(new_con):
    """The account of a database, limited to 64 MB; C's `database` begins with its address."""
    new_con.execute("SELECT tuskml_set_memory(?, '')", [64 * MEGABYTE]).fetchall()
    ((database,),) = new_con.execute("SELECT _tusk_account()").fetchall()
    found = ctypes.c_void_p.from_address(database).value
    assert memory_use(found).budget == 64 * MEGABYTE
    return found


def most(account):
    """How many bytes an array may have, to a megabyte."""
    low, high = 0, 1024
    while high - low > 1:
        middle = (low + high) // 2
        try:
            np.empty(middle * MEGABYTE, np.uint8)
            low = middle
        except MemoryError:
            high = middle
    return low


def test_arrays_are_refused_beyond_the_limit(account):
    with charge_memory(account):
        assert most(account) == 64
        kept = np.zeros(40 * MEGABYTE, np.uint8)
        assert most(account) == 24
        with pytest.raises(MemoryError):
            np.concatenate([kept, kept])
        with pytest.raises(MemoryError):
            kept.astype(float)
        assert most(account) == 24
        del kept
        gc.collect()
        assert most(account) == 64
    assert most(account) > 64


def test_a_training_may_have_a_little_whatever_the_limit_is(new_con, account):
    new_con.execute("SELECT tuskml_set_memory(0, '')").fetchall()
    with charge_memory(account):
        assert most(account) == FLOOR // MEGABYTE


def test_threads_of_one_training_count_together(account):
    """Arrays of NumPy, and what kernels take."""
    found = []

    def lane(_):
        found.append((here(), most(account)))

    with charge_memory(account):
        kept = np.zeros(40 * MEGABYTE, np.uint8)
        side_by_side(lane, [None, None], 2, threading.Event())
        assert found[0][0] == found[1][0] == here() is not None
        assert max(room for _, room in found) == 24
        del kept
    assert here() is None


def test_what_outlives_the_training_is_no_longer_counted(account):
    with charge_memory(account):
        kept = np.arange(5 * MEGABYTE, dtype=np.uint8)
        grown = np.ones(100)
    with charge_memory(account):
        assert most(account) == 64
        grown.resize(200_000, refcheck=False)
        del kept
        gc.collect()
        assert most(account) == 64
    assert grown[:100].sum() == 100


@pytest.mark.nightly
def test_an_array_outlives_its_account(new_con):
    import tuskml

    with tuskml.connect() as other:
        ((database,),) = other.execute("SELECT _tusk_account()").fetchall()
        with charge_memory(ctypes.c_void_p.from_address(database).value):
            kept = [np.full(1000, i) for i in range(100)]
    assert sum(int(array[0]) for array in kept) == 4950
    del kept
    gc.collect()


def test_trainings_of_several_threads_share_the_account(account):
    ready, over = threading.Barrier(2), threading.Event()

    def hold():
        with charge_memory(account):
            kept = np.zeros(30 * MEGABYTE, np.uint8)
            ready.wait()
            over.wait()
            del kept

    thread = threading.Thread(target=hold)
    thread.start()
    ready.wait()
    try:
        assert most(account) > 64, "this thread is in no training"
        with charge_memory(account):
            assert most(account) == 34
            with charge_memory(account):
                assert most(account) == 34
    finally:
        over.set()
        thread.join()


def test_arithmetic_gives_the_same_bits(account):
    random = np.random.default_rng(0)
    x, y = random.standard_normal((2, 333, 77))
    plain = np.einsum("ij,ij->i", x, y), x @ y.T, (x * y).sum(axis=0)
    with charge_memory(account):
        a, b = x.copy(), y.copy()
        found = np.einsum("ij,ij->i", a, b), a @ b.T, (a * b).sum(axis=0)
    for one, other in zip(plain, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_size_near_the_largest_number_is_refused(account):
    with charge_memory(account):
        kept = np.zeros(1000)
        for size in (2**62, 2**63 - 1024):
            with pytest.raises(MemoryError):
                np.empty(size, np.uint8)
        assert most(account) == 63
    assert not kept.any()


WIDE = 2500
"""Features whose products take 50 MB for each thread."""


def wide_pass():
    rng = np.random.default_rng(0)
    groups = block(rng.normal(size=(40, WIDE)), rng.choice([0.0, 1.0], 40))
    return rows_pass(groups, "svm", threads=2)


def test_interior_points_count_what_their_products_take(account):
    rows, flat = wide_pass(), np.zeros((1, WIDE))
    inside = Interior.of_rows(rows, np.zeros((1, rows.p)))
    with charge_memory(account), pytest.raises(MemoryError):
        inside.curvature(rows, flat, flat + 1)


@pytest.mark.memory
def test_products_of_many_features_are_given_back():
    rows, flat = wide_pass(), np.zeros((1, WIDE))
    process = psutil.Process()
    before = process.memory_info().rss
    rows.curvature(np.zeros((1, rows.p)), flat, flat + 1, precise=True)
    more = process.memory_info().rss - before
    assert more < 40 * MEGABYTE, f"{more / 1e6:.0f} MB"
