"""A training of a machine ends within an epoch when it is cancelled."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from machines import rows_of, rules

from tuskml.errors import Interrupted
from tuskml.kernels import library
from tuskml.kernels.fm import train_machines

GUARD = 60.0
"""Seconds after which the test fails instead of hanging."""


@pytest.mark.sample(1)
@pytest.mark.parametrize(("threads", "rank"), [(1, 8), (2, 256)])
def test_a_cancel_ends_a_training(threads: int, rank: int) -> None:
    """The epochs would take many minutes; it is cancelled once it has begun, and ends alone."""
    x = np.random.default_rng(1).normal(size=(20_000, 30))
    rows = rows_of(x, x[:, 0] * x[:, 1], threads, kind="sparse float64")
    rows = replace(rows, cancel_mark=library.cancel_mark())
    ended: list[BaseException] = []

    def train() -> None:
        try:
            train_machines(rows, rules(epochs=100_000, rank=rank, lock_free=threads > 1), 0)
        except Interrupted as error:
            ended.append(error)

    working = threading.Thread(target=train, daemon=True)
    used = time.process_time()
    working.start()
    began = time.monotonic()
    while time.process_time() - used < 0.5:
        assert working.is_alive()
        assert time.monotonic() - began < GUARD
        time.sleep(0.01)
    library.cancel()
    working.join(GUARD)
    assert not working.is_alive()
    assert len(ended) == 1
