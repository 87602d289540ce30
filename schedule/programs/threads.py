"""Workers that are threads of this process."""

import contextvars
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from tuskml.kernels.library import cancel_mark, raise_if_cancelled, watching_sigint
from tuskml.schedule.programs.program import Program
from tuskml.schedule.programs.workers import Place

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
