"""Job executors: workers that hold the data, and handles of results that can be passed on
early.
"""

import contextvars
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Protocol

from tuskml.kernels.library import cancel_mark, raise_if_cancelled, watching_sigint
from tuskml.schedule.programs.program import Program


class Place:
    """One worker: its index, its part of the data, and the program.

    data: the part itself, or a function from the worker's index to it.
    """

    def __init__(self, program: Program, p: int, data: Any) -> None:
        self.program, self.p = program, p
        self.data = data(p) if callable(data) else data

    def update(self, job: Any, part: Any) -> Any:
        """Calls `Program.update`."""
        return self.program.update(self.p, job, self.data, part)

    def local(self) -> Any:
        """Calls `Program.local`."""
        return self.program.local(self.p, self.data)


class Workers(Protocol):
    """The workers of a run, by their indices from 0 to `count` - 1.

    A handle stands for a value that some worker has or will have. Each worker executes its jobs in
    the order of submission.
    """

    count: int

    def put(self, value: Any) -> Any:
        """Returns a handle of a value that several workers will read."""

    def update(self, p: int, job: Any, part: Any) -> Any:
        """Submits a job to worker p, and returns the result's handle at once.

        part: a value or a handle, also that of a result of another worker.
        """

    def local(self, p: int) -> Any:
        """Submits a call of `Program.local` to worker p; returns the result's handle."""

    def get(self, handles: Sequence[Any]) -> list[Any]:
        """Waits for the values. Raises what a function of the program raised, ClusterError where
        a worker was lost, and Interrupted after `tuskml.cancel()`."""


LOOK_SECONDS = 0.2


class Threads:
    """One thread per part of the data; values are passed as they are, without copies."""

    def __init__(self, program: Program, parts: Sequence[Any]) -> None:
        self.count = len(parts)
        self.mark = cancel_mark()
        self.pools = [ThreadPoolExecutor(1, f"tuskml worker {p}") for p in range(self.count)]
        making = [self._ask(p, Place, program, p, data) for p, data in enumerate(parts)]
        self.places = making

    def put(self, value: Any) -> Any:
        return value

    def update(self, p: int, job: Any, part: Any) -> Future[Any]:
        return self._ask(p, _update, self.places[p], job, part)

    def local(self, p: int) -> Future[Any]:
        return self._ask(p, _local, self.places[p])

    def get(self, handles: Sequence[Any]) -> list[Any]:
        left = set(handles)
        while left:
            done, left = wait(left, LOOK_SECONDS, "FIRST_EXCEPTION")
            raise_if_cancelled(self.mark)
            for one in done:
                one.result()
        return [one.result() for one in handles]

    def stop(self) -> None:
        """Waits for running jobs and cancels pending ones."""
        for pool in self.pools:
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in self.pools:
            pool.shutdown(wait=True)

    def _ask(self, p: int, what: Any, *given: Any) -> Future[Any]:
        return self.pools[p].submit(contextvars.copy_context().run, what, *given)


def _update(place: "Future[Place]", job: Any, part: Any) -> Any:
    return place.result().update(job, part.result() if isinstance(part, Future) else part)


def _local(place: "Future[Place]") -> Any:
    return place.result().local()


@contextmanager
def threads(program: Program, parts: Sequence[Any]) -> Iterator[Threads]:
    """Starts workers, which end with the context. Ctrl-C cancels."""
    with watching_sigint():
        workers = Threads(program, parts)
        try:
            workers.get(workers.places)
            yield workers
        finally:
            workers.stop()
