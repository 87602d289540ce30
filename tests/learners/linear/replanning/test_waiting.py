"""A plan takes over once the one that runs has lost what the other takes to begin.

The rule of ski rental: Karlin, Manasse, Rudolph and Sleator, Competitive snoopy caching, 1988.
Seconds are made up, so that no clock decides.
"""

import math

import numpy as np
import pytest

from tuskml.learners.linear.planner import replanning


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    made = Clock()
    monkeypatch.setattr(replanning, "time", made)
    return made


@pytest.fixture
def seen(clock):
    return replanning.Replanning(None, None, 2, 0, replanning.Resources(2, np.inf), started=0.0)


def test_it_waits_until_what_is_lost_is_what_a_beginning_takes(seen, clock):
    """Of ten seconds that are left the other plan spares six: 0.6 of each second is lost."""
    found = []
    for _ in range(7):
        found.append(seen.paid(10.0, 4.0 + 3.0, 3.0))
        clock.now += 1.0
    assert found == [False] * 5 + [True] * 2  # after 5 s


def test_a_beginning_that_costs_nothing_waits_for_nothing(seen):
    assert seen.paid(10.0, 4.0, 0.0)


def test_a_plan_that_cannot_go_on_waits_for_nothing(seen):
    assert seen.paid(math.inf, 7.0, 3.0)


@pytest.mark.parametrize("lasts", [0.5, 4.0, 6.0, 50.0])
def test_at_most_twice_what_is_lost_by_one_who_knows_how_long_it_lasts(seen, clock, lasts):
    """Whoever knows begins at once or never: min(setup, what staying loses)."""
    setup, rate, began, each = 3.0, 0.6, clock.now, 0.01
    lost = 0.0
    while clock.now - began < lasts:
        if seen.paid(10.0, 4.0 + setup, setup):
            lost += setup
            break
        lost += rate * each
        clock.now += each
    assert lost <= 2 * min(setup, rate * lasts) + 2 * each


def test_a_change_that_is_over_counts_anew(seen, clock):
    assert not seen.paid(10.0, 7.0, 3.0)
    clock.now += 4.0
    assert not seen.paid(10.0, 7.0, 3.0)  # 2.4 s lost
    seen.seen = seen.resources()
    seen.look(None)  # the resources are those that the plan was judged for
    clock.now += 4.0
    assert not seen.paid(10.0, 7.0, 3.0)
    assert seen.lost == 0.0
