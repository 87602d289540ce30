"""Memory beside rows: arrays that go with their last view, or with the context."""

import numpy as np

from tuskml.udas.charged import Charges


def test_arrays_are_written_and_aligned():
    with Charges(0) as charges:
        a = charges.empty((1000, 3), np.int32)
        b = charges.empty(77)
        assert a.ctypes.data % 64 == b.ctypes.data % 64 == 0
        a[:], b[:] = 7, 0.5
        assert a.sum() == 21_000
        assert b.sum() == 38.5
        assert charges.empty(0).shape == (0,)


def test_memory_goes_with_the_last_view():
    with Charges(0) as charges:
        a = charges.empty(1000)
        part = a[10:20].reshape(2, 5)
        part[:] = 3.0
        del a
        charges.empty(5)
        assert len(charges._given) == 2
        assert part.sum() == 30.0
        del part
        kept = charges.empty(5)
        assert len(charges._given) == 1
        assert kept.shape == (5,)
    assert charges._given == []
