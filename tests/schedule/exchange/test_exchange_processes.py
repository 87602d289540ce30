"""Workers and the optimizer as processes that are killed: no one waits for ever."""

import json
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from exchange_training import COUNT, LINKS, together

PROGRAM = Path(__file__).with_name("exchange_training.py")
ITERATIONS = 30
LONGEST = 120.0


def free(count: int) -> list[int]:
    """Ports that nobody has, all at once so that they differ."""
    with ExitStack() as held:
        some = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in some]


class Running:
    """The optimizer and the workers."""

    def __init__(self, iterations: int = ITERATIONS) -> None:
        ports = [("127.0.0.1", port) for port in free((LINKS + 1) * COUNT + 1)]
        links = [ports[1 + link * COUNT :][:COUNT] for link in range(LINKS + 1)]
        config = json.dumps(
            {"central": ports[0], "addresses": links, "timeout": 20.0, "iterations": iterations}
        )
        self.processes = {
            role: subprocess.Popen(
                [sys.executable, str(PROGRAM), role, config],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for role in ("central", *map(str, range(COUNT)))
        }

    def until(self, rank: int, iteration: int) -> None:
        """Waits for a worker to get so far."""
        for line in self.processes[str(rank)].stdout or ():
            if line.startswith(f"iteration {iteration}"):
                return
        raise AssertionError("the worker ended before")

    def kill(self, role: str) -> None:
        self.processes[role].kill()

    def end(self, rank: int) -> tuple[str, str]:
        """What a worker wrote until its end."""
        return self.processes[str(rank)].communicate(timeout=LONGEST)

    def close(self) -> None:
        for one in self.processes.values():
            one.kill()
            one.communicate()


@contextmanager
def running() -> Iterator[Running]:
    some = Running()
    try:
        yield some
    finally:
        some.close()


def digests(some: Running) -> list[str]:
    found: list[Any] = []
    for rank in range(COUNT):
        out, fault = some.end(rank)
        assert out, fault
        found.append(json.loads(out.splitlines()[-1])[0])
    return found


@pytest.fixture(scope="module")
def plain() -> list[str]:
    return [each.digest for each in together(ITERATIONS)]


def optimizer_killed(plain: list[str], rank: int, iteration: int) -> None:
    with running() as some:
        some.until(rank, iteration)
        some.kill("central")
        assert digests(some) == plain


def worker_killed(victim: int, watched: int, iteration: int) -> None:
    with running() as some:
        some.until(watched, iteration)
        some.kill(str(victim))
        for rank in set(range(COUNT)) - {victim}:
            _, fault = some.end(rank)
            # The first that notices leaves too, and may be the one that another misses.
            assert "WorkerLost: the" in fault, fault


@pytest.mark.nightly
def test_the_optimizer_is_killed(plain: list[str]) -> None:
    optimizer_killed(plain, 0, 12)


def test_a_worker_is_killed() -> None:
    worker_killed(2, 1, 9)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(12))
def test_processes_are_killed_at_any_moment(plain: list[str], seed: int) -> None:
    draw = random.Random(seed)
    optimizer_killed(plain, draw.randrange(COUNT), draw.randrange(ITERATIONS - 4))
    victim, watched = draw.sample(range(COUNT), 2)
    worker_killed(victim, watched, draw.randrange(ITERATIONS - 8))
