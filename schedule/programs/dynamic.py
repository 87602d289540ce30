"""The dynamic engine: each iteration's jobs are chosen by the model, and iterations overlap.

Source: the paper of `program.py`, sections 3.3.2 and 4.1, equation 3.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

from tuskml.schedule.programs.program import After, Finished, Program, checked_jobs
from tuskml.schedule.programs.workers import Workers


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

    def run(self, program: Program, A: Any, D: Any, workers: Workers) -> Finished:
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
        return Finished(A, local, done)

    def ask(self, program: Program, A: Any, D: Any, workers: Workers) -> list[Any]:
        """Handles of one iteration's results; empty if no job can start yet."""
        count = workers.count
        expected = f"{count}, one per worker, or none"
        jobs = checked_jobs(program.schedule(A, D), lambda n: n in (0, count), expected)
        parts = [program.part(job, A) for job in jobs]
        put = {id(part): workers.put(part) for part in {id(one): one for one in parts}.values()}
        return [workers.update(p, job, put[id(parts[p])]) for p, job in enumerate(jobs)]
