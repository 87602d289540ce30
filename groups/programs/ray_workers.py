"""Workers that are actors of a Ray cluster.

A block that goes round travels from worker to worker: an answer's reference is the argument of the
next worker's call, so the block does not come here between. The program and the data are passed as
Ray passes objects; the functions of a program that was written in a script or a notebook go along.
"""

import copy
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tuskml.errors import ClusterError
from tuskml.groups.execution import ray_session
from tuskml.groups.execution.ray_cluster import start_seconds
from tuskml.groups.execution.share import Share, limit
from tuskml.groups.execution.versions import mismatch, versions
from tuskml.kernels.library import cancel_mark, raise_if_cancelled
from tuskml.schedule.programs.program import Program
from tuskml.schedule.programs.workers import Place

LOOK_SECONDS = 0.2
LEAST_SHARE = 0.001
"""Of a processor, in which Ray counts."""


class RayPlace(Place):
    """A worker in a process of its own, on one thread."""

    def __init__(self, program: Program, p: int, data: Any) -> None:
        limit(Share(threads=1))
        self.given = program, p, data

    def hello(self) -> str:
        """Makes the part of the data; returns the versions it has, as JSON."""
        program, p, data = self.given
        # arrays that Ray passes cannot be written
        super().__init__(program, p, data if callable(data) else copy.deepcopy(data))
        del self.given
        return json.dumps(versions())


class RayWorkers:
    """One actor per part of the data; several share a processor where there are more of them."""

    def __init__(self, ray: Any, program: Program, parts: Sequence[Any]) -> None:
        self.ray, self.count, self.mark = ray, len(parts), cancel_mark()
        share = min(1.0, ray_session.processors(ray) / self.count)
        share = max(LEAST_SHARE, int(share / LEAST_SHARE) * LEAST_SHARE)
        actor = ray.remote(RayPlace).options(num_cpus=share, max_restarts=0, max_task_retries=0)
        shared = ray.put(program)
        self.places = [actor.remote(shared, p, data) for p, data in enumerate(parts)]

    def begin(self) -> None:
        """Waits until all have started. ClusterError where one cannot."""
        hello = [place.hello.remote() for place in self.places]
        done, _ = self.ray.wait(hello, num_returns=1, timeout=start_seconds())
        if not done:
            raise ClusterError(ray_session.no_processor(self.ray, start_seconds()))
        for there in self.get(hello):
            wrong = mismatch(versions(), json.loads(there))
            if wrong:
                raise ClusterError(wrong)

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
        try:
            return list(self.ray.get(list(handles)))
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayActorError as error:
            raise ClusterError(
                "a worker of the Ray cluster was lost, with what it held: run the program again "
                "from the model that `after` got last"
            ) from error

    def stop(self) -> None:
        """Ends all of them."""
        for place in self.places:
            self.ray.kill(place)


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
