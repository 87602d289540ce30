"""Units in threads of this process."""

import contextvars
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from tuskml.groups.execution.activity import noted
from tuskml.groups.execution.executor import Outcome, Unit, attempt, largest_first
from tuskml.kernels.library import cancel_mark, raise_if_cancelled, watching_sigint
from tuskml.schedule import budget

LOOK_SECONDS = 0.2


class Threads:
    """As many threads as this process may use processors."""

    remote = False

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.workers = budget.threads()

    def run(self, work: str, units: Sequence[Unit]) -> Iterator[Outcome]:
        pool = ThreadPoolExecutor(budget.threads(), thread_name_prefix="tuskml unit")
        try:
            with watching_sigint():
                yield from self.outcomes(pool, work, units)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def outcomes(
        self, pool: ThreadPoolExecutor, work: str, units: Sequence[Unit]
    ) -> Iterator[Outcome]:
        """Those of all units, or Interrupted."""
        mark = cancel_mark()
        left: set[Future[Outcome]] = set()
        for unit in largest_first(units):
            left.add(pool.submit(contextvars.copy_context().run, attempt_here, work, unit))
        while left:
            done, left = wait(left, LOOK_SECONDS, FIRST_COMPLETED)
            raise_if_cancelled(mark)
            yield from (future.result() for future in done)


def attempt_here(work: str, unit: Unit) -> Outcome:
    """As `attempt`, and seen by those who ask what is at work."""
    with noted(unit, "this process"):
        return attempt(work, unit)
