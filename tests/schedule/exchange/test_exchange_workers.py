"""Trainings over workers by plans: they have the bits of plain order, whatever fails."""

import random
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from exchange_training import (
    COUNT,
    DAG,
    EVERYONE,
    LINKS,
    NET,
    SHAPE,
    TOKEN,
    Trained,
    ports,
    random_plan,
    together,
)

from tuskml.schedule.exchange.ordering import Search, legal, optimize
from tuskml.schedule.exchange.plan import Plan, read
from tuskml.schedule.exchange.workers import mesh
from tuskml.schedule.exchange.workers.ballot import Ballot, lines, say
from tuskml.schedule.exchange.workers.central import Central
from tuskml.schedule.exchange.workers.session import Session, WorkerLost
from tuskml.schedule.exchange.workers.windows import plain_plan

ITERATIONS = 14


@pytest.fixture(scope="module")
def plain() -> list[Trained]:
    """What workers train in the plain order."""
    return checked(together(ITERATIONS))


def checked(some: list[Any]) -> list[Trained]:
    for each in some:
        if isinstance(each, Exception):
            raise each
    return some


def digests(some: list[Any]) -> list[str]:
    return [each.digest for each in checked(some)]


def holding(plans: list[Plan]) -> Callable[[int], Ballot]:
    """Workers' ballots in which all plans are prepared."""

    def made(_: int) -> Ballot:
        ballot = Ballot(EVERYONE)
        ballot.held = {each.version: each for each in plans}
        return ballot

    return made


@pytest.mark.nightly
def test_each_iteration_may_have_another_plan(plain: list[Trained]) -> None:
    draw = random.Random(5)
    plans = [random_plan(draw, version) for version in range(1, ITERATIONS + 1)]
    assert all(EVERYONE.fault(each, range(LINKS)) is None for each in plans)
    assert any(ahead for each in plans for _, _, ahead in each.order)

    def committed(session: Session, iteration: int) -> None:
        # Workers hear of commits at different times.
        session.ballot.committed = max(iteration - session.links.rank % 2, 0)

    found = together(ITERATIONS, committed, holding(plans))
    assert digests(found) == digests(plain)
    assert all(each.versions == found[0].versions for each in found)
    assert len(set(found[0].versions)) > ITERATIONS // 2
    assert all(each.fallbacks == 0 for each in found)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(10))
def test_a_thousand_random_plans(seed: int) -> None:
    draw = random.Random(seed)
    plans = [random_plan(draw, version) for version in range(1, 1001)]

    def committed(session: Session, iteration: int) -> None:
        session.ballot.committed = iteration

    found = checked(together(1003, committed, holding(plans)))
    assert set(range(1, 1001)) <= set(found[0].versions)
    assert digests(found) == digests(together(1003))


def test_losses_fall_and_are_those_of_one_worker(plain: list[Trained]) -> None:
    assert all(each.losses == plain[0].losses for each in plain)
    assert plain[0].losses[-1] < plain[0].losses[0]


@pytest.mark.nightly
def test_a_link_that_breaks_is_not_used_again(plain: list[Trained]) -> None:
    def broken(session: Session, iteration: int) -> None:
        if iteration == 6 and session.links.rank == 2:
            session.links.peers[1, 0].shutdown(socket.SHUT_RDWR)

    found = together(ITERATIONS, broken)
    assert digests(found) == digests(plain)
    assert all(each.fallbacks >= 1 for each in found)


def test_a_worker_that_is_late_costs_no_result(plain: list[Trained]) -> None:
    def late(session: Session, iteration: int) -> None:
        if iteration == 6 and session.links.rank == 1:
            while session.links.given_up < 0:
                time.sleep(0.001)

    found = together(ITERATIONS, late, timeout=1.0)
    assert digests(found) == digests(plain)
    assert all(each.fallbacks >= 1 for each in found)


def test_a_worker_that_is_gone_ends_all_by_an_error() -> None:
    class Fault(Exception):
        pass

    def gone(session: Session, iteration: int) -> None:
        if iteration == 6 and session.links.rank == 3:
            raise Fault

    found = together(ITERATIONS, gone)
    assert isinstance(found[3], Fault)
    # The first that notices leaves too, and may be the one that another misses.
    assert all(isinstance(each, WorkerLost) and "is gone" in str(each) for each in found[:3])


def controlled() -> tuple[list[socket.socket], Callable[[int], Ballot]]:
    """The optimizer's connections, and the ballots at their other ends."""
    pairs = [socket.socketpair() for _ in range(COUNT)]
    return [one for one, _ in pairs], lambda rank: Ballot(EVERYONE, pairs[rank][1])


