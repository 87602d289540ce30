"""The arbiter and its apps, with a clock that the test moves: rounds, leases, silence, lies."""

import math
from collections.abc import Mapping

import pytest

from tuskml.schedule.fair.arbiter import Arbiter, Reply, Rules
from tuskml.schedule.fair.auction import App, Phase, Slowdowns
from tuskml.schedule.fair.leases import (
    Profile,
    Table,
    distribute_free_workers,
    largest,
    subsets,
    table_of,
)

RULES = Rules(f=0.5, lease=10.0, answer=2.0, silent=30.0)


class Cluster:
    """An arbiter with its clock and nodes."""

    def __init__(self, nodes: Mapping[str, int], rules: Rules = RULES, seed: int = 0) -> None:
        self.now, self.nodes = 100.0, dict(nodes)
        self.arbiter = self.another(rules, seed)

    def another(self, rules: Rules = RULES, seed: int = 0) -> Arbiter:
        """An arbiter that knows nothing."""
        return Arbiter(rules, lambda: self.now, lambda: self.nodes, seed)

    def ask(
        self, app: str, jobs: int = 8, work: float | None = None, factor: float = 1.0
    ) -> Reply:
        """Asks, and bids if it may; the answer afterwards."""
        said = self.arbiter.ask(app, jobs, work)
        if said.offer:
            left = App((Phase((10.0,) * jobs),), 10.0 * jobs)
            ideal = left.work / min(said.share, jobs)
            table = table_of(left, Slowdowns(), said.elapsed, ideal, said.offer, said.beside)
            told = Table(
                table.bundles, [rho * factor for rho in table.rho], table.without * factor
            )
            assert self.arbiter.bid(app, said.round, told)
        return said

    def held(self) -> dict[str, int]:
        """Workers of each app."""
        return {app: sum(of.values()) for app, of in self.arbiter.leases.held.items() if of}

    def within_nodes(self) -> bool:
        """Whether no node has more workers than it can."""
        used: dict[str, int] = {}
        for of in self.arbiter.leases.held.values():
            for node, n in of.items():
                used[node] = used.get(node, 0) + n
        return all(n <= self.nodes.get(node, 0) for node, n in used.items())


def test_one_app_gets_all_that_it_can_use() -> None:
    cluster = Cluster({"a": 2, "b": 2})
    cluster.ask("one", jobs=3)
    assert cluster.held() == {"one": 3}
    cluster.ask("two", jobs=3)
    assert cluster.held() == {"one": 3, "two": 1}, "what is free, at once"
    assert cluster.within_nodes()


def test_leases_end_and_are_auctioned_again() -> None:
    cluster = Cluster({"a": 2, "b": 2})
    cluster.ask("one", jobs=4)
    assert cluster.held() == {"one": 4}
    cluster.ask("two", jobs=4)
    assert cluster.held() == {"one": 4}, "its lease has not ended"
    cluster.now += RULES.lease
    for _ in range(3):
        for app in ("one", "two"):
            cluster.ask(app, jobs=4)
    assert cluster.held()["two"] > 0
    assert sum(cluster.held().values()) == 4
    assert cluster.within_nodes()


def test_everyone_is_served_in_time_and_nothing_is_idle() -> None:
    cluster = Cluster({"a": 2, "b": 2, "c": 1})
    apps = [f"app {n}" for n in range(9)]
    served = dict.fromkeys(apps, 0)
    for _ in range(150):
        cluster.now += 1.0
        for app in apps:
            cluster.ask(app, jobs=5, work=500.0)
        assert cluster.within_nodes()
        for app, n in cluster.held().items():
            served[app] += n
    assert sum(served.values()) > 5 * 140
    # equal apps: nobody has less than half of an equal part, from the first round on
    assert min(served.values()) > sum(served.values()) / len(apps) / 2


def test_who_never_answers_holds_up_nobody() -> None:
    cluster = Cluster({"a": 4}, Rules(f=0.0, lease=10.0, answer=2.0))
    cluster.ask("one", jobs=4)
    cluster.arbiter.ask("mute", 4)
    cluster.now += 10.0
    cluster.arbiter.ask("mute", 4)
    assert cluster.arbiter.round is not None
    cluster.ask("one", jobs=2)
    assert cluster.held() == {"one": 4}, "an open round takes nothing away"
    cluster.now += 2.0
    cluster.arbiter.ask("mute", 4)
    assert cluster.arbiter.unanswered == 1
    assert cluster.held() == {"one": 2, "mute": 2}, "it has what is left over"


