"""The enforcer: motifs of all operations in the plan's sequence, the same on every worker.

Source: K. Mahajan, PhD thesis, 2021, section 4.4.4, pseudocode 5. A thread for each link waits
until the next motif of its sequence has been submitted. The sequence grows window by window, and
goes on over the end of iterations. Every wait has an end. A failure ends the epoch, on all
workers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from tuskml.schedule.exchange.algebra import Expression
from tuskml.schedule.exchange.cells import Cells
from tuskml.schedule.exchange.sockets import Links


class Step(NamedTuple):
    """A motif of a sequence.

    motifs: number of motifs of its operation; link: the link that carries it.
    """

    name: str
    iteration: int
    motif: int
    motifs: int
    expression: Expression
    link: int


Submitted = tuple[str, int]
"""An operation and its iteration."""


class Enforcer:
    """The motifs of an epoch on the first `count` links. waited: seconds for which links waited
    for a submission."""

    def __init__(self, links: Links, count: int, epoch: int = 0) -> None:
        self.links, self.epoch = links, epoch
        self.memories: dict[Submitted, Cells] = {}
        self.left: dict[Submitted, int] = {}
        self.failure: Exception | None = None
        self.stopped = False
        self.waited = 0.0
        self.news = threading.Condition()
        self.lines: list[deque[Step]] = [deque() for _ in range(count)]
        self.threads = [
            threading.Thread(target=self.follow, args=(line,), daemon=True) for line in self.lines
        ]
        for thread in self.threads:
            thread.start()

    def extend(self, steps: Iterable[Step]) -> None:
        """Appends steps to the sequence."""
        with self.news:
            for each in steps:
                self.left.setdefault((each.name, each.iteration), each.motifs)
                self.lines[each.link].append(each)
            self.news.notify_all()

    def submit(self, name: str, iteration: int, memory: Cells) -> None:
        """Allows an operation to begin."""
        with self.news:
            self.memories[name, iteration] = memory
            self.news.notify_all()

    def wait_for_completion(self, name: str, iteration: int, patience: float) -> Cells:
        """Waits for an operation and returns its memory.

        Raises the error of a link if one failed, TimeoutError if the operation has not ended after
        `patience` seconds.
        """
        one = name, iteration
        with self.news:
            if not self.news.wait_for(
                lambda: self.failure is not None or self.left.get(one) == 0, patience
            ):
                raise TimeoutError(f"operation {name} of iteration {iteration} did not end")
            if self.left.get(one) != 0:
                assert self.failure is not None
                raise self.failure
            return self.memories[one]

    def forget(self, before: int) -> None:
        """Drops the memory of iterations before this one."""
        with self.news:
            for one in [each for each in self.left if each[1] < before and not self.left[each]]:
                del self.left[one], self.memories[one]

    def follow(self, line: deque[Step]) -> None:
        """Executes a link's motifs one after the other."""
        try:
            while (step := self.next(line)) is not None:
                memory = self.wait_for_submission(step)
                key = f"{step.iteration}/{step.name}/{step.motif}"
                self.links.exchange(key, step.expression, memory, step.link, self.epoch)
                with self.news:
                    self.left[step.name, step.iteration] -= 1
                    self.news.notify_all()
        except Exception as error:  # any error must reach whoever waits for a result
            with self.news:
                self.failure = self.failure or error
                self.news.notify_all()
            self.links.give_up(self.epoch)

    def next(self, line: deque[Step]) -> Step | None:
        """Takes the next motif of a link; None at the end."""
        with self.news:
            self.news.wait_for(lambda: line or self.stopped or self.failure is not None)
            return line.popleft() if line and self.failure is None else None

    def wait_for_submission(self, step: Step) -> Cells:
        """Waits until an operation has been submitted; returns its memory."""
        one, began = (step.name, step.iteration), time.monotonic()
        with self.news:
            self.news.wait_for(
                lambda: one in self.memories or self.failure is not None, self.links.timeout
            )
            self.waited += time.monotonic() - began
            if one not in self.memories:
                raise TimeoutError(
                    f"operation {step.name} of iteration {step.iteration} was not submitted"
                )
            return self.memories[one]

    def stop(self) -> None:
        """Ends the threads: after their motifs, or at once if the epoch is given up."""
        with self.news:
            self.stopped = True
            self.news.notify_all()
        for thread in self.threads:
            thread.join()
