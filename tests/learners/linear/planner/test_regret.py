"""What giving plans up costs at most, in passes over the rows, on errors that are made up."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuskml.learners.learner import Request
from tuskml.learners.linear.operators import Operators, State
from tuskml.learners.linear.options import parse
from tuskml.learners.linear.planner import planning
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.planner.choice import Choice
from tuskml.learners.linear.planner.cost import Cost, Parts
from tuskml.learners.linear.planner.curves import Interval
from tuskml.learners.linear.planner.guard import (
    GUESSED,
    LOOK,
    SURE,
    Before,
    Guard,
    next_best,
    returning,
)
from tuskml.learners.linear.planner.iterations import fewest_left, iterations_left
from tuskml.learners.linear.tasks import LINEAR

pytestmark = pytest.mark.native

PASS = 1.0
"""Seconds of a pass, so that seconds are passes."""
EPSILON = 1e-4


def candidates(task="logistic", **options):
    """The planner's candidates for rows of any kind, by name."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((5000, 60)).astype(np.float32)
    y = (x[:, 0] + rng.standard_normal(5000) > 0).astype(float)
    segment, groups = groups_of(y, [x], 0, "dense float32", 60)
    asked = json.dumps({"epsilon": EPSILON} | options)
    plan, question = planning.first_plan(groups, Request(LINEAR[task], parse(asked)))
    assert question is not None
    chosen = planning.by_statistics(plan, question)
    del segment
    return {one.plan.algorithm: one for one in chosen.candidates}


KNOWN = candidates()


def taking(name, iterations, high=1.0):
    """A candidate whose iterations are single passes; high: times as many as there may be."""
    cost = Cost(0.0, PASS, 0.0, PASS, 0.0, parts=Parts(0.0, PASS))
    seen = Interval(iterations / high, iterations, iterations * high)
    plan = replace(KNOWN[name].plan, epsilon=EPSILON, sample_stride=1)
    told = {"plan": plan, "cost": cost, "iterations": seen, "on_sample": 0.0, "refusal": None}
    return replace(KNOWN[name], **told)


def run_under(guard, errors, passes=1):
    """The passes that a plan with such errors makes until it ends or is given up."""
    state = State.at(np.zeros((1, 3)))
    state.known[:] = True
    operators = Operators(*[None] * 6, loop=lambda state: bool(state.violation[0] > EPSILON))
    loop = guard.watching(operators, False, True).loop
    for error in errors:
        state.violation[:] = error
        if not loop(state):
            break
        guard.work.meter.gradients += passes
        state.iteration += 1
    return guard.work.seconds


@settings(max_examples=60, deadline=None)
@given(
    taken=st.integers(20, 3000),
    other=st.integers(100, 1000),
    believed=st.integers(1, 1000),
    passes=st.integers(1, 3),
)
def test_half_as_much_again_as_the_better_plan_at_most(taken, other, believed, passes):
    """Where errors fall at one rate, whatever was expected of the plan."""
    guard = Guard(taking("bgd", believed), taking("newton", other))
    errors = EPSILON ** (np.arange(taken + 2) / taken)
    spent = run_under(guard, errors, passes)
    total = spent + guard.given_up * other
    best = min(taken * passes, other)
    assert total <= (LOOK + SURE) * best + passes * 9
    assert LOOK + SURE <= 1.5


def test_without_the_looks_the_plan_takes_many_times_as_long(monkeypatch):
    guard = Guard(taking("bgd", 10), taking("newton", 100))
    monkeypatch.setattr(Guard, "look", lambda self, state: None)
    assert run_under(guard, EPSILON ** (np.arange(3002) / 3000)) >= 3000


def test_passes_count_and_not_iterations_alone():
    """A plan whose iterations make four passes is given up after a quarter of them."""
    made = []
    for passes in (1, 4):
        guard = Guard(taking("bgd", 10), taking("newton", 200))
        run_under(guard, EPSILON ** (np.arange(3002) / 3000), passes)
        assert guard.given_up
        made.append(guard.made)
    assert made[1] == pytest.approx(made[0] / 4, abs=2)


def test_where_errors_tell_nothing_twice_as_much_at_most():
    """Newton's first errors tell nothing: it is given up at the next plan's seconds."""
    for taken in (30, 90, 150, 1000):
        guard = Guard(taking("newton", 20), taking("lbfgs", 100))
        spent = run_under(guard, [1.0] * taken + [0.0])
        assert spent + guard.given_up * 100 <= 2 * min(taken, 100) * 1.3 + 1


@given(
    points=st.lists(st.floats(1e-9, 10.0), min_size=3, max_size=30),
    goals=st.tuples(st.floats(1e-12, 1e-1), st.floats(1e-12, 1e-1)),
)
def test_a_smaller_tolerance_leaves_no_fewer_iterations(points, goals):
    seen = list(enumerate(points))
    assert iterations_left(seen, min(goals)) >= iterations_left(seen, max(goals))


def test_gaps_are_what_tells_at_the_hinge():
    """Looked at every 20 iterations; where a stage ends by them the gradient says nothing."""
    guard = Guard(taking("bgd", 10), taking("newton", 200))
    state = State.at(np.zeros((1, 3)))
    state.gaps_seen = [(0, 1.0), (20, 0.1), (40, 0.01)]
    guard.note(state)
    assert guard.remaining_iterations() == pytest.approx(20 * np.log10(0.01 / (EPSILON / 2)))