def test_who_never_answers_does_not_bid_in_the_place_of_others() -> None:
    """It says that it is almost nothing, so it would be first in every round; and it holds on."""
    cluster = Cluster({"a": 2}, Rules(f=0.8, lease=10.0, answer=2.0))
    served = 0
    for _ in range(120):
        cluster.now += 1.0
        cluster.arbiter.ask("mute", 2, 1e-3)
        cluster.ask("liar", 2, 1e-3, factor=1e3)
        cluster.ask("honest", 2, 300.0)
        served += cluster.held().get("honest", 0)
    assert cluster.arbiter.unanswered >= 2
    assert served > 120 * 2 / 3 / 2, "half of an equal part"


def test_who_does_not_ask_is_forgotten() -> None:
    cluster = Cluster({"a": 4})
    cluster.ask("gone", jobs=4)
    cluster.ask("one", jobs=4)
    cluster.now += RULES.silent + 1
    cluster.ask("one", jobs=4)
    cluster.ask("one", jobs=4)
    assert cluster.held() == {"one": 4}
    assert set(cluster.arbiter.apps) == {"one"}


def test_who_never_answers_is_made_fewer_offers() -> None:
    """It is the worst off of all in every round: it has waited as long, and is less work."""
    cluster = Cluster({"a": 1}, Rules(f=0.8, lease=10.0, answer=2.0))
    for _ in range(240):
        cluster.now += 2.0
        cluster.arbiter.ask("mute", 1)
        cluster.ask("honest", 1, 1e6)
    assert cluster.arbiter.rounds >= 30
    assert 2 <= cluster.arbiter.unanswered <= 6, "after 2, 4, 8, 16 and 32 rounds"


def test_an_app_that_ends_leaves_its_workers() -> None:
    cluster = Cluster({"a": 4})
    cluster.ask("one", jobs=4)
    cluster.ask("two", jobs=4)
    cluster.arbiter.leave("one")
    cluster.ask("two", jobs=4)
    assert cluster.held() == {"two": 4}


def test_a_new_arbiter_learns_what_apps_hold() -> None:
    cluster = Cluster({"a": 2, "b": 2})
    cluster.ask("one", jobs=2)
    cluster.ask("two", jobs=2)
    before = {app: dict(of) for app, of in cluster.arbiter.leases.held.items()}
    cluster.arbiter = cluster.another()
    for app, of in before.items():
        said = cluster.arbiter.ask(app, 2, None, of, age=50.0)
        assert said.held == of
    assert cluster.arbiter.leases.held == before
    # an app says that it holds more than there is: it gets no worker of another one
    said = cluster.arbiter.ask("liar", 4, None, {"a": 9, "b": 9}, age=5.0)
    assert said.held == {}


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0, 0.0])
def test_a_table_that_is_none_harms_only_its_bidder(wrong: float) -> None:
    cluster = Cluster({"a": 4}, Rules(f=0.0, lease=10.0, answer=2.0))
    cluster.ask("one", jobs=4)
    cluster.arbiter.ask("wrong", 4)
    cluster.now += 10.0
    said = cluster.arbiter.ask("wrong", 4)
    assert cluster.arbiter.bid("wrong", said.round, Table([{"a": 4}], [wrong], 5.0))
    cluster.ask("one", jobs=4)
    assert cluster.held()["one"] >= 1
    assert cluster.within_nodes()


def test_a_table_for_workers_that_there_are_not_wins_nothing() -> None:
    cluster = Cluster({"a": 2})
    said = cluster.arbiter.ask("greedy", 2)
    assert cluster.arbiter.bid("greedy", said.round, Table([{"a": 50}, {"z": 1}], [0.1, 0.1], 9.0))
    assert cluster.within_nodes()
    assert not cluster.arbiter.bid("greedy", said.round, Table([], [], 1.0)), "too late"


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_a_factor_of_a_table_gains_no_workers(factor: float) -> None:
    """Up to the noise of what is left over at random."""

    def workers(factor: float) -> int:
        total = 0
        for seed in range(2):
            cluster = Cluster({"a": 4, "b": 4}, Rules(f=0.5, lease=4.0), seed)
            for _ in range(60):
                cluster.now += 1.0
                for n in range(4):
                    cluster.ask(f"app {n}", 8, 1000.0, factor if n == 0 else 1.0)
                total += cluster.held().get("app 0", 0)
        return total

    assert workers(factor) <= workers(1.0) * 1.1


def test_a_clock_that_jumps_back_does_not_stop_leases() -> None:
    cluster = Cluster({"a": 2})
    cluster.ask("one", jobs=2)
    cluster.now -= 1000.0
    cluster.ask("one", jobs=2)
    assert cluster.held() == {"one": 2}
    seen = set()
    for _ in range(6):
        cluster.now += 1000.0 + RULES.lease
        for app in ("two", "one", "two"):
            cluster.ask(app, jobs=2)
        seen |= set(cluster.held())
    assert seen == {"one", "two"}


