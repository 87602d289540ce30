"""Threads of epochs: one where two take longer, as two workers on the same cache lines do."""

import itertools

import pytest
from stored_fits import put, rows_of, train

import tuskml
from tuskml.kernels.stored.training import Training
from tuskml.learners.linear.stored import online
from tuskml.learners.linear.stored.pace import LEAST_EPOCHS, LONGEST, Pace

pytestmark = pytest.mark.native


def threads_of(pace, seconds, epochs=12):
    """Threads of each epoch; seconds: of one by its threads."""
    found = []
    for _ in range(epochs):
        found.append(pace.threads)
        pace.took(seconds[pace.threads])
    return found


@pytest.mark.parametrize(("one", "two", "then"), [(0.007, 0.011, 1), (0.011, 0.007, 2)])
def test_the_faster_way_goes_on(one, two, then):
    assert threads_of(Pace(2, 99), {1: one, 2: two}) == [2, 2, 1, 1] + 8 * [then]


def test_what_is_not_tried():
    """Long epochs, few of them, and what has one thread anyhow."""
    long = {1: LONGEST / 9, 2: LONGEST * 2}
    assert threads_of(Pace(2, 99), long) == 12 * [2]
    assert threads_of(Pace(2, LEAST_EPOCHS - 1), {1: 1e-3, 2: 2e-3}) == 12 * [2]
    assert threads_of(Pace(1, 99), {1: 1e-3}) == 12 * [1]


def test_a_slow_first_epoch_alone_says_nothing():
    pace, seconds = Pace(2, 99), iter([0.1, 0.007, 0.1, 0.011])
    for _ in range(4):
        pace.took(next(seconds))
    assert (pace.threads, pace.told) == (2, "")


@pytest.mark.parametrize("slower", [1, 2])
def test_a_training_goes_on_by_the_faster_way(tmp_path, monkeypatch, slower):
    """By a clock that says so; its plan tells."""
    used, ticks, epoch = [], itertools.count(), Training.epoch

    def noted(self, *given):
        used.append(self.threads)
        return epoch(self, *given)

    def clock():
        """Is asked before and after each epoch."""
        tick = next(ticks)
        return tick // 2 + (tick % 2) * (0.02 if used and used[-1] == slower else 0.01)

    monkeypatch.setattr(Training, "epoch", noted)
    monkeypatch.setattr(online.time, "perf_counter", clock)
    with tuskml.connect(store_root=tmp_path, threads=2) as con:
        put(con, *rows_of("logistic"))
        model = train(con, threads=2, max_iter=10, epsilon=0, step=0.1)
    faster = 3 - slower
    assert used == [2, 2, 1, 1] + 6 * [faster]
    assert model.iterations == 10
    assert ("by 1 of 2 threads, which is faster" in model.plan) == (faster == 1)
