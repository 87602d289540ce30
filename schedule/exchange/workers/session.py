"""Iterations of a worker whose exchanges follow the plan that all workers agree on.

A failure ends the epoch: all workers meet, restart two iterations back in the plain order, and use
the links that still reach all workers. Payloads are kept for that long, and sums have one order of
additions, so the results have the same bits. A lost worker ends the training of all others by an
error; none of them waits for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np

from tuskml.schedule.exchange.cells import Message, cells
from tuskml.schedule.exchange.enforcer import Enforcer
from tuskml.schedule.exchange.plan import Plan
from tuskml.schedule.exchange.sockets import EpochHalted, Links
from tuskml.schedule.exchange.workers.ballot import Ballot
from tuskml.schedule.exchange.workers.windows import Workers, plain_plan

FAILURES = (ConnectionError, TimeoutError, EpochHalted)
TRIES = 4
"""Epochs of one wait, after which its error is raised."""
KEPT = 3
"""Iterations before the current one whose payloads are kept. A worker that fails at the start of
an iteration is at most two ahead of the others, and all restart one before the last of them.
"""
Got = TypeVar("Got")


class WorkerLost(RuntimeError):
    """A worker is lost, so the training cannot go on."""


class Session:
    """One worker's iterations.

    begun: the last one; fallbacks: returns to the plain order after a failure; versions: plans of
    past iterations; patience: seconds to wait for a result, and after a failure for a worker that
    still computes.
    """

    def __init__(
        self, links: Links, workers: Workers, ballot: Ballot | None = None, patience: float = 60.0
    ) -> None:
        self.links, self.workers, self.patience = links, workers, patience
        self.ballot = ballot or Ballot(workers)
        self.ballot.usable = self.usable
        self.peers = [rank for rank in range(workers.count) if rank != links.rank]
        self.epoch, self.begun, self.fixed, self.fallbacks = 0, -1, 1, 0
        self.plain = plain_plan(workers.dag)
        self.plans: dict[int, Plan | None] = {0: self.plain, 1: self.plain}
        self.last: int | None = None
        self.inputs: dict[tuple[str, int], Any] = {}
        self.results: dict[tuple[str, int], Any] = {}
        self.computed: dict[str, float] = {}
        self.announced: dict[int, int] = {}
        self.versions: list[int] = []
        self.started = time.monotonic()
        self.enforcer = Enforcer(links, workers.links)

    def begin(self, more: bool = True) -> None:
        """Begins the next iteration.

        more: whether another one follows, which is the same on all workers.
        """
        now = self.begun + 1
        self._report(now - 1)
        self._forget(now - KEPT)
        self.last = None if more else now
        try:
            self._announce(now)
            self.begun = now
            self.plans[now + 1] = self._agreed(now + 1) if more else None
            self.enforcer.extend(self.workers.window(now, self.plans.get))
            if not more:
                self.enforcer.extend(self.workers.window(now + 1, self.plans.get))
        except FAILURES as error:
            self.begun = now
            self._fall_back(error)
        plan = self.plans[now]
        assert plan is not None
        self.versions.append(plan.version)

    def submit(self, name: str, payload: Any, iteration: int | None = None) -> None:
        """Submits a copy of the payload of an exchange of this iteration or of the next one.

        payload: an array, or for an all-to-all a list with an array for each worker.
        """
        at = self.begun if iteration is None else iteration
        several = isinstance(payload, list | tuple)
        copy = [np.array(each) for each in payload] if several else np.array(payload)
        self.inputs[name, at] = copy
        self._enter(name, at)

    def result(self, name: str, iteration: int | None = None) -> Any:
        """Waits for a result: an array for all-reduce and broadcast, else a list with an array per
        worker.

        A plan may leave an exchange whose result only the next iteration needs to that iteration's
        window, so call this after its `begin`. Raises WorkerLost if a worker is lost.
        """
        one = name, self.begun if iteration is None else iteration

        def wait() -> Any:
            if one not in self.results:
                memory = self.enforcer.wait_for_completion(*one, self.patience)
                self.results[one] = memory.result(self.workers.count)
            return self.results[one]

        return self._retry(wait)

    def usable(self) -> list[int]:
        """Links for payloads that reach all workers."""
        return [link for link in self.links.alive() if link < self.workers.links]

    @contextmanager
    def computing(self, name: str) -> Iterator[None]:
        """Measures an operation that is not an exchange, for the optimizer."""
        began = time.monotonic()
        yield
        self.computed[name] = self.computed.get(name, 0.0) + time.monotonic() - began

    def finish(self) -> None:
        """Waits until all workers have ended all exchanges."""
        for one in list(self.inputs):
            self.result(*one)
        with suppress(WorkerLost):  # this worker has all of its results
            self._retry(self._farewell)
        self.enforcer.stop()
        self.ballot.close()

    def _farewell(self) -> None:
        self._tell("farewell", 0)
        for peer in self.peers:
            self._hear(peer, "farewell")

    def _tell(self, key: str, *numbers: int) -> None:
        """Sends a key to all others on the link for messages."""
        message = Message(np.array(numbers, np.int64), (len(numbers),))
        for peer in self.peers:
            self.links.send(peer, self.workers.links, key, message, self.epoch)

    def _hear(self, peer: int, key: str) -> list[int]:
        message = self.links.take(peer, key, self.workers.links, self.epoch, self.patience)
        return [int(each) for each in message.data]

    def _enter(self, name: str, iteration: int) -> None:
        kind = self.workers.dag.operations[self.workers.dag.at[name]].kind
        root = (self.workers.roots or {}).get(name, 0)
        memory = cells(
            kind,  # type: ignore[arg-type]
            self.links.rank,
            self.inputs[name, iteration],
            self.workers.per_host,
            root,
        )
        self.enforcer.submit(name, iteration, memory)

    def _announce(self, iteration: int) -> None:
        version = self.announced[iteration] = self.ballot.committed
        self._tell(f"plan/{iteration}", version)

    def _agreed(self, iteration: int) -> Plan:
        """The plan of an iteration: the oldest that any worker had two iterations before."""
        if iteration <= self.fixed:
            return self.plain
        before = iteration - 2
        versions = [self._hear(peer, f"plan/{before}")[0] for peer in self.peers]
        return self.ballot.plan(min([self.announced[before], *versions]), self.plain)

    def _retry(self, work: Callable[[], Got]) -> Got:
        for _ in range(TRIES):
            try:
                return work()
            except FAILURES as error:
                self._fall_back(error)
        return work()

    def _fall_back(self, cause: Exception) -> None:
        """Starts a new epoch with the others in the plain order."""
        self.fallbacks += 1
        for _ in range(TRIES):
            self.links.give_up(self.epoch)
            self.enforcer.stop()
            self.epoch = max(self.epoch, self.links.given_up) + 1
            self.ballot.reset()
            try:
                return self._restart(*self._agree_on_start())
            except EpochHalted:
                continue
            except (ConnectionError, TimeoutError) as error:
                self.links.give_up(self.epoch)
                raise WorkerLost(f"the training cannot go on: {error}") from cause
        raise WorkerLost("the workers did not agree to begin again") from cause

    def _agree_on_start(self) -> tuple[int, int]:
        """The earliest iteration of any worker, and the first link that reaches all."""
        iteration = self.begun
        bits = sum(1 << link for link in self.usable())
        self._tell("met", iteration, bits)
        for peer in self.peers:
            other, alive = self._hear(peer, "met")
            iteration, bits = min(iteration, other), bits & alive
        common = {link for link in range(self.workers.links) if bits >> link & 1}
        if not common:
            raise ConnectionError("no link reaches all workers")
        return iteration, min(common)

    def _restart(self, first: int, link: int) -> None:
        """Resumes in plain order on a link, from the iteration before `first`, whose payloads all
        have.
        """
        begin, self.fixed = max(first - 1, 0), first + 3
        self.plain = plain_plan(self.workers.dag, link)
        ends = self.fixed if self.last is None else min(self.fixed, self.last)
        self.plans = dict.fromkeys(range(begin, ends + 1), self.plain)
        self.enforcer = Enforcer(self.links, self.workers.links, self.epoch)
        for window in range(begin, self.begun + 1):
            self.enforcer.extend(self.workers.window(window, self.plans.get))
        for name, iteration in self.inputs:
            if iteration >= begin:
                self._enter(name, iteration)
        if self.begun == first + 2:
            self._announce(self.begun)

    def _report(self, iteration: int) -> None:
        took, self.started = time.monotonic() - self.started, time.monotonic()
        waited, self.enforcer.waited = self.enforcer.waited, 0.0
        if iteration >= 0:
            version = self.versions[-1]
            self.ballot.report(
                iteration=iteration,
                version=version,
                took=took,
                waited=waited,
                computed=self.computed,
                alive=self.usable(),
            )
        self.computed = {}

    def _forget(self, before: int) -> None:
        for held in (self.inputs, self.results):
            for one in [each for each in held if each[1] < before]:
                del held[one]
        self.announced.pop(before, None)
        self.enforcer.forget(before)
