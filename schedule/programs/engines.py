"""The engines of programs, by the paper of `program.py`.

Static (sections 3.3.1 and 4.2): disjoint blocks of parameters rotate over the workers. Dynamic
(sections 3.3.2 and 4.1, equation 3): each iteration's jobs are chosen by the model, and iterations
overlap.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tuskml.schedule.programs.program import After, Program, ProgramResult, check_jobs
from tuskml.schedule.programs.workers import Workers


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
