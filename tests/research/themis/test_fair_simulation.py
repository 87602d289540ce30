"""A simulated cluster of apps: what holds of every run of every scheduler, and runs by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.themis.simulation.apps import (
    NO_SLOWDOWN,
    Spec,
    Stage,
    speed_of,
    successive_halving,
)
from research.themis.simulation.bound import least_rho, may_have_incentive
from research.themis.simulation.events import Rules, Simulation
from research.themis.simulation.generated import NETWORK, SHAPES, jobs_like, searches
from research.themis.simulation.machines import Machines, Room, mixed
from research.themis.simulation.policies import levels, orders
from research.themis.simulation.policies.themis import Themis, dealt
from research.themis.simulation.running import Running, View, filled
from tuskml.schedule.fair.arbiter import Claim

POLICIES: dict[str, Any] = {
    "themis": Themis,
    "gandiva": lambda: orders.gandiva,
    "tiresias": lambda: orders.tiresias,
    "srtf": lambda: orders.srtf,
    "srsf": lambda: orders.srsf,
    "drf": lambda: levels.drf,
    "optimus": lambda: levels.optimus,
    "slaq": lambda: levels.slaq,
    "gavel": levels.Gavel,
    "shockwave": lambda: levels.shockwave,
}


class Watched:
    """A policy whose answers are checked."""

    def __init__(self, policy: Any) -> None:
        self.policy, self.seen = policy, 0

    def __call__(self, view: View) -> Any:
        found = self.policy(view)
        self.seen += 1
        given = sum(n for _, n in found)
        assert given <= view.free
        assert all(0 <= n <= app.unmet for app, n in found)
        assert len({app.number for app, _ in found}) == len(found)
        wanted = sum(app.unmet for app in view.wanting)
        assert given == min(view.free, wanted), "work-conserving"
        assert sum(app.workers for app in view.apps) + view.free <= view.total
        return found


@pytest.mark.parametrize("name", POLICIES)
def test_every_scheduler_does_all_work_once_and_leaves_nothing_idle(name: str) -> None:
    specs = searches(25, 2.0, 32, seed=4)
    policy = Watched(POLICIES[name]())
    run = Simulation(specs, mixed(32), policy, Rules(), seed=1).ran()
    assert policy.seen == run.allocations
    assert sorted(app.number for app in run.apps) == list(range(25))
    for app in run.apps:
        assert app.work == pytest.approx(specs[app.number].work)
        assert app.spent - app.lost >= app.work * (1 - 1e-6)  # slowdowns only add
        assert app.spent - app.lost <= app.work * NETWORK.cluster * (1 + 1e-6)
        fastest = sum(one.work / one.demand for one in specs[app.number].stages)
        assert app.ended - app.arrival >= fastest * (1 - 1e-9)
        assert 1 <= app.contention <= 25
    total = sum(app.work for app in run.apps)
    assert run.makespan >= total / 32


@pytest.mark.parametrize("name", POLICIES)
def test_runs_repeat(name: str) -> None:
    specs = searches(12, 1.5, 16, seed=2)
    ends = [
        [app.ended for app in Simulation(specs, mixed(16), POLICIES[name](), seed=3).ran().apps]
        for _ in range(2)
    ]
    assert ends[0] == ends[1]


def test_an_app_alone_takes_what_its_stages_take() -> None:
    """4 jobs of 100 s, then 2 of 100 s on 2 workers each, then 1 on 4: by hand."""
    spec = Spec(50.0, tuple(successive_halving(4, 1, 100.0)))
    rules = Rules(lease=1e6, restart=7.0)
    run = Simulation([spec], Machines((4,), (0,)), orders.srsf, rules).ran()
    ended = 50 + 7 + 100 + 50 + 25
    assert run.apps[0].ended == pytest.approx(ended)
    assert run.apps[0].ideal == pytest.approx(175)
    assert run.apps[0].rho == pytest.approx((ended - 50) / 175)
    assert run.apps[0].lost == pytest.approx(4 * 7)
    assert run.apps[0].spent == pytest.approx(4 * (ended - 50))


def test_leases_end_and_workers_change_hands() -> None:
    """Two apps that can use both workers: the least served has them in turn, by hand."""
    apps = [Spec(0.0, (Stage(2, 100.0, 1),)), Spec(0.0, (Stage(2, 100.0, 1),))]
    rules = Rules(lease=50.0, restart=0.0)
    run = Simulation(apps, Machines((2,), (0,)), orders.tiresias, rules).ran()
    assert sorted(app.ended for app in run.apps) == pytest.approx([150, 200])


def test_speed_by_place() -> None:
    assert speed_of(1, 4, (4,), 1.0, 1.5) == 4.0
    assert speed_of(1, 4, (2, 2), 1.0, 1.5) == pytest.approx(4 / 1.5)
    assert speed_of(1, 4, (1, 3), 1.0, 1.5) == 3.0, "the job leaves a machine that slows it down"
    assert speed_of(2, 4, (1, 3), 1.0, 1.5) == 4.0, "a job for each machine"
    assert speed_of(8, 1, (3, 2), 1.0, 1.5) == 5.0, "jobs that wait are not spread"
    assert speed_of(1, 4, (4,), 1.25, 1.5) == pytest.approx(4 / 1.25)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=8), st.integers(0, 9999))
@settings(max_examples=50)
def test_room_places_what_there_is(sizes: list[int], seed: int) -> None:
    draw = np.random.default_rng(seed)
    room, held = Room(sizes), {}
    pieces = draw.integers(1, 9, draw.integers(1, 6)).tolist()
    given_ = room.give(held, pieces)
    assert given_ == min(sum(pieces), sum(sizes)) == sum(held.values())
    assert all(n <= sizes[machine] for machine, n in held.items())
    assert room.workers == sum(sizes) - given_ == sum(room.free)


@given(st.integers(1, 9), st.integers(0, 60), st.integers(0, 9999))
@settings(max_examples=50)
def test_water_filling_is_max_min(n: int, free: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    wanted, weight = draw.integers(0, 12, n).astype(float), np.ones(n)
    given_ = filled(wanted, weight, free)
    assert sum(given_) == min(free, wanted.sum())
    for mine, ask in zip(given_, wanted, strict=True):
        assert mine >= min(ask, max(given_) - 1)


def test_mixed_machines_have_all_workers() -> None:
    for workers in (64, 128, 256, 10_000):
        assert mixed(workers).workers == workers
    assert mixed(256).sizes.count(8) == 24


def test_the_worst_off_are_served_better_than_by_schedulers_that_do_not_look() -> None:
    """At a contention of 4: the greatest rho, without a seed that was chosen."""
    specs = searches(40, 3.6, 64, seed=11)

    def worst(policy: Any) -> float:
        return max(app.rho for app in Simulation(specs, mixed(64), policy).ran().apps)

    fair = worst(Themis())
    assert worst(orders.gandiva) > 2.2 * fair
    assert worst(levels.optimus) > 2.2 * fair
    assert worst(Themis(f=0.0)) > fair


def test_a_claim_that_is_too_small_is_found_out() -> None:
    claim = Claim(100.0)
    assert claim.rho(0, 0, 2.0, 0) == 1.0
    assert claim.rho(100, 0, 2.0, 0) == 1.5
    assert claim.rho(100, 50, 2.0, 0) == 1.0
    claim.audit(105)
    assert claim.overruns == 0
    claim.audit(120)
    assert (claim.work, claim.overruns) == (240, 1)


@pytest.mark.parametrize("name", SHAPES)
def test_drawn_jobs_have_the_published_shape(name: str) -> None:
    shape = SHAPES[name]
    specs = jobs_like(name, 40_000, 1.0, 100_000, seed=0)
    seconds = np.array([spec.work / spec.most for spec in specs])
    wide = np.array([spec.most for spec in specs])
    assert np.median(seconds) == pytest.approx(shape.median, rel=0.1)
    assert np.mean(np.sort(seconds)[:-4]) == pytest.approx(shape.mean, rel=0.35)  # a heavy tail
    assert wide.mean() == pytest.approx(shape.workers, rel=0.1)
    assert wide.max() <= shape.most
    times = [spec.arrival for spec in specs]
    assert times == sorted(times)
    assert sum(spec.work for spec in specs) / times[-1] == pytest.approx(100_000, rel=0.2)


def test_searches_are_as_in_the_thesis() -> None:
    specs = searches(2_000, 1.0, 256, seed=0)
    one = np.mean([len(spec.stages) == 1 for spec in specs])
    assert one == pytest.approx(0.1, abs=0.03)
    slow = np.mean([spec.slowdowns is not NO_SLOWDOWN for spec in specs])
    assert slow == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("name", POLICIES)
def test_no_scheduler_is_below_the_bound(name: str) -> None:
    specs, rules = searches(25, 0.8, 32, seed=7), Rules()
    run = Simulation(specs, mixed(32), POLICIES[name](), rules).ran()
    assert max(app.rho for app in run.apps) >= least_rho(specs, 32, rules.restart) - 1e-9


def test_the_bound_of_an_app_alone_is_what_it_takes() -> None:
    rules, specs = Rules(restart=30.0), [Spec(5.0, (Stage(2, 300.0, 4),), NO_SLOWDOWN)]
    run = Simulation(specs, mixed(64), orders.srsf, rules).ran()
    assert run.apps[0].rho == pytest.approx((30 + 75) / 75)
    assert least_rho(specs, 64, rules.restart) == pytest.approx(run.apps[0].rho, rel=1e-6)
    assert may_have_incentive(specs, 64, 30.0, 2.0) == 0.0
    assert may_have_incentive(specs, 64, 0.0, 2.0) == 1.0


def test_more_apps_may_have_a_smaller_rho() -> None:
    """Two that can use the whole cluster: one may be done in half of its ideal, the other in
    all of it."""
    two = [Spec(0.0, (Stage(1, 1000.0, 8),), NO_SLOWDOWN)] * 2
    assert least_rho(two, 8, 0.0) == pytest.approx(0.5, rel=1e-6)
    one_after_the_other = Simulation(two, mixed(8), orders.srsf, Rules(restart=0.0)).ran()
    assert max(app.rho for app in one_after_the_other.apps) >= 0.5


def test_apps_that_stay_lose_less() -> None:
    def lost(stay: float) -> float:
        runs = [
            Simulation(searches(30, 3.6, 32, seed), mixed(32), Themis(stay=stay), seed=seed).ran()
            for seed in (100, 101, 102)
        ]
        return sum(app.lost for run in runs for app in run.apps)

    assert lost(0.1) < 0.9 * lost(0.0)


def one_that_wants(jobs: int, number: int) -> Running:
    """An app that has arrived."""
    return Running(number, Spec(0.0, (Stage(jobs, 600.0, 1),), NO_SLOWDOWN), 0.0, 0.0)


def test_the_worst_off_get_what_is_left_over() -> None:
    apps = [one_that_wants(4, number) for number in range(3)]
    rhos = dict(zip(apps, (1.0, 3.0, 2.0), strict=True))
    view = View(0.0, apps, 2, [2, 2, 2, 2], 8, 0.0, 600.0, np.random.default_rng(0))
    order = Themis().ordered(view, apps, rhos)
    assert [app.number for app in order] == [1, 2, 0]
    shares: dict[Running, int] = {}
    assert dealt(order, shares, 2) == 0
    assert [shares.get(app, 0) for app in apps] == [0, 1, 1]
    apps[0].before, shares = {0: 2}, {}
    assert dealt(order, shares, 2) == 0
    assert [shares.get(app, 0) for app in apps] == [2, 0, 0], "a restart is spared"
    drawn = {Themis(random=True).ordered(view, apps, rhos)[0].number for _ in range(40)}
    assert drawn == {0, 1, 2}


def test_draws_of_an_app_do_not_depend_on_others() -> None:
    app, other = one_that_wants(4, 7), one_that_wants(4, 8)

    def drawn(now: float, *asked: Running) -> float:
        policy, draw = Themis(), np.random.default_rng(5)
        view = View(now, [app, other], 2, [2, 2, 2, 2], 8, 0.0, 600.0, draw)
        for one in asked:
            policy.coin(view, one).random()
        return float(policy.coin(view, app).random())

    assert drawn(60.0) == drawn(60.0, other, app)
    assert drawn(60.0) != drawn(660.0)


def test_more_workers_do_not_cut_a_restart_short() -> None:
    app = one_that_wants(4, 0)
    app.held = {0: 1}
    app.changed(0.0, mixed(8), 45.0)
    app.advance(1.0)
    app.held = {0: 2}
    app.changed(1.0, mixed(8), 22.5)
    assert app.resumes == 45.0