def test_a_plan_is_followed_once_all_can_and_left_when_the_optimizer_is_gone(
    plain: list[Trained],
) -> None:
    connections, ballot = controlled()
    optimizer = Central(DAG, connections, 2)
    plan = optimize(DAG, NET, Search(0.2)).plan

    def steered(session: Session, iteration: int) -> None:
        if session.links.rank:
            return
        if iteration == 3:
            assert optimizer.commit(plan)
        if iteration == 8:
            for one in connections:
                one.shutdown(socket.SHUT_RDWR)
            while session.ballot.committed:
                time.sleep(0.001)

    found = together(ITERATIONS, steered, ballot)
    assert digests(found) == digests(plain)
    versions = found[0].versions
    assert all(each.versions == versions for each in found)
    assert versions[0] == versions[-1] == 0
    assert plan.version in versions
    assert all(each.fallbacks == 0 for each in found)


@pytest.mark.nightly
def test_a_plan_that_one_worker_refuses_is_followed_by_none(plain: list[Trained]) -> None:
    connections, ballot = controlled()
    optimizer = Central(DAG, connections, 2)
    plan = optimize(DAG, NET, Search(0.2)).plan
    votes = []

    def steered(session: Session, iteration: int) -> None:
        if session.links.rank == 2 and iteration == 1:
            session.ballot.usable = list
        if session.links.rank == 0 and iteration == 4:
            votes.append(optimizer.commit(plan))

    found = together(ITERATIONS, steered, ballot)
    assert votes == [False]
    assert digests(found) == digests(plain)
    assert all(set(each.versions) == {0} for each in found)


def test_texts_that_are_no_plans_are_refused() -> None:
    here, there = socket.socketpair()
    ballot = Ballot(EVERYONE, there)
    answers = lines(here)
    good = plain_plan(DAG)
    contradicting = Plan(good.options, tuple(reversed(good.order)), 1, good.channels)
    missing = Plan(good.options, good.order[:-1], 1, good.channels)
    for text in ("", "[]", good.text(), contradicting.text(), missing.text()):
        say(here, prepare=text)
        assert "refused" in next(answers)
    fine = Plan(good.options, good.order, 7, good.channels)
    assert read(fine.text()) == fine
    say(here, prepare=fine.text())
    assert next(answers) == {"ready": 7}
    assert ballot.committed == 0
    here.close()


def test_an_early_exchange_is_not_before_a_late_one_that_it_needs() -> None:
    """The ids of the next batch wait for vectors whose gradients came two iterations before."""
    good = plain_plan(DAG).order
    late = {"data_prep": 1, "emb_bwd": -1}
    order = tuple((name, motif, late.get(name, 0)) for name, motif, _ in good)
    assert order[0] == ("data_prep", 0, 1)
    assert not legal(DAG, order)


def test_strangers_do_not_become_workers() -> None:
    servers, addresses = ports(2)
    strange = socket.create_connection(addresses[0][0])
    strange.sendall(b'[1, 0, "a guess"]\n')
    found: dict[int, Any] = {}

    def join(rank: int) -> None:
        mine = [servers[link][rank] for link in range(LINKS + 1)]
        found[rank] = mesh.connect(rank, mine, addresses, TOKEN)

    threads = [threading.Thread(target=join, args=(rank,)) for rank in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert strange.recv(1) == b""
    assert set(found[0]) == {(1, link) for link in range(LINKS + 1)}
    for some in found.values():
        for one in some.values():
            one.close()
    for some in servers:
        for server in some:
            server.close()


def test_gradients_are_those_of_differences() -> None:
    """Of the loss by a parameter of each layer, at double precision of the difference."""
    draw = np.random.default_rng(3)
    from research.syndicate.recommend import Layers

    layers = Layers(6, 5, 2, draw)
    x, by = draw.standard_normal((9, 6)), draw.standard_normal((9, 2))
    layers.flat = layers.flat.astype(np.float64)
    hidden, _ = layers.forward(x)
    found, below = layers.backward(x, hidden, by)

    def value() -> float:
        return float((layers.forward(x)[1] * by).sum())

    for at in draw.choice(layers.flat.size, 12, replace=False):
        layers.flat[at] += 1e-6
        above = value()
        layers.flat[at] -= 2e-6
        assert found[at] == pytest.approx((above - value()) / 2e-6, rel=1e-6, abs=1e-8)
        layers.flat[at] += 1e-6
    x[3, 2] += 1e-6
    above = value()
    x[3, 2] -= 2e-6
    assert below[3, 2] == pytest.approx((above - value()) / 2e-6, rel=1e-6)
    assert SHAPE.pairs == 15