@pytest.mark.parametrize(("spent", "given_up"), [(100, False), (190, False), (250, True)])
def test_gaps_are_believed_less_after_the_next_plans_time(spent, given_up):
    """The gaps say that 150 passes are left, of a plan beside one of 200: to wait for them once
    more would cost as much as that one takes."""
    guard, left = Guard(taking("bgd", 10), taking("newton", 200)), 150
    state = State.at(np.zeros((1, 3)))
    state.iteration, guard.work.meter.gradients = spent, spent
    rate = (EPSILON / 2) ** (1 / (spent + left))
    state.gaps_seen = [(k, rate**k) for k in (0, spent // 2, spent)]
    guard.note(state)
    assert guard.remaining_iterations() == pytest.approx(left)
    guard.look(state)
    assert guard.given_up is given_up


def test_conjugate_gradients_that_stand_still_for_a_while_stay():
    """All errors say 20 products more, the last half of them that there is no end."""
    errors = [*np.geomspace(1e4, 1e2, 20), *[1e2] * 20]
    assert fewest_left(list(enumerate(errors)), 1.0) == pytest.approx(39.0)
    assert iterations_left(list(enumerate(errors)), 1.0) == np.inf
    cost = Cost(0.0, PASS, 0.0, PASS, 0.0, parts=Parts(0.0, PASS), product=PASS, products=10.0)
    guard = Guard(replace(taking("newton_cg", 5), cost=cost), taking("newton", 100))
    assert not guard.enough(60, errors)
    assert guard.enough(100, [1e4, 0.99e4, 0.98e4])


def test_a_plan_comes_back_when_the_one_after_it_is_worse():
    """Neither is known well: what the errors of the first said of it is better than a guess."""
    lbfgs, dcd = taking("lbfgs", 100, high=4), taking("dcd", 150, high=4)
    chosen = Choice(lbfgs.plan, (lbfgs, dcd))
    assert next_best(chosen, lbfgs, Before()) is dcd
    guard = Guard(lbfgs, dcd, GUESSED)
    run_under(guard, EPSILON ** (np.arange(2000) / 1000))
    assert guard.given_up
    before = Before()
    state = State.at(np.zeros((1, 3)))
    state.iteration = guard.made
    before.add(guard, state)
    assert before.left["lbfgs"] == pytest.approx(1000 - guard.made, rel=0.05)
    again = next_best(chosen, dcd, before)
    assert again is not None
    assert again.plan.algorithm == "lbfgs"
    assert again.seconds.point == pytest.approx(1000 - guard.made, rel=0.05)


def test_what_forgets_its_state_does_not_come_back():
    dcd, lbfgs = taking("dcd", 100, high=4), taking("lbfgs", 100, high=4)
    guard = Guard(dcd, lbfgs, GUESSED)
    run_under(guard, EPSILON ** (np.arange(3000) / 2500))
    assert guard.given_up
    before = Before()
    before.add(guard, State.at(np.zeros((1, 3))))
    assert not list(returning([dcd, lbfgs], before.left))
    assert next_best(Choice(lbfgs.plan, (dcd, lbfgs)), lbfgs, before) is None


def test_a_plan_that_solves_its_systems_stays_where_no_other_is_known_well():
    newton, lbfgs = taking("newton", 10), taking("lbfgs", 100, high=4)
    assert next_best(Choice(newton.plan, (newton, lbfgs)), newton, Before()) is None
    sure = taking("lbfgs", 100)
    assert next_best(Choice(newton.plan, (newton, sure)), newton, Before()) is sure


def test_estimates_are_not_believed_after_one_of_their_kind_was_wrong():
    """What made one method that follows gradients slow makes the others slow too."""
    bgd, lbfgs, newton = taking("bgd", 5), taking("lbfgs", 8), taking("newton", 40)
    chosen = Choice(bgd.plan, (bgd, lbfgs, newton))
    assert next_best(chosen, bgd, Before()) is newton
    assert next_best(chosen, newton, Before()) is bgd
    assert next_best(chosen, newton, Before(["bgd"])) is None
    products = taking("newton_cg", 20)
    chosen = Choice(bgd.plan, (bgd, lbfgs, newton, products))
    assert next_best(chosen, newton, Before()) is bgd
    assert next_best(chosen, newton, Before(["bgd"])) is None


def test_a_plan_has_the_seconds_that_were_expected_of_it():
    """A cheaper plan is no reason to give up one that does as expected."""
    guard = Guard(taking("newton", 40), taking("lbfgs", 8))
    assert run_under(guard, [1.0] * 40 + [0.0]) == 40
    assert not guard.given_up
    late = Guard(taking("newton", 20), taking("lbfgs", 8))
    run_under(late, [1.0] * 40 + [0.0])
    assert late.given_up


def test_a_blunt_stage_tells_when_it_takes_too_long_by_itself():
    """What follows it is not known, so that it tells the least that is left."""
    for taken, given_up in ((3000, True), (60, False)):
        guard = Guard(taking("lbfgs", 80), taking("newton", 100))
        operators = Operators(*[None] * 6, loop=lambda state: bool(state.violation[0] > EPSILON))
        state = State.at(np.zeros((1, 3)))
        state.known[:] = True
        loop = guard.watching(operators, False, False).loop
        for error in EPSILON ** (np.arange(taken + 1) / taken):
            state.violation[:] = error
            if not loop(state):
                break
            guard.work.meter.gradients += 1
            state.iteration += 1
        assert guard.given_up == given_up
        assert guard.work.seconds < 61


def test_newton_is_not_given_up_a_step_before_its_end():
    """Its errors fall the faster, the lower they are: the last drop is the least of the next."""
    errors = [1.0] * 20 + [1e-1, 1e-2, 1e-4]
    for passes, given_up in (([1.0] * 40, True), (errors, False)):
        guard = Guard(taking("newton", 20), taking("lbfgs", 8))
        run_under(guard, passes)
        assert guard.given_up == given_up
