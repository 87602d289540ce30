"""The static engine: disjoint blocks of parameters rotate over the workers.

Source: the paper of `program.py`, sections 3.3.1 and 4.2.
"""

from dataclasses import dataclass
from typing import Any

from tuskml.schedule.programs.program import After, Finished, Program, checked_jobs
from tuskml.schedule.programs.rotation import dealt
from tuskml.schedule.programs.workers import Workers


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

    def run(self, program: Program, A: Any, D: Any, workers: Workers) -> Finished:
        """Runs a program, starting from the model A."""
        done = 0
        for done in range(1, self.rotations + 1):
            A = self.rotate(program, A, D, workers)
            if self.after is not None and self.after(done, A):
                break
        local = workers.get([workers.local(p) for p in range(workers.count)])
        return Finished(A, local, done)

    def rotate(self, program: Program, A: Any, D: Any, workers: Workers) -> Any:
        """Returns the model after one rotation."""
        scheduled = program.schedule(A, D)
        jobs = checked_jobs(scheduled, lambda n: n > 0, "at least one")
        blocks = [program.part(job, A) for job in jobs]
        held = dealt([float(program.weight(job)) for job in jobs], workers.count)
        for step in range(workers.count):
            for p in range(workers.count):
                for block in held[(p - step) % workers.count]:
                    blocks[block] = workers.update(p, jobs[block], blocks[block])
        return program.aggregate(workers.get(blocks), A)
