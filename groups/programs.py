"""Runs a program of scheduled updates on an executor.

A block that goes round travels from worker to worker: an answer's reference is the argument of the
next worker's call, so the block does not come here between. The program and the data are passed as
Ray passes objects; the functions of a program that was written in a script or a notebook go along.
"""

import copy
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tuskml.errors import ClusterError, OptionError
from tuskml.groups.execution import ray_session
from tuskml.groups.execution.choosing import check_place
from tuskml.groups.execution.ray_cluster import start_seconds
from tuskml.groups.execution.worker import Share, limit, mismatch, versions
from tuskml.kernels.library import cancel_mark, raise_if_cancelled
from tuskml.schedule.programs.program import (
    Dynamic,
    Place,
    Program,
    ProgramResult,
    Static,
    Workers,
    threads,
)

MOST_WORKERS = 1024


def run_program(
    program: Program,
    A: Any,
    D: Sequence[Any] | Callable[[int], Any],
    engine: Static | Dynamic,
    executor: str = "threads",
    workers: int | None = None,
) -> ProgramResult:
    """Runs `schedule`, `update` and `aggregate` of a program in turn, and returns the last model.

    A: the model to begin with. D: the data, one element per worker, which gets it once and keeps
    it; or a function that makes it of a worker's number and runs there, with `workers` of them.
    `schedule` gets D as it is given here. engine: `tuskml.schedule.Static`, whose blocks rotate,
    or `Dynamic`, whose jobs are chosen by the model. executor: "threads", "ray", or the address of
    a Ray cluster such as "10.0.0.1:6379".

    Raises OptionError for arguments that do not fit, OperatorError where `schedule` returns no
    jobs or another number than the engine takes, ClusterError where a worker is lost, Interrupted
    after `tuskml.cancel()`, and what the functions of the program raise.
    """
    if not isinstance(engine, (Static, Dynamic)):
        raise OptionError(
            f"engine is {engine!r}, expected Static(rotations) or Dynamic(iterations) of "
            "tuskml.schedule"
        )
    _check_counts(engine)
    parts = _parts(D, workers)
    with _workers(program, parts, check_place(executor)) as started:
        return engine.run(program, A, D, started)


def _workers(
    program: Program, parts: Sequence[Any], place: str
) -> AbstractContextManager[Workers]:
    if place == "threads":
        return threads(program, parts)

    return ray_workers(program, parts, None if place == "ray" else place)


def _check_counts(engine: Static | Dynamic) -> None:
    for name in ("rotations", "iterations", "depth"):
        value = getattr(engine, name, 1)
        if type(value) is not int or value < 1:
            raise OptionError(f"{name} is {value!r}, expected an integer of at least 1")


def _parts(D: Any, workers: int | None) -> list[Any]:
    """Returns each worker's data, or the function that makes it."""
    count = workers
    if not callable(D):
        try:
            count = len(D)
        except TypeError:
            raise OptionError(
                f"D is of type {type(D).__name__}, expected a list with the data of each worker, "
                "or a function that makes it of a worker's number"
            ) from None
        if workers not in (None, count):
            raise OptionError(f"workers is {workers}, but D has {count} parts: give one of them")
    if count is None:
        raise OptionError("D is a function, but workers is not given, expected how many there are")
    if type(count) is not int or not 1 <= count <= MOST_WORKERS:
        raise OptionError(f"there are {count!r} workers, expected 1 to {MOST_WORKERS:,}")
    return [D] * count if callable(D) else list(D)


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
    with ray_session.connect(address) as ray:
        workers = RayWorkers(ray, program, parts)
        try:
            workers.begin()
            yield workers
        finally:
            workers.stop()
