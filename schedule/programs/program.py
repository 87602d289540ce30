"""User programs, which say which parameters are updated and how, and the engines that run them.

Source: J. K. Kim, Q. Ho, S. Lee, X. Zheng, W. Dai, G. Gibson and E. Xing, SMPFRAME: A Distributed
Framework for Scheduled Model Parallel Machine Learning, CMU-PDL-15-103, 2015, section 3.1 and
table 1. The names of the arguments are the paper's: A is the model, D the data, S_p the job of
worker p, D_p its part of the data and R the results.

Job executors are workers that hold the data, with handles of results that can be passed on early.

Engines: Static (sections 3.3.1 and 4.2): disjoint blocks of parameters rotate over the workers.
Dynamic (sections 3.3.2 and 4.1, equation 3): each iteration's jobs are chosen by the model, and
iterations overlap.
"""

import contextvars
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from tuskml.errors import OperatorError
from tuskml.kernels.library import cancel_mark, raise_if_cancelled, watching_sigint

After = Callable[[int, Any], object]
"""Called with the number of iterations so far, from 1 on, and the model; a true result ends the
run.
"""


class Program(ABC):
    """The functions of a program. `schedule` and `aggregate` run in the caller's process, one at
    a time; `update` runs on workers, at the same time for different p.
    """

    @abstractmethod
    def schedule(self, A: Any, D: Any) -> Sequence[Any]:
        """Returns the jobs of an iteration: which parameters each updates.

        The dynamic engine expects one per worker, or none if there is nothing to do before the
        results of other iterations. The static engine takes any number of jobs, whose parameters
        must be disjoint.
        """

    @abstractmethod
    def update(self, p: int, S_p: Any, D_p: Any, A: Any) -> Any:
        """Returns the result of one job on the data of one worker; A: what `part` returned.

        It may change D_p, which stays on its worker. In the static engine the result is the new
        state of the job's parameters: the next worker of the ring gets it as A.
        """

    @abstractmethod
    def aggregate(self, R: Sequence[Any], A: Any) -> Any:
        """Returns the new model; R: the results in the order of the jobs.

        It must return a new object and leave A as it is, as workers may still read it.
        """

    def part(self, S_p: Any, A: Any) -> Any:
        """Returns the part of the model that `update` needs for a job; by default all of it."""
        return A

    def weight(self, S_p: Any) -> float:
        """Returns the work of a job of the static engine, in any unit."""
        return 1.0

    def local(self, p: int, D_p: Any) -> Any:
        """Returns a worker's own result at the end of the run; by default None."""
        return None


@dataclass(frozen=True)
class ProgramResult:
    """Result of a run: the model, what `Program.local` returned on each worker, and the number of
    iterations, or rotations.
    """

    model: Any
    local: list[Any]
    iterations: int


def check_jobs(jobs: Any, allowed: Callable[[int], bool], expected: str) -> list[Any]:
    """The result of `schedule` as a list. Raises OperatorError if it is not one, or has a wrong
    length.
    """
    try:
        checked = list(jobs)
    except TypeError:
        raise OperatorError(
            f"schedule returned an object of type {type(jobs).__name__}, expected a list of jobs"
        ) from None
    if not allowed(len(checked)):
        raise OperatorError(f"schedule returned {len(checked)} jobs, expected {expected}")
    return checked


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


def ranges(n: int, blocks: int) -> list[slice]:
    """Disjoint slices of range(n) whose lengths differ by at most 1, in their order; empty ones
    are left out.

    >>> ranges(7, 3)
    [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
    """
    each, more = divmod(n, blocks)
    ends = [0]
    for block in range(blocks):
        ends.append(ends[-1] + each + (block < more))
    return [slice(a, b) for a, b in pairwise(ends) if a < b]


def dealt(weights: Sequence[float], workers: int) -> list[list[int]]:
    """Indices of the blocks with which each worker begins, the heaviest first.

    Each block, from the heaviest on, goes to the worker with the least weight (R. L. Graham,
    Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 1969).
    """
    held: list[list[int]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    for block in sorted(range(len(weights)), key=lambda one: (-weights[one], one)):
        least = min(range(workers), key=lambda p: (loads[p], len(held[p]), p))
        held[least].append(block)
        loads[least] += weights[block]
    return held


@dataclass(frozen=True)
class Static:
    """Rotations over a ring of workers.

    Each rotation begins with `schedule`. Its blocks are dealt to the workers, and go from each
    worker to its neighbour until every worker has updated every block once. A worker hands a
    block on as soon as it has updated it, the heaviest of its blocks first, and waits for no other
    else: the one barrier is at the end of the rotation, before `aggregate`.
    """

    rotations: int
    after: After | None = None

    def run(self, program: Program, A: Any, D: Any, workers: Workers) -> ProgramResult:
        """Runs a program, starting from the model A."""
        done = 0
        for done in range(1, self.rotations + 1):
            A = self.rotate(program, A, D, workers)
            if self.after is not None and self.after(done, A):
                break
        local = workers.get([workers.local(p) for p in range(workers.count)])
        return ProgramResult(A, local, done)

    def rotate(self, program: Program, A: Any, D: Any, workers: Workers) -> Any:
        """Returns the model after one rotation."""
        scheduled = program.schedule(A, D)
        jobs = check_jobs(scheduled, lambda n: n > 0, "at least one")
        blocks = [program.part(job, A) for job in jobs]
        held = dealt([float(program.weight(job)) for job in jobs], workers.count)
        for step in range(workers.count):
            for p in range(workers.count):
                for block in held[(p - step) % workers.count]:
                    blocks[block] = workers.update(p, jobs[block], blocks[block])
        return program.aggregate(workers.get(blocks), A)


@dataclass(frozen=True)
class Dynamic:
    """Iterations of `schedule`, one `update` per worker, and `aggregate`.

    depth: number of iterations in flight at most. With a depth of s, jobs are chosen and updated
    by a model that lacks the results of at most s - 1 previous iterations, which are aggregated in
    their order; 1: of none.
    """

    iterations: int
    depth: int = 1
    after: After | None = None

    def run(self, program: Program, A: Any, D: Any, workers: Workers) -> ProgramResult:
        """Runs a program, starting from the model A."""
        flying: deque[list[Any]] = deque()
        done, started, ended = 0, 0, False
        while flying or (started < self.iterations and not ended):
            if started < self.iterations and len(flying) < self.depth and not ended:
                requests = self.ask(program, A, D, workers)
                started += 1
                if requests:
                    flying.append(requests)
                    continue
                ended = not flying
            if flying:
                A = program.aggregate(workers.get(flying.popleft()), A)
                done += 1
                ended |= bool(self.after is not None and self.after(done, A))
        local = workers.get([workers.local(p) for p in range(workers.count)])
        return ProgramResult(A, local, done)

    def ask(self, program: Program, A: Any, D: Any, workers: Workers) -> list[Any]:
        """Handles of one iteration's results; empty if no job can start yet."""
        count = workers.count
        expected = f"{count}, one per worker, or none"
        jobs = check_jobs(program.schedule(A, D), lambda n: n in (0, count), expected)
        parts = [program.part(job, A) for job in jobs]
        put = {id(part): workers.put(part) for part in {id(one): one for one in parts}.values()}
        return [workers.update(p, job, put[id(parts[p])]) for p, job in enumerate(jobs)]
