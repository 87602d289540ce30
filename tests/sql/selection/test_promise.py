"""Candidates that `halving` tries on all rows, on functions whose least value is known."""

import json
import tracemalloc

import numpy as np
import pytest

from tuskml.groups.selection.choosing import (
    MOST_BATCHES,
    Kernel,
    axes_of,
    batches,
    finalists,
    promising,
    rungs,
)

GRID = [
    ("logistic", json.dumps({"l2": 10.0**-k, "class_weight": weight}))
    for k in range(16)
    for weight in ("balanced", [1, 1])
]
K = np.arange(32) // 2


def found(few: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The winner of each group, and how many candidates it tried on all rows."""
    kernel, tried = Kernel(axes_of(GRID)), np.zeros(losses.shape, bool)
    for n in batches(len(GRID), 1 / 16):
        tried |= promising(kernel, few, losses, tried, n)
    return np.where(tried, losses, np.inf).argmin(axis=0), tried.sum(axis=0)


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_more_rows_ask_for_weaker_penalties(shift: int) -> None:
    """The least loss on few rows is some steps beside that on all rows, in each of ten groups."""
    random = np.random.default_rng(shift)
    best = random.integers(3, 13, 10)
    losses = (K[:, None] - best) ** 2 / 100 + random.normal(size=(32, 10)) * 1e-4
    few = (K[:, None] - best + shift) ** 2 / 60 + random.normal(size=(32, 10)) * 1e-2
    winners, tried = found(few, losses)
    assert (tried == 10).all()
    assert np.mean(losses[winners, np.arange(10)] <= losses.min(axis=0)) >= 0.9


def test_candidates_that_failed_come_last() -> None:
    few = np.where(K[:, None] % 3 == 0, np.inf, 1.0 + K[:, None]).repeat(2, axis=1)
    first = promising(Kernel(axes_of(GRID)), few, few, np.zeros(few.shape, bool), 3)
    assert np.isfinite(few[first]).all()
    assert (first.sum(axis=0) == 3).all()
    none = np.full((32, 1), np.inf)
    assert promising(Kernel(axes_of(GRID)), none, none, none < 0, 3).sum() == 3


def test_what_candidates_say_of_each_other_takes_little_memory() -> None:
    """Ten thousand candidates would have 800 MB of weights. Blocks change nothing."""
    grid = [
        ("gbdt", json.dumps({"l2": a, "num_leaves": b})) for a in range(100) for b in range(2, 102)
    ]
    random = np.random.default_rng(0)
    few, tried = random.normal(size=(len(grid), 2)), np.zeros((len(grid), 2), bool)
    tried[::40] = True
    kernel = Kernel(axes_of(grid))
    tracemalloc.start()
    found = promising(kernel, few, few + 1, tried, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 2**20
    assert (found.sum(axis=0) == 5).all()
    by, values = np.arange(0, len(grid), 400), random.normal(size=(25, 2))
    some = kernel._weights(np.arange(len(grid)), by) @ values
    assert kernel.sums(by, values) == pytest.approx(some)


@pytest.mark.parametrize("share", [1.0, 1 / 4, 1 / 16, 1 / 32])
@pytest.mark.parametrize("candidates", [2, 3, 4, 8, 16, 32, 100, 10_000])
def test_work_is_at_most_two_fifths_of_many_candidates(candidates: int, share: float) -> None:
    full = finalists(candidates, share)
    assert 1 <= full <= candidates
    assert sum(batches(candidates, share)) == full
    assert share == 1 or len(list(batches(candidates, share))) <= MOST_BATCHES
    work = sum(count * rows for count, rows in rungs(candidates, share))
    if share == 1:
        assert work == candidates
    elif candidates >= 32:
        assert work <= 0.4 * candidates
