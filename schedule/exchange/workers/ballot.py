"""A worker's side of the two-phase commit of plans.

Source: K. Mahajan, PhD thesis, 2021, section 4.5. The optimizer asks all workers whether they can
follow a plan, and commits it only if all can. The thesis's workers switch in the iteration that
follows the commit. A commit may reach one worker sooner than another, or never. So here each
worker reports to all others in every iteration which plan it has, and all use the oldest of these
two iterations later. A worker that loses the optimizer has the plain order, and so all return to
it together.

Links and computations are measured on the workers themselves.
"""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from tuskml.schedule.exchange.algebra import Motif
from tuskml.schedule.exchange.cells import cells
from tuskml.schedule.exchange.network import Channel, Network
from tuskml.schedule.exchange.plan import Dag, Plan, read
from tuskml.schedule.exchange.sockets import Links
from tuskml.schedule.exchange.workers.windows import Workers

SMALL, LARGE = 1_024, 262_144
"""Bytes of a probe to each other worker."""
ROUNDS = 3


def probe_links(links: Links, workers: Workers) -> list[Channel]:
    """Measures rate and latency of each link before the first iteration; equal on all workers.

    Two all-to-all exchanges of known sizes solve the cost equation of `Network`.
    """
    measurements = []
    for link in range(workers.links):
        small, large = (_slowest(links, workers, link, size) for size in (SMALL, LARGE))
        bytes_ = (LARGE - SMALL) * (workers.count - 1)
        rate = bytes_ / max(large - small, 1e-9)
        rest = max(small - SMALL * (workers.count - 1) / rate, 1e-6)
        measurements.append(Channel(rate, rate, rest / (1 + math.log2(workers.count + 1))))
    return measurements


def _slowest(links: Links, workers: Workers, link: int, size: int) -> float:
    """Least seconds of an all-to-all, of the slowest worker: other load only adds time."""
    everyone = tuple(range(workers.count))
    took = []
    for number in range(ROUNDS + 1):
        sent = [np.zeros(size, np.uint8)] * workers.count
        began = time.monotonic()
        memory = cells("all_to_all", links.rank, sent)
        key = f"probe/{link}/{size}/{number}"
        links.exchange(key, Motif("all_to_all", everyone), memory, link)
        took.append(time.monotonic() - began)
    # The first run is left out: it includes the wait for late workers.
    memory = cells("all_gather", links.rank, np.array([min(took[1:])]))
    links.exchange(f"probe/{link}/{size}", Motif("all_gather", everyone), memory, link)
    return max(float(each[0]) for each in memory.result(workers.count))


def network(channels: Sequence[Channel], count: int, per_host: int = 1) -> Network:
    """The network for a search."""
    return Network(count // per_host, per_host, tuple(channels))


def with_seconds(dag: Dag, seconds: Mapping[str, float]) -> Dag:
    """Copies the DAG with measured seconds of computations."""
    return Dag(
        [
            one if one.kind else replace(one, seconds=seconds.get(one.name, one.seconds))
            for one in dag.operations
        ]
    )


PLAIN_ORDER = 0
"""The version of the plan that needs no optimizer."""
LONGEST = 1 << 24
"""Longest line in bytes."""


def lines(one: socket.socket) -> Iterator[dict[str, Any]]:
    """Reads JSON objects from a connection, one per line, until it ends."""
    held = b""
    with suppress(OSError, ValueError):
        while len(held) < LONGEST:
            some = one.recv(1 << 16)
            if not some:
                return
            *whole, held = (held + some).split(b"\n")
            for line in whole:
                message = json.loads(line)
                if isinstance(message, dict):
                    yield message


def say(one: socket.socket, **what: Any) -> None:
    """Sends an object without waiting. Raises OSError if the other side does not read."""
    line = json.dumps(what).encode() + b"\n"
    if one.send(line, socket.MSG_DONTWAIT) < len(line):
        raise OSError("the connection takes no more")


class Ballot:
    """The plans of a worker.

    control: the connection to the optimizer, None without one; usable: returns the links that
    reach all workers.
    """

    def __init__(self, workers: Workers, control: socket.socket | None = None) -> None:
        self.workers, self.control = workers, control
        self.usable: Callable[[], list[int]] = lambda: list(range(workers.links))
        self.held: dict[int, Plan] = {}
        self.committed = PLAIN_ORDER
        self.lock = threading.Lock()
        if control is not None:
            control.settimeout(None)
            threading.Thread(target=self.listen, args=(control,), daemon=True).start()

    def listen(self, control: socket.socket) -> None:
        """Answers the optimizer until its connection ends, after which the plain order holds."""
        with suppress(OSError):
            for word in lines(control):
                if "prepare" in word:
                    self.prepare(control, word["prepare"])
                elif "commit" in word:
                    with self.lock:
                        if word["commit"] in self.held:
                            self.committed = word["commit"]
        self.reset()

    def prepare(self, control: socket.socket, text: Any) -> None:
        """Stores a plan that can be followed, and votes."""
        try:
            plan = read(text)
            fault = self.workers.fault(plan, self.usable())
        except (ValueError, KeyError, TypeError) as error:
            say(control, refused=str(error))
            return
        if fault is not None or plan.version <= PLAIN_ORDER:
            say(control, refused=fault or "its version is that of the plain order")
            return
        with self.lock:
            self.held[plan.version] = plan
        say(control, ready=plan.version)

    def reset(self) -> None:
        """Returns to the plain order until another plan is committed."""
        with self.lock:
            self.committed = PLAIN_ORDER

    def plan(self, version: int, plain: Plan) -> Plan:
        """Returns the plan of a version that all workers have, and drops older ones."""
        with self.lock:
            if version == PLAIN_ORDER:
                return plain
            self.held = {one: each for one, each in self.held.items() if one >= version}
            return self.held[version]

    def report(self, **what: Any) -> None:
        """Reports to the optimizer if it reads; an iteration never waits for it."""
        if self.control is None:
            return
        try:
            say(self.control, **what)
        except OSError:
            with suppress(OSError):
                self.control.shutdown(socket.SHUT_RDWR)
            self.control = None
            self.reset()

    def close(self) -> None:
        """Ends the connection to the optimizer."""
        if self.control is not None:
            with suppress(OSError):
                self.control.shutdown(socket.SHUT_RDWR)
            self.control.close()
