"""The enforcer: motifs of all operations in the plan's sequence, the same on every worker.

Source: K. Mahajan, PhD thesis, 2021, section 4.4.4, pseudocode 5. A thread for each link waits
until the next motif of its sequence has been submitted. Every wait has an end. A failure ends the
iteration on this worker; other workers then see that nothing comes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tuskml.schedule.exchange import algebra
from tuskml.schedule.exchange.algebra import Beside, Expression, Motif, segmented, splined
from tuskml.schedule.exchange.cells import Cells
from tuskml.schedule.exchange.network import splines_of
from tuskml.schedule.exchange.plan import Option
from tuskml.schedule.exchange.sockets import Links

PATIENCE = 0.05
"""The part of an iteration that its links may wait before another plan should be asked for."""


def motifs(motif: Motif, option: Option, per_host: int) -> list[Expression]:
    """The parts of an operation that a plan's sequence names, in the order of its strands."""
    whole: Expression = motif
    if motif.kind == "all_reduce":
        if option.pattern == "hosted":
            whole = algebra.hosted(motif, per_host)
        elif option.pattern == "treed":
            whole = algebra.treed(motif, 2, per_host)
        else:
            whole = algebra.scattered(motif)
    found = _parts(segmented(whole, option.segments), option.segments)
    count = splines_of(option.pattern)
    return [part for each in found for part in _parts(splined(each, count), count)]


def _parts(expression: Expression, count: int) -> tuple[Expression, ...]:
    return expression.parts if count > 1 and isinstance(expression, Beside) else (expression,)


class Enforcer:
    """One iteration of a worker. parts: of each operation its motifs and their links; order: of
    (operation, motif), the same on all workers."""

    def __init__(
        self,
        links: Links,
        parts: Mapping[str, Sequence[tuple[Expression, int]]],
        order: Sequence[tuple[str, int]],
        iteration: int = 0,
    ) -> None:
        self.links, self.parts, self.iteration = links, parts, iteration
        self.memories: dict[str, Cells] = {}
        self.left = {name: len(some) for name, some in parts.items()}
        self.failure: Exception | None = None
        self.news = threading.Condition()
        self.waited, self.began = 0.0, time.monotonic()
        self.threads = []
        for link in range(len(links.limits)):
            mine = [(name, k) for name, k in order if parts[name][k][1] == link]
            self.threads.append(threading.Thread(target=self.follow, args=(link, mine)))
            self.threads[-1].start()

    def submit(self, name: str, memory: Cells) -> None:
        """An operation may begin."""
        with self.news:
            self.memories[name] = memory
            self.news.notify_all()

    def result(self, name: str, workers: int) -> Any:
        """What an operation gave. The error of a link where one failed."""
        with self.news:
            if not self.news.wait_for(
                lambda: self.failure is not None or not self.left[name], 2 * self.links.timeout
            ):
                raise TimeoutError(f"operation {name} did not end")
            if self.failure is not None:
                raise self.failure
        return self.memories[name].result(workers)

    def follow(self, link: int, sequence: Sequence[tuple[str, int]]) -> None:
        """A link's motifs, one after the other."""
        try:
            for name, k in sequence:
                memory = self.submitted(name)
                key = f"{self.iteration}/{name}/{k}"
                self.links.exchange(key, self.parts[name][k][0], memory, link)
                with self.news:
                    self.left[name] -= 1
                    self.news.notify_all()
        except Exception as error:  # whatever it is, who waits for a result must see it
            with self.news:
                self.failure = self.failure or error
                self.news.notify_all()

    def submitted(self, name: str) -> Cells:
        """The memory of an operation once it has been submitted."""
        began = time.monotonic()
        with self.news:
            ready = self.news.wait_for(
                lambda: name in self.memories or self.failure is not None, self.links.timeout
            )
            self.waited += time.monotonic() - began
            if not ready or name not in self.memories:
                raise TimeoutError(f"operation {name} was not submitted")
            return self.memories[name]

    def ended(self) -> bool:
        """Waits for all links; whether they waited so long that another plan should be found."""
        for thread in self.threads:
            thread.join()
        took = (time.monotonic() - self.began) * len(self.threads)
        return self.waited > PATIENCE * took
