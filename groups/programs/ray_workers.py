"""Workers that are actors of a Ray cluster.

A block that goes round travels from worker to worker: an answer's reference is the argument of the
next worker's call, so the block does not come here between. The program and the data are passed as
Ray passes objects; the functions of a program that was written in a script or a notebook go along.
"""

import copy
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tuskml.errors import ClusterError
from tuskml.groups.execution import ray_session
from tuskml.groups.execution.ray_cluster import start_seconds
from tuskml.groups.execution.versions import mismatch, versions
from tuskml.groups.execution.worker import Share, limit
from tuskml.kernels.library import cancel_mark, raise_if_cancelled
from tuskml.schedule.programs.program import Program
from tuskml.schedule.programs.workers import Place

LOOK_SECONDS = 0.2
SHARES = 10_000
"""The fractions of a processor that Ray counts."""


class RayPlace(Place):
    """A worker in a process of its own, on one thread."""

    def __init__(self, program: Program, p: int, data: Any) -> None:
        limit(Share(threads=1))
        self.given = program, p, data

    def hello(self) -> str:
        """The versions it has, as JSON."""
        return json.dumps(versions())

    def make(self) -> None:
        """Makes the part of the data."""
        program, p, data = self.given
        # arrays that Ray passes cannot be written
        super().__init__(program, p, data if callable(data) else copy.deepcopy(data))
        del self.given


class RayWorkers:
    """One actor per part of the data; several share a processor where there are more of them."""

    def __init__(self, ray: Any, program: Program, parts: Sequence[Any]) -> None:
        self.ray, self.count, self.mark = ray, len(parts), cancel_mark()
        ray_session.processors(ray)
        cpus = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        actor = ray.remote(RayPlace).options(
            num_cpus=share_of(cpus, self.count), max_restarts=0, max_task_retries=0
        )
        shared = ray.put(program)
        self.places = [actor.remote(shared, p, data) for p, data in enumerate(parts)]

    def begin(self) -> None:
        """Waits until all workers have started and made their data. Raises ClusterError if
        none starts for a while, or one cannot.
        """
        left, since = [place.hello.remote() for place in self.places], time.monotonic()
        while left:
            done, left = self.ray.wait(left, num_returns=len(left), timeout=LOOK_SECONDS)
            raise_if_cancelled(self.mark)
            for there in self._values(done):
                wrong = mismatch(versions(), json.loads(there))
                if wrong:
                    raise ClusterError(wrong)
            if done:
                since = time.monotonic()
            elif time.monotonic() > since + start_seconds():
                raise ClusterError(ray_session.no_processor(self.ray, start_seconds()))
        self.get([place.make.remote() for place in self.places])

    def put(self, value: Any) -> Any:
        return self.ray.put(value)

    def update(self, p: int, job: Any, part: Any) -> Any:
        return self.places[p].update.remote(job, part)

    def local(self, p: int) -> Any:
        return self.places[p].local.remote()

    def get(self, handles: Sequence[Any]) -> list[Any]:
        left = list(handles)
        while left:
            done, left = self.ray.wait(left, num_returns=len(left), timeout=LOOK_SECONDS)
            raise_if_cancelled(self.mark)
            self._values(done)  # an error ends the run before the others have come
        return self._values(handles)

    def _values(self, handles: Sequence[Any]) -> list[Any]:
        errors = self.ray.exceptions
        try:
            return list(self.ray.get(list(handles)))
        except errors.RayError as error:
            cause: BaseException = error
            while isinstance(cause, errors.RayTaskError):  # maybe of a worker that waited for it
                cause = cause.cause
            if isinstance(cause, (errors.RayActorError, errors.ObjectLostError)):
                raise ClusterError(
                    "a worker of the Ray cluster was lost, with what it held: run the program "
                    "again from the model that `after` got last"
                ) from error
            raise cause from None

    def stop(self) -> None:
        """Ends all of them."""
        for place in self.places:
            self.ray.kill(place)


def share_of(cpus: Sequence[float], count: int) -> float:
    """Returns the largest share of a processor with which `count` workers fit on their nodes."""
    nodes = [round(one * SHARES) for one in cpus]
    fits = (n for n in range(SHARES, 0, -1) if sum(node // n for node in nodes) >= count)
    return next(fits, 1) / SHARES


@contextmanager
def ray_workers(
    program: Program, parts: Sequence[Any], address: str | None
) -> Iterator[RayWorkers]:
    """Workers of the cluster at an address, or where it is None of the one at hand."""
    with ray_session.connected(address) as ray:
        workers = RayWorkers(ray, program, parts)
        try:
            workers.begin()
            yield workers
        finally:
            workers.stop()
