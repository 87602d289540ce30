"""Threads of epochs: one where two take longer, as two workers on the same cache lines do."""

import itertools

import pytest
from stored_fits import put, rows_of, train

import tuskml
from tuskml.kernels.stored.training import Training
from tuskml.learners.linear.stored import online
from tuskml.learners.linear.stored.online import LEAST_EPOCHS, LONGEST, MOST_ENTRIES, Pace

pytestmark = pytest.mark.native


def threads_of(pace, seconds, epochs=12):
    """Threads of each epoch; seconds: of one by its threads."""
    found = []
    for _ in range(epochs):
        found.append(pace.threads)
        pace.took(seconds[pace.threads])
    return found


def test_the_faster_way_goes_on():
    """One slower epoch tells that threads are in each other's way; all are tried twice beside."""
    assert threads_of(Pace(2, 99), {1: 0.007, 2: 0.011}) == [1, 2] + 10 * [1]
    assert threads_of(Pace(2, 99), {1: 0.011, 2: 0.007}) == [1, 2, 1] + 9 * [2]


def test_what_is_not_tried():
    """Long epochs, few of them, and what has one thread anyhow."""
    long = {1: LONGEST * 2, 2: LONGEST * 3}
    assert threads_of(Pace(2, 99), long) == [1] + 11 * [2]
    assert threads_of(Pace(2, 99, MOST_ENTRIES + 1), {1: 1e-3, 2: 2e-3}) == 12 * [2]
    assert threads_of(Pace(2, LEAST_EPOCHS - 1), {1: 1e-3, 2: 2e-3}) == 12 * [2]
    assert threads_of(Pace(1, 99), {1: 1e-3}) == 12 * [1]


def test_a_slow_first_epoch_alone_says_nothing():
    pace = Pace(2, 99)
    for seconds in (0.1, 0.011, 0.007):
        pace.took(seconds)
    assert (pace.threads, pace.description) == (1, ", by 1 of 2 threads, which is faster")


@pytest.mark.sample(1)
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
    assert used == ([1, 2] + 8 * [1] if faster == 1 else [1, 2, 1] + 7 * [2])
    assert model.iterations == 10
    assert ("by 1 of 2 threads, which is faster" in model.plan) == (faster == 1)
