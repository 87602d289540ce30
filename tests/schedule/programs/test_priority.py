"""The schedule of regressions: who is drawn how often, and who excludes whom."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.schedule import Correlations, Prioritised


def columns(seed, n=60, d=40):
    """Correlated neighbours, one constant 0."""
    x = np.random.default_rng(seed).normal(size=(n, d))
    x[:, 1:] += x[:, :-1]
    x[:, d // 2] = 0
    return x


@pytest.mark.parametrize("kept", [8, 20, 1000])
def test_correlations_are_numpys_however_many_are_kept(kept):
    x = columns(0)
    found = Correlations(x, centred=True, kept=kept)
    with np.errstate(invalid="ignore"):
        reference = np.nan_to_num(np.abs(np.corrcoef(x.T)))
    random = np.random.default_rng(1)
    for k in (3, 8, 5, 12, 7, 8):
        places = random.choice(40, k, replace=False)
        expected = reference[np.ix_(places, places)]
        assert found.among(places) == pytest.approx(expected, abs=1e-5)


def test_kept_correlations_are_not_computed_again():
    found = Correlations(columns(0))
    found.among(np.arange(10))
    computed = found.computed
    found.among(np.arange(9, -1, -1))
    assert found.computed == computed == 100


def test_of_many_rows_a_sample_is_taken():
    x = np.random.default_rng(0).normal(size=(5000, 3))
    x[:, 1] += x[:, 0]
    found = Correlations(x, rows=500)
    assert found.columns.shape == (500, 3)
    assert found.among(np.arange(3))[0, 1] == pytest.approx(np.sqrt(0.5), abs=0.1)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    at_once=st.integers(1, 20),
    threshold=st.floats(0.05, 0.9),
    depth=st.integers(1, 3),
)
def test_what_is_on_its_way_is_independent(seed, at_once, threshold, depth):
    x = columns(seed)
    norm = np.linalg.norm(x, axis=0)
    with np.errstate(invalid="ignore"):
        reference = np.nan_to_num(np.abs(x.T @ x / np.outer(norm, norm)))
    random = np.random.default_rng(seed)
    order = Prioritised(40, Correlations(x), at_once, threshold=threshold, seed=seed)
    flying = []
    for _ in range(30):
        picked = order.pick()
        assert len(picked) <= at_once
        assert len(picked) or flying
        flying.append(picked)
        every = np.concatenate(flying)
        assert len(np.unique(every)) == len(every)
        moved = [order.change[one] > 0 for one in flying[:-1]] + [np.ones(len(picked), bool)]
        first = every[np.concatenate(moved)]
        among = reference[np.ix_(first, picked)] - (first[:, None] == picked)
        assert among.max(initial=0) <= threshold + 1e-5
        if len(flying) == depth:
            settled = flying.pop(0)
            order.settle(settled, random.normal(size=len(settled)) * (settled % 3 == 0))


def test_each_is_picked_once_before_any_is_picked_again():
    order = Prioritised(50, None, 8)
    picked = []
    for _ in range(7):
        found = order.pick()
        order.settle(found, np.ones(len(found)))
        picked.append(found.tolist())
    assert len(set(chain(*picked[:6]))) == 48
    assert set(chain(*picked)) == set(range(50))


@pytest.mark.nightly
def test_those_that_moved_twice_as_far_are_drawn_four_times_as_often():
    order = Prioritised(200, None, 2, candidates=1, seed=3)
    while len(order.fresh):
        order.settle(found := order.pick(), np.zeros(len(found)))
    change = np.zeros(200)
    change[:100:2], change[1:100:2] = 1, 2
    order.settle(np.arange(200), change)
    counts = np.zeros(200)
    for _ in range(6000):
        found = order.pick()
        counts[found] += 1
        order.settle(found, change[found])
    turns = counts[100:].mean()
    small, large = counts[:100:2].mean() - turns, counts[1:100:2].mean() - turns
    assert turns > 0
    assert large / small == pytest.approx(4, rel=0.15)


def test_those_near_to_moving_come_first_in_turn_and_all_come_again():
    order = Prioritised(400, None, 4, seed=2)
    near = np.where(np.arange(400) < 40, 0.3, 1.0)
    counts = np.zeros(400)
    for _ in range(8000):
        found = order.pick()
        if not len(order.fresh):
            counts[found] += 1
        order.settle(found, np.where(found == 399, 1.0, 0.0), near[found])
    assert counts[:40].min() > 3 * counts[40:399].max()
    assert counts.min() > 0


@pytest.mark.parametrize("size", [0, 1e-3])
def test_parameters_that_are_fewer_than_are_picked_at_once_are_picked_once(size):
    order = Prioritised(5, None, 8, seed=1)
    for _ in range(50):
        picked = order.pick()
        assert len(set(picked.tolist())) == len(picked)
        order.settle(picked, np.full(len(picked), size))
