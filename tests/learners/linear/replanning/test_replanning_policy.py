"""The policy of re-planning against schedulers that do it no good (Mahajan 2021, section 2.4)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replanned_queries import profiles, random_queries, theorem

from research.qoop.adversaries import NearCompletion, Profile, Starving
from research.qoop.model import Queries, Rules, simulate
from tuskml.learners.linear.planner.replanning import next_plan, worth_considering

INSTANCES = 10_000
HALVING, ANY = 2.0, 4.0
"""Copies that the offline optimum cannot have run before the policy has ended: theorem 2.2."""


def starving(draws):
    return Starving(draws, near=float(draws.uniform(0.05, 0.5)), calm=float(draws.uniform(0, 0.9)))


@pytest.mark.sample(1)
@pytest.mark.parametrize(("halving", "most"), [(True, HALVING), (False, ANY)])
def test_the_competitive_ratio_is_at_most_what_is_proved(halving, most):
    draws = np.random.default_rng(2021)
    worst = 0.0
    for _ in range(4):
        queries = random_queries(draws, INSTANCES // 4, halving=halving)
        took, ratio = simulate(queries, starving(draws), 1000)
        assert (took < 1000).all()  # each has ended
        assert (ratio < most).all()
        worst = max(worst, float(ratio.max()))
    assert worst > 1  # the schedulers do harm


@pytest.mark.nightly
@pytest.mark.parametrize(("halving", "most"), [(True, HALVING), (False, ANY)])
@pytest.mark.parametrize("seed", range(5))
def test_the_ratio_holds_against_starvation_at_near_completion(halving, most, seed):
    draws = np.random.default_rng(seed)
    queries = random_queries(draws, INSTANCES, halving=halving, most=500.0)
    _, ratio = simulate(queries, NearCompletion(), 1000)
    assert (ratio < most).all()


@pytest.mark.parametrize("hysteresis", [0.0, 0.1, 0.25, 1.0])
def test_no_policy_does_better_than_twice(hysteresis):
    """Theorem 2.1: 2 - 2^(1 - m), but for the last steps of plans."""
    took, ratio = simulate(theorem(5, 200.0), NearCompletion(), 10_000, Rules(hysteresis))
    assert took[0] < 10_000
    assert ratio[0] > 2 - 2.0**-4 - 0.1


def test_plans_that_go_on_where_they_left_off_are_necessary():
    """Example 2.1, and random queries: without backtracking the ratio has no bound."""
    example = Queries(np.array([[1.0, 2.0]]), np.array([[100.0, 4.0]]))

    def flipping(queries, now, step):
        return np.where(now.running == 1, 1.0, 2.0)

    assert simulate(example, flipping, 300)[0][0] == 3
    assert simulate(example, flipping, 300, Rules(backtracks=False))[0][0] == 300
    assert simulate(example, flipping, 300, Rules(switches=False))[0][0] == 300
    draws = np.random.default_rng(1)
    queries = random_queries(draws, 1000, halving=True)
    _, ratio = simulate(queries, starving(draws), 500, Rules(backtracks=False))
    assert ratio.max() > 10


@pytest.mark.nightly
def test_plans_that_hardly_take_less_are_dropped_for_a_reason():
    """Ten plans that take a little less each, of which all are nearly done before one is."""
    n = 10
    need, work = np.arange(1.0, n + 1), 4000 * 0.97 ** np.arange(n)
    assert worth_considering(need, work) == [True] + [False] * (n - 1)
    queries = Queries(need[None], work[None])
    assert simulate(queries, NearCompletion(), 20_000)[1][0] < HALVING
    every = type("Every", (Queries,), {"considered": lambda self: self})(need[None], work[None])
    assert simulate(every, NearCompletion(), 40_000)[1][0] > ANY


@given(st.lists(st.tuples(st.floats(1, 8), st.floats(1, 1000)), min_size=1, max_size=9))
def test_whatever_is_dropped_takes_more_than_half_of_what_needs_less(plans):
    need, work = zip(*plans, strict=True)
    kept = worth_considering(need, work)
    assert kept[min(range(len(plans)), key=lambda i: plans[i])]
    for i, one in enumerate(plans):
        below = [plans[j][1] for j in range(len(plans)) if kept[j] and plans[j][0] < one[0]]
        assert kept[i] == (one[1] <= min(below, default=math.inf) / 2)


def test_hysteresis():
    assert next_plan([10.0, 9.0], None) == 1
    assert next_plan([10.0, 9.0], 0, 0.2) == 0
    assert next_plan([10.0, 8.0], 0, 0.2) == 1
    assert next_plan([10.0, math.inf], 1, 0.2) == 0  # it cannot go on
    assert next_plan([math.inf, math.inf], 1) is None
    assert next_plan([], None) is None


VOLATILITY = {"low": (0.02, 0.1), "medium": (0.1, 0.2), "high": (0.2, 0.6)}


@pytest.mark.nightly
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", VOLATILITY)
def test_estimates_that_are_wrong_by_a_quarter_keep_a_gain(name):
    """Over the plan that is best when the query begins, and goes on whatever happens."""
    draws = np.random.default_rng(7)
    queries = random_queries(draws, 1000)
    queries.need[:] = queries.need / 2  # of 16 units
    recorded = Profile(profiles(draws, 1000, 600, VOLATILITY[name]))
    wrong = draws.uniform(0.75, 1.25, queries.work.shape)
    fixed, _ = simulate(queries, recorded, 600, Rules(switches=False))
    sure, _ = simulate(queries, recorded, 600, Rules(hysteresis=0.2))
    unsure, _ = simulate(queries, recorded, 600, Rules(hysteresis=0.2, estimates=wrong))
    assert np.mean(unsure) < np.mean(fixed)
    assert np.mean(fixed) - np.mean(unsure) > 0.8 * (np.mean(fixed) - np.mean(sure))
