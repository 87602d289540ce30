"""Motifs over real connections on loopback: the same bits as in memory, and every wait ends."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tuskml.schedule.exchange import algebra
from tuskml.schedule.exchange.algebra import Expression, Motif, segment, spline
from tuskml.schedule.exchange.cells import Message, cells, in_memory
from tuskml.schedule.exchange.enforcer import Enforcer, Step
from tuskml.schedule.exchange.sockets import EpochHalted, Links

WORKERS, LINKS = 4, 2


def connected(timeout: float = 20.0, rate: float = 1e9) -> list[Links]:
    peers: list[dict[tuple[int, int], socket.socket]] = [{} for _ in range(WORKERS)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        for one in range(WORKERS):
            for other in range(one):
                for link in range(LINKS):
                    peers[one][other, link] = socket.create_connection(server.getsockname())
                    peers[other][one, link] = server.accept()[0]
    return [Links(rank, peers[rank], [rate] * LINKS, timeout) for rank in range(WORKERS)]


@pytest.fixture
def links() -> Iterator[list[Links]]:
    made = connected()
    yield made
    for each in made:
        each.close()


def everywhere(links: list[Links], work: Callable[[Links], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(links)) as pool:
        return list(pool.map(work, links))


def compositions(motif: Motif) -> list[Expression]:
    if motif.kind != "all_reduce":
        return [motif, spline(segment(motif, 3), 2)]
    return [
        algebra.scatter(motif),
        segment(algebra.split_by_host(motif, 2), 3),
        segment(algebra.treed(motif, 2, 2), 2),
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", algebra.OPERATIONS)
def test_connections_give_the_bits_of_memory(kind: algebra.Kind, links: list[Links]) -> None:
    numbers = np.random.default_rng(3)
    motif = Motif(kind, tuple(range(WORKERS)))
    payloads: list[Any] = [numbers.standard_normal(70_001).astype("<f4") for _ in range(WORKERS)]
    if kind == "all_to_all":
        payloads = [
            [numbers.standard_normal(k * to) for to in range(WORKERS)] for k in range(WORKERS)
        ]
    expected = in_memory(motif, [cells(kind, k, p, 2) for k, p in enumerate(payloads)])
    for number, expression in enumerate(compositions(motif)):

        def work(one: Links, number: int = number, expression: Expression = expression) -> Any:
            memory = cells(kind, one.rank, payloads[one.rank], 2)
            one.exchange(str(number), expression, memory, number % LINKS)
            return memory.result(WORKERS)

        for result, right in zip(everywhere(links, work), expected, strict=True):
            for left, other in zip(result, right, strict=True):
                assert np.asarray(left).tobytes() == np.asarray(other).tobytes()


def test_a_worker_that_sends_nothing_is_a_timeout() -> None:
    made = connected(timeout=0.2)
    memory = cells("all_reduce", 0, np.zeros(3))
    motif = Motif("all_reduce", tuple(range(WORKERS)))
    with pytest.raises(TimeoutError, match=r"worker 1 sent nothing for 0\.2 seconds"):
        made[0].exchange("x", motif, memory, 0)
    for each in made:
        each.close()


def test_a_worker_that_is_gone_is_an_error(links: list[Links]) -> None:
    links[1].close()
    memory = cells("all_reduce", 0, np.zeros(3))
    with pytest.raises(ConnectionError, match="worker 1 is gone"):
        links[0].exchange("x", Motif("all_reduce", tuple(range(WORKERS))), memory, 0)


def test_an_operation_that_is_never_submitted_ends_by_a_timeout() -> None:
    made = connected(timeout=0.2)
    motif = Motif("all_reduce", tuple(range(WORKERS)))
    enforcer = Enforcer(made[0], LINKS)
    enforcer.extend([Step("a", 0, 0, 1, motif, 0)])
    with pytest.raises(TimeoutError, match="a of iteration 0 was not submitted"):
        enforcer.wait_for_completion("a", 0, 20.0)
    enforcer.stop()
    for each in made:
        each.close()


def test_a_worker_that_gives_up_ends_the_waits_of_all(links: list[Links]) -> None:
    """In its epoch; messages of the next one are kept."""
    waiting = ThreadPoolExecutor(1)
    found = waiting.submit(links[1].take, 3, "never", 0, 4)
    links[2].send(1, 0, "next", Message(np.zeros(2), (2,)), 5)
    links[2].give_up(4)
    with pytest.raises(EpochHalted, match="epoch 4"):
        found.result(20.0)
    assert links[1].take(2, "next", 0, 5).shape == (2,)
    with pytest.raises(EpochHalted):
        links[3].take(2, "never", 0, 3)
