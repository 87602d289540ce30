"""Workers that train one model together: addresses, connections and the end of a training.

A worker first takes a seat, a few listening sockets, before the participants are known. Once the
addresses of all are known and it has its rows, it connects to the others. The first worker also
runs the optimizer of plans, in a thread for which no worker waits.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from tuskml.schedule.exchange.plan import Dag
from tuskml.schedule.exchange.sockets import Links
from tuskml.schedule.exchange.workers import ballot as ballots
from tuskml.schedule.exchange.workers import central, mesh
from tuskml.schedule.exchange.workers.ballot import Ballot
from tuskml.schedule.exchange.workers.mesh import Address
from tuskml.schedule.exchange.workers.session import Session
from tuskml.schedule.exchange.workers.windows import Workers

REACH = 5.0
"""Seconds to connect to a worker, which listens already."""
PATIENCE = 3600.0
"""Seconds to wait for other workers, which may be busy with something else."""
LOOK = 0.05
"""Seconds between two checks whether the training was ended."""


@dataclass(frozen=True)
class Seat:
    """Listening sockets: one for each link, one for messages, and one for the optimizer."""

    servers: tuple[socket.socket, ...]

    @classmethod
    def take(cls, hosts: Sequence[str]) -> Seat:
        """Opens the sockets.

        hosts: this worker's own addresses, one for each link; at least one.
        """
        return cls(tuple(socket.create_server((one, 0)) for one in [*hosts, hosts[0], hosts[0]]))

    @property
    def addresses(self) -> list[Address]:
        """Addresses on which the sockets listen."""
        return [one.getsockname()[:2] for one in self.servers]

    def close(self) -> None:
        """Closes the sockets."""
        for one in self.servers:
            one.close()


@dataclass(frozen=True)
class Member:
    """One of the workers.

    addresses: of the seats of all, by rank; token: a secret that all share; ask: sends a request
    to a part of the rows by its index; threads: number that may compute; ended: whether the
    training was ended from outside.
    """

    rank: int
    seat: Seat
    addresses: Sequence[Sequence[Address]]
    token: str
    ask: Callable[[int, bytes], bytes]
    threads: int
    ended: Callable[[], bool]

    @property
    def count(self) -> int:
        """Number of participating workers."""
        return len(self.addresses)

    @property
    def links(self) -> int:
        """Number of links between every two workers, without the one for messages."""
        return min(len(some) for some in self.addresses) - 2

    @contextmanager
    def session(self, dag: Dag) -> Iterator[Session]:
        """Connects to the others.

        dag: an iteration, with the bytes of its exchanges as far as this worker knows them. Raises
        ConnectionError or TimeoutError if some do not connect.
        """
        links = Links(self.rank, self._connect_all(), [math.inf] * (self.links + 1))
        done = threading.Event()
        threading.Thread(target=self._watch, args=(links, done), daemon=True).start()
        try:
            yield Session(links, Workers(dag, self.count, self.links), self._ballot(links, dag))
        finally:
            done.set()
            links.close()

    def leave(self) -> None:
        """Notifies all others that this worker does not take part."""
        others = [some for rank, some in enumerate(self.addresses) if rank != self.rank]
        mesh.leave(self.rank, [one for some in others for one in some[:-1]], self.token)

    def _connect_all(self) -> dict[tuple[int, int], socket.socket]:
        """Connections by worker and link; the last link carries messages."""
        sockets: dict[tuple[int, int], socket.socket] = {}
        soon = time.monotonic() + REACH
        try:
            for link, at in enumerate(self._places()):
                for peer in range(self.rank):
                    where = self.addresses[peer][at[peer]]
                    sockets[peer, link] = mesh.connect_to_worker(
                        self.rank, link, where, self.token, soon
                    )
            until = time.monotonic() + PATIENCE
            for link, at in enumerate(self._places()):
                server = self.seat.servers[at[self.rank]]
                while any(
                    (peer, link) not in sockets for peer in range(self.rank + 1, self.count)
                ):
                    peer, one = mesh.accept_worker(server, link, self.token, until, self.ended)
                    if self.rank < peer < self.count and (peer, link) not in sockets:
                        sockets[peer, link] = one
                    else:
                        one.close()
        except BaseException:
            for one in sockets.values():
                one.close()
            raise
        return sockets

    def _places(self) -> list[list[int]]:
        """Returns for each link the index of its server in the seat of each worker."""
        payloads = [[link] * self.count for link in range(self.links)]
        return [*payloads, [len(some) - 2 for some in self.addresses]]

    def _ballot(self, links: Links, dag: Dag) -> Ballot | None:
        """The worker's side of the commit of plans; None for a single worker."""
        if self.count == 1:
            return None
        if self.rank == 0:
            threading.Thread(target=self._optimize, args=(dag,), daemon=True).start()
        until = time.monotonic() + REACH
        everyone = Workers(dag, self.count, self.links)
        where = self.addresses[0][-1]
        control = mesh.connect_to_worker(self.rank, central.CONTROL, where, self.token, until)
        ballot = Ballot(everyone, control)
        measurements = ballots.probe_links(links, everyone)
        ballot.report(links=[[each.inside, each.latency] for each in measurements])
        return ballot

    def _optimize(self, dag: Dag) -> None:
        """Runs the optimizer; workers go on in plain order if it fails."""
        with suppress(Exception):
            central.serve(self.seat.servers[-1], dag, self.count, self.token)

    def _watch(self, links: Links, done: threading.Event) -> None:
        """Closes all connections once the training is ended from outside."""
        while not done.wait(LOOK):
            if self.ended():
                links.close()
                return
