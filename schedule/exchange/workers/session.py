"""A worker's training: iterations whose exchanges follow the plan that all workers agree on.

A failure ends the epoch: all workers meet, begin again two iterations back in the plain order, and
use the links that still reach everybody. Payloads are kept for that long, and sums have one order
of additions, so the results have the same bits. A worker that is gone ends the training of all
others by an error; none of them waits for ever.
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
from tuskml.schedule.exchange.sockets import Halted, Links
from tuskml.schedule.exchange.workers.ballot import Ballot
from tuskml.schedule.exchange.workers.windows import Workers, plain_plan

FAILURES = (ConnectionError, TimeoutError, Halted)
TRIES = 4
"""Epochs of one wait, after which its error is final."""
KEPT = 3
"""Iterations before the one that begins, of which payloads are kept: a worker that fails while it
begins one is at most two ahead of the others, and all begin again one before the last of them."""
Got = TypeVar("Got")


class Gone(RuntimeError):
    """A worker is gone, so the training cannot go on."""


class Session:
    """One worker's iterations. begun: the last one; fallbacks: returns to the plain order after a
    failure; versions: of the plans of past iterations; patience: seconds that workers wait for
    one that computes after a failure, and for a result."""

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
        """The next iteration; more: whether another one follows, which is the same everywhere."""
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
        """An exchange may begin, of this iteration or of the next one. The payload is copied.

        payload: an array, or of an all-to-all a list with an array for each worker.
        """
        at = self.begun if iteration is None else iteration
        several = isinstance(payload, list | tuple)
        kept = [np.array(each) for each in payload] if several else np.array(payload)
        self.inputs[name, at] = kept
        self._enter(name, at)

    def result(self, name: str, iteration: int | None = None) -> Any:
        """An array of all-reduce and broadcast, a list by worker of the others.

        A plan may leave an exchange whose result only the next iteration needs to that iteration's
        window, so ask for it after its `begin`. Gone where a worker is gone.
        """
        one = name, self.begun if iteration is None else iteration

        def wait() -> Any:
            if one not in self.results:
                memory = self.enforcer.completed(*one, self.patience)
                self.results[one] = memory.result(self.workers.count)
            return self.results[one]

        return self._retried(wait)

    def usable(self) -> list[int]:
        """The links for payloads that reach all workers."""
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
        with suppress(Gone):  # this worker has all that it needs
            self._retried(self._farewell)
        self.enforcer.stop()
        self.ballot.close()

    def _farewell(self) -> None:
        self._tell("farewell", 0)
        for peer in self.peers:
            self._hear(peer, "farewell")

    def _tell(self, key: str, *numbers: int) -> None:
        """Sends a key to all others on the link that carries no payloads."""
        message = Message(np.array(numbers, np.int64), (len(numbers),))
        for peer in self.peers:
            self.links.send(peer, self.workers.links, key, message, self.epoch)

    def _hear(self, peer: int, key: str) -> list[int]:
        found = self.links.take(peer, key, self.workers.links, self.epoch, self.patience)
        return [int(each) for each in found.data]

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
        """The plan of an iteration: the oldest that a worker had two iterations before."""
        if iteration <= self.fixed:
            return self.plain
        before = iteration - 2
        versions = [self._hear(peer, f"plan/{before}")[0] for peer in self.peers]
        return self.ballot.plan(min([self.announced[before], *versions]), self.plain)

    def _retried(self, work: Callable[[], Got]) -> Got:
        for _ in range(TRIES):
            try:
                return work()
            except FAILURES as error:
                self._fall_back(error)
        return work()

    def _fall_back(self, cause: Exception) -> None:
        """Meets the others in a new epoch, and begins there in the plain order."""
        self.fallbacks += 1
        for _ in range(TRIES):
            self.links.give_up(self.epoch)
            self.enforcer.stop()
            self.epoch = max(self.epoch, self.links.given_up) + 1
            self.ballot.reset()
            try:
                return self._restart(*self._met())
            except Halted:
                continue
            except (ConnectionError, TimeoutError) as error:
                self.links.give_up(self.epoch)
                raise Gone(f"the training cannot go on: {error}") from cause
        raise Gone("the workers did not agree to begin again") from cause

    def _met(self) -> tuple[int, int]:
        """The least iteration that a worker is in, and the first link that reaches all."""
        begun = self.begun
        bits = sum(1 << link for link in self.usable())
        self._tell("met", begun, bits)
        for peer in self.peers:
            other, alive = self._hear(peer, "met")
            begun, bits = min(begun, other), bits & alive
        common = {link for link in range(self.workers.links) if bits >> link & 1}
        if not common:
            raise ConnectionError("no link reaches all workers")
        return begun, min(common)

    def _restart(self, first: int, link: int) -> None:
        """Plain order on a link from the iteration before the least one, of which all workers have
        the payloads."""
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
