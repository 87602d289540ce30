"""A training of a net ends within an epoch when it is cancelled."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from nets import rows_of, rules

from tuskml.errors import Interrupted
from tuskml.kernels import library
from tuskml.kernels.nets.training import train_nets

GUARD = 60.0
"""Seconds after which the test fails instead of hanging."""


@pytest.mark.parametrize(("threads", "batch"), [(1, 1), (2, 4096)])
def test_a_cancel_ends_an_epoch(threads: int, batch: int) -> None:
    """The only epoch takes many minutes; it is cancelled once it has begun, and ends alone."""
    n = 20_000 if batch == 1 else 200_000
    x = np.random.default_rng(1).normal(size=(n, 8)).astype(np.float32)
    given = rules(hidden=(1024, 512), epochs=1, batch=batch)
    ended: list[BaseException] = []
    rows = rows_of(x, x[:, 0].astype(float), threads)
    rows = replace(rows, cancel_mark=library.cancel_mark())

    def train() -> None:
        try:
            train_nets(rows, given, 0)
        except Interrupted as error:
            ended.append(error)

    working = threading.Thread(target=train, daemon=True)
    used = time.process_time()
    working.start()
    began = time.monotonic()
    while time.process_time() - used < 0.4:  # copying the rows takes some hundredths of it
        assert working.is_alive()
        assert time.monotonic() - began < GUARD
        time.sleep(0.01)
    library.cancel()
    working.join(GUARD)
    assert not working.is_alive()
    assert len(ended) == 1
