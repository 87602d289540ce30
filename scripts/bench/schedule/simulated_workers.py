"""Workers that answer at once, and workers behind a slow network."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from tuskml.schedule import Program
from tuskml.schedule.programs.program import Place


class Inline:
    """One worker, in the caller's thread."""

    count = 1

    def __init__(self, program: Program, data: Any) -> None:
        self.place = Place(program, 0, data)

    def put(self, value: Any) -> Any:
        """The value."""
        return value

    def update(self, p: int, job: Any, part: Any) -> Any:
        """The answer."""
        return self.place.update(job, part)

    def local(self, p: int) -> Any:
        """The answer."""
        return self.place.local()

    def get(self, handles: Sequence[Any]) -> list[Any]:
        """The values."""
        return list(handles)


class Distant(Inline):
    """One worker in a thread; a message takes `latency` seconds in either direction."""

    def __init__(self, program: Program, data: Any, latency: float) -> None:
        super().__init__(program, data)
        self.latency = latency
        self.asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.answered: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.threads = [threading.Thread(target=one) for one in (self.work, self.deliver)]
        for thread in self.threads:
            thread.start()

    def update(self, p: int, job: Any, part: Any) -> Future[Any]:
        """The answer's future."""
        answer: Future[Any] = Future()
        self.asked.put((time.perf_counter() + self.latency, job, part, answer))
        return answer

    def local(self, p: int) -> Future[Any]:
        """An answered future without a value."""
        answer: Future[Any] = Future()
        answer.set_result(None)
        return answer

    def get(self, handles: Sequence[Any]) -> list[Any]:
        """The values."""
        return [one.result() for one in handles]

    def work(self) -> None:
        """Answers messages when they have come."""
        while (message := self.asked.get()) is not None:
            due, job, part, answer = message
            wait(due)
            value = self.place.update(job, part)
            self.answered.put((time.perf_counter() + self.latency, value, answer))
        self.answered.put(None)

    def deliver(self) -> None:
        """Hands answers over when they have come."""
        while (message := self.answered.get()) is not None:
            due, value, answer = message
            wait(due)
            answer.set_result(value)


def wait(due: float) -> None:
    """Sleeps until a time of the performance counter."""
    left = due - time.perf_counter()
    if left > 0:
        time.sleep(left)


@contextmanager
def distant(program: Program, data: Any, latency: float) -> Iterator[Distant]:
    """A worker that ends with the context."""
    worker = Distant(program, data, latency)
    try:
        yield worker
    finally:
        worker.asked.put(None)
        for thread in worker.threads:
            thread.join()