def test_nodes_that_vanish_are_not_given_again() -> None:
    cluster = Cluster({"a": 2, "b": 2})
    cluster.ask("one", jobs=4)
    del cluster.nodes["b"]
    cluster.now += RULES.lease
    for _ in range(3):
        cluster.ask("one", jobs=4)
    assert cluster.held() == {"one": 2}
    assert cluster.within_nodes()


def test_left_over_workers_stay_where_they_were() -> None:
    before = {"x": {"a": 1}, "y": {"b": 2}, "z": {}}
    wanted = {"z": 3, "x": 1, "y": 2}
    found = distribute_free_workers({"a": 1, "b": 2}, wanted, before)
    assert found == {"x": {"a": 1}, "y": {"b": 2}, "z": {}}
    assert distribute_free_workers({"a": 1}, {"z": 1, "y": 1}, before) == {"z": {"a": 1}, "y": {}}
    assert distribute_free_workers({"a": 1}, {"y": 1, "z": 1}, before) == {"z": {}, "y": {"a": 1}}
    assert distribute_free_workers({"c": 1, "d": 1}, {"z": 2, "y": 2}, before) == {
        "z": {"c": 1},
        "y": {"d": 1},
    }
    assert largest({"a": 1, "b": 3}, 3) == {"b": 3}


def test_tables_prefer_one_node_where_spreading_costs() -> None:
    app = App((Phase((100.0,), most=4),), 100.0)
    table = table_of(app, Slowdowns(1, 1.5, 1.5), 0.0, 25.0, {"a": 4, "b": 2}, {})
    rhos = {tuple(sorted(b.items())): rho for b, rho in zip(table.bundles, table.rho, strict=True)}
    assert rhos[("a", 4),] == 1.0
    assert rhos[("a", 2), ("b", 2)] == pytest.approx(1.5)
    assert rhos[("b", 2),] == 2.0
    assert table.without > 50
    assert list(subsets({"a": 0}, 3)) == []
    assert table_of(app, Slowdowns(), 0.0, 25.0, {}, {}).bundles == []


def test_a_profile_replaces_the_guess() -> None:
    profile = Profile()
    assert profile.pace is None
    assert profile.slowdowns() == Slowdowns()
    for seconds in (1.0, 1.1, 0.9):
        profile.note(False, seconds)
        profile.note(True, 2 * seconds)
    assert profile.pace == 1.0
    assert profile.slowdowns() == Slowdowns(1.0, 2.0, 2.0)
    for _ in range(200):
        profile.note(True, 0.5)
    assert profile.slowdowns().rack == 1.0, "never faster for being spread"


def test_an_arbiter_killed_in_an_auction() -> None:
    """A round is open, and one bid has come: all keep what they hold, and the next one goes on."""
    cluster = Cluster({"a": 2, "b": 2}, Rules(f=0.0, lease=10.0, answer=2.0))
    for app in ("one", "two"):
        cluster.ask(app, jobs=2)
    before = {app: dict(of) for app, of in cluster.arbiter.leases.held.items()}
    cluster.now += 10.0
    said = cluster.arbiter.ask("one", 2, 40.0)
    assert said.offer
    assert cluster.arbiter.round is not None
    cluster.arbiter = cluster.another(Rules(f=0.0, lease=10.0, answer=2.0))
    left = App((Phase((10.0, 10.0)),), 20.0)
    table = table_of(left, Slowdowns(), said.elapsed, 10.0, said.offer, said.beside)
    assert not cluster.arbiter.bid("one", said.round, table), "of an auction that nobody knows"
    for app, of in before.items():
        assert cluster.arbiter.ask(app, 2, 40.0, of, age=10.0).held == of
    for _ in range(24):
        cluster.now += 1.0
        for app in before:
            cluster.ask(app, jobs=2)
        assert cluster.within_nodes()
    assert cluster.arbiter.rounds >= 2
    assert cluster.held() == {"one": 2, "two": 2}


def test_a_lease_is_renewed_where_another_app_is_hardly_worse_off() -> None:
    cluster = Cluster({"a": 1}, Rules(f=0.5, lease=10.0, answer=2.0))
    had = []
    for _ in range(12):
        for app in ("one", "two"):
            cluster.ask(app, jobs=1, work=1000.0)
        had += list(cluster.held())
        cluster.now += 10.0
    assert had[:3] == ["one"] * 3
    assert "two" in had


def test_what_is_left_over_goes_to_the_worst_off() -> None:
    """Three answer no offer; one of them said that it is little work, and has waited as long."""
    cluster = Cluster({"a": 1}, Rules(f=0.0, lease=10.0, answer=2.0, silent=100.0))
    for app, work in (("long", 5000.0), ("short", 50.0), ("longer", 9000.0)):
        cluster.arbiter.ask(app, 1, work)
    cluster.now += 3.0
    cluster.arbiter.ask("long", 1, 5000.0)
    assert cluster.held() == {"short": 1}
