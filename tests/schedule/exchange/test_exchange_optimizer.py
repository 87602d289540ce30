"""When the central optimizer looks for a plan, by what its workers report."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from exchange_training import COUNT, DAG, EVERYONE, LINKS

from tuskml.schedule.exchange.ordering import Search
from tuskml.schedule.exchange.workers.ballot import Ballot, with_seconds
from tuskml.schedule.exchange.workers.central import IN_A_ROW, WARM, Central, Report

COMPUTED = {"fwd_bottom": 0.01, "fwd_emb": 0.002, "fwd_top": 0.01}


class Steered:
    """An optimizer whose workers report what a test says."""

    def __init__(self) -> None:
        pairs = [socket.socketpair() for _ in range(COUNT)]
        self.ballots = [Ballot(EVERYONE, there) for _, there in pairs]
        self.optimizer = Central(DAG, [here for here, _ in pairs], 2, Search(5.0, proposals=20))
        self.iteration = 0
        self.optimizer.take(0, {"links": [[1e8, 1e-4], [5e7, 1e-4]]})

    def report(self, times: int, version: int, waited: float = 0.0, links: int = LINKS) -> int:
        """How many plans are committed after so many iterations of all workers."""
        for _ in range(times):
            for rank in range(COUNT):
                word: dict[str, Any] = {
                    "iteration": self.iteration,
                    "version": version,
                    "took": 0.1,
                    "waited": waited,
                    "computed": COMPUTED,
                    "alive": list(range(links)),
                }
                self.optimizer.take(rank, word)
            self.iteration += 1
        return self.optimizer.version

    def close(self) -> None:
        for one in (*self.optimizer.connections, *(each.control for each in self.ballots)):
            if one is not None:
                one.close()


@pytest.fixture
def steered() -> Iterator[Steered]:
    made = Steered()
    yield made
    made.close()


def test_the_first_plan_comes_once_computations_are_known(steered: Steered) -> None:
    assert steered.report(WARM - 1, 0) == 0
    assert steered.report(1, 0) == 1
    plan = steered.optimizer.plan
    assert plan is not None
    assert EVERYONE.fault(plan, range(LINKS)) is None
    assert all(ballot.held[1] == plan for ballot in steered.ballots)


def test_nobody_asks_again_where_links_do_not_wait(steered: Steered) -> None:
    steered.report(WARM, 0)
    assert steered.report(10 * IN_A_ROW, 1, waited=0.009) == 1
    assert steered.optimizer.proposed == 1


def test_links_that_wait_are_planned_for_again(steered: Steered) -> None:
    steered.report(WARM, 0)
    pause = steered.optimizer.pause
    steered.report(pause, 1, waited=0.02)
    assert steered.optimizer.proposed == 2
    assert steered.optimizer.pause > pause, "the next time it waits for longer"


def test_workers_that_left_their_plan_get_another(steered: Steered) -> None:
    steered.report(WARM, 0)
    assert steered.report(steered.optimizer.pause, 0) == 2


def test_a_plan_leaves_out_links_that_are_broken(steered: Steered) -> None:
    steered.report(WARM, 0, links=1)
    plan = steered.optimizer.plan
    assert plan is not None
    assert {link for some in plan.channels.values() for link in some} == {0}


def test_a_worker_that_cannot_be_asked_keeps_all_from_a_plan(steered: Steered) -> None:
    steered.optimizer.timeout = 0.1
    control = steered.ballots[2].control
    assert control is not None
    control.shutdown(socket.SHUT_RDWR)
    assert steered.report(WARM, 0) == 0
    assert all(ballot.committed == 0 for ballot in steered.ballots)


def test_the_slowest_worker_and_a_usual_iteration_count(steered: Steered) -> None:
    def iteration(*took: float) -> dict[int, Report]:
        return {
            rank: Report(0, 0.1, 0.0, {"fwd_top": each}, (0, 1)) for rank, each in enumerate(took)
        }

    last = [iteration(1, 2, 3, 2), iteration(1, 2, 4, 2), iteration(9, 2, 3, 2)]
    assert steered.optimizer.seconds(last) == {"fwd_top": 3}
    assert with_seconds(DAG, {"fwd_top": 3}).operations[DAG.at["fwd_top"]].seconds == 3
