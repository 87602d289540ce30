"""The central optimizer: derives plans from measurements and commits them in two phases.

Source: K. Mahajan, PhD thesis, 2021, sections 4.4.3 to 4.5. It searches again if links wait for
more than a twentieth of their time in several consecutive iterations, and if the workers returned
to the plain order. Workers never wait for it.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tuskml.schedule.exchange.network import Channel, Network
from tuskml.schedule.exchange.ordering import Search, optimize, rehearse
from tuskml.schedule.exchange.plan import Dag, Plan
from tuskml.schedule.exchange.workers.ballot import lines, network, say, with_seconds
from tuskml.schedule.exchange.workers.mesh import accept_worker

CONTROL = -1
"""Identifies a connection to the optimizer in a greeting, in place of a link."""
WARM = 4
"""Iterations in which computations are measured before the first plan."""
IN_A_ROW = 5
"""Consecutive iterations with long waits of links before another search."""
WAITED = 0.05
"""Fraction of an iteration that links may wait."""
BRIEF = Search(1.0)
BETTER = 0.97
"""Largest cost of a new plan, relative to the current one."""


@dataclass(frozen=True)
class Report:
    """A worker's report of an iteration.

    Its plan's version, seconds in all, seconds that its links waited, seconds of its computations,
    and the links that reach all workers.
    """

    version: int
    took: float
    waited: float
    computed: Mapping[str, float]
    alive: tuple[int, ...]


class Central:
    """The optimizer of a training.

    connections: to the workers, by rank; search: limits of a search; timeout: seconds for a vote.
    """

    def __init__(
        self,
        dag: Dag,
        connections: Sequence[socket.socket],
        per_host: int = 1,
        search: Search = BRIEF,
        timeout: float = 5.0,
    ) -> None:
        self.dag, self.connections, self.per_host = dag, connections, per_host
        self.search, self.timeout = search, timeout
        self.channels: list[Channel] = []
        self.reports: dict[int, dict[int, Report]] = {}
        self.recent: list[dict[int, Report]] = []
        self.plan: Plan | None = None
        self.version, self.proposed, self.pause = 0, 0, IN_A_ROW
        self.words: queue.Queue[tuple[int, dict[str, Any] | None]] = queue.Queue()
        for rank, one in enumerate(connections):
            threading.Thread(target=self.listen, args=(rank, one), daemon=True).start()

    def listen(self, rank: int, one: socket.socket) -> None:
        """Queues the messages of a worker; None at the end."""
        for word in lines(one):
            self.words.put((rank, word))
        self.words.put((rank, None))

    def run(self) -> int:
        """Plans until a worker leaves; returns the number of committed plans."""
        while True:
            rank, word = self.words.get()
            if word is None:
                return self.version
            self.take(rank, word)

    def take(self, rank: int, word: Mapping[str, Any]) -> None:
        """Stores a worker's measurements, or its report of an iteration."""
        if "links" in word:
            self.channels = [Channel(rate, rate, latency) for rate, latency in word["links"]]
        elif "iteration" in word:
            some = self.reports.setdefault(word["iteration"], {})
            some[rank] = Report(
                word["version"],
                word["took"],
                word["waited"],
                word["computed"],
                tuple(word["alive"]),
            )
            if len(some) == len(self.connections):
                self.recent.append(self.reports.pop(word["iteration"]))
                self.judge()

    def judge(self) -> None:
        """Searches if there is no plan, if links wait, or if workers left their plan."""
        wanted = WARM if self.plan is None else self.pause
        last = self.recent[-wanted:]
        if not self.channels or len(last) < wanted:
            return
        ours = [all(each.version == self.version for each in some.values()) for some in last]
        plain = [all(each.version == 0 for each in some.values()) for some in last]
        if self.plan is None or all(plain) or (all(ours) and all(map(self.waits, last))):
            self.recent = []
            self.propose(last)

    def waits(self, some: Mapping[int, Report]) -> bool:
        """Returns whether a worker's links waited for too long."""
        links = len(self.channels)
        return any(each.waited > WAITED * each.took * links for each in some.values())

    def propose(self, last: Sequence[Mapping[int, Report]]) -> bool:
        """Searches for a plan; returns whether one better than the current one was committed."""
        dag = with_seconds(self.dag, self.seconds(last))
        alive = set.intersection(*(set(each.alive) for each in last[-1].values()))
        if not alive:
            return False
        net, links = self.measure_links(sorted(alive)), sorted(alive)
        self.proposed += 1
        result = optimize(dag, net, self.search, self.proposed)
        self.pause = min(2 * self.pause, 1000)
        left = all(each.version == 0 for each in last[-1].values())
        if self.plan is not None and not left and links == list(range(len(self.channels))):
            now, _ = rehearse(dag, net, self.plan.options)
            if result.cost > BETTER * now:
                return False
        channels = {
            name: tuple(links[each] for each in some)
            for name, some in result.plan.channels.items()
        }
        return self.commit(replace(result.plan, channels=channels))

    def seconds(self, last: Sequence[Mapping[int, Report]]) -> dict[str, float]:
        """Returns the median seconds of computations of the slowest worker."""
        names = {name for some in last for each in some.values() for name in each.computed}
        return {
            name: max(
                median(some[rank].computed.get(name, 0.0) for some in last)
                for rank in range(len(self.connections))
            )
            for name in names
        }

    def measure_links(self, alive: Sequence[int]) -> Network:
        """Network of the links that reach all workers."""
        some = [self.channels[link] for link in alive]
        return network(some, len(self.connections), self.per_host)

    def commit(self, plan: Plan) -> bool:
        """Runs both phases; returns whether all workers agreed and were told to commit."""
        if not (self.all(prepare=plan.text()) and self.ready(plan.version)):
            return False
        self.plan, self.version = plan, plan.version
        return self.all(commit=plan.version)

    def all(self, **what: Any) -> bool:
        """Sends an object to all workers; returns whether all accept it."""
        reached = 0
        for one in self.connections:
            with suppress(OSError):
                say(one, **what)
                reached += 1
        return reached == len(self.connections)

    def ready(self, version: int) -> bool:
        """Returns whether all workers vote for a plan in time; stores reports that arrive
        meanwhile.
        """
        votes: set[int] = set()
        later: list[tuple[int, dict[str, Any] | None]] = []
        until = time.monotonic() + self.timeout
        while len(votes) < len(self.connections):
            try:
                rank, word = self.words.get(timeout=max(until - time.monotonic(), 0.0))
            except queue.Empty:
                break
            if word is not None and word.get("ready") == version:
                votes.add(rank)
            elif word is None or "refused" in word:
                later.append((rank, word))
                break
            else:
                later.append((rank, word))
        for each in later:
            self.words.put(each)
        return len(votes) == len(self.connections)


def serve(
    server: socket.socket,
    dag: Dag,
    count: int,
    token: str,
    per_host: int = 1,
    search: Search = BRIEF,
    timeout: float = 30.0,
) -> int:
    """Waits for the workers and plans until one leaves; returns the number of committed plans."""
    until = time.monotonic() + timeout
    sockets: dict[int, socket.socket] = {}
    while len(sockets) < count:
        rank, one = accept_worker(server, CONTROL, token, until)
        if not 0 <= rank < count or rank in sockets:
            one.close()
            continue
        one.settimeout(None)
        sockets[rank] = one
    try:
        return Central(dag, [sockets[rank] for rank in range(count)], per_host, search).run()
    finally:
        for one in sockets.values():
            one.close()
