"""Units in threads of this process."""

import contextvars
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from tuskml.errors import Interrupted
from tuskml.groups.execution import leading
from tuskml.groups.execution.activity import note_work
from tuskml.groups.execution.executor import Outcome, Unit, attempt, largest_first
from tuskml.groups.execution.leading import Leaders, Ran
from tuskml.kernels.library import cancel, cancel_mark, raise_if_cancelled, watching_sigint
from tuskml.schedule import budget

LOOK_SECONDS = 0.2


class Threads:
    """One thread for each processor that this process may use."""

    remote = False

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.workers = budget.threads()

    def run(
        self, work: str, units: Sequence[Unit], leaders: Leaders | None = None
    ) -> Iterator[Outcome]:
        run = Run(work, units, leaders or leading.none())
        try:
            with watching_sigint():
                yield from run.outcomes()
        except (Interrupted, KeyboardInterrupt):
            run.cancelled = True
            raise
        finally:
            run.stop()


class Run:
    """One run: the remaining units, those that leaders request, which come first, and those
    that threads run.
    """

    def __init__(self, work: str, units: Sequence[Unit], leaders: Leaders) -> None:
        self.n = budget.threads()
        self.pool = ThreadPoolExecutor(self.n, thread_name_prefix="tuskml unit")
        self.work, self.leaders = work, leaders
        self.left = deque(largest_first(units))
        self.asked: deque[Unit] = deque()
        self.running: dict[Future[Outcome], Unit] = {}
        self.cancelled = False

    def outcomes(self) -> Iterator[Outcome]:
        """Yields the outcomes of all units and leaders. Raises Interrupted."""
        mark = cancel_mark()
        self.leaders.begin()
        while self.left or self.running or self.asked or self.leaders.working:
            self.hand_out()
            self.leaders.wait(LOOK_SECONDS, self.some_done)
            raise_if_cancelled(mark)
            for future in [one for one in self.running if one.done()]:
                unit = self.running.pop(future)
                if unit.pin is None:
                    yield future.result()
                else:
                    self.leaders.settle(future.result())
            yield from self.leaders.outcomes()

    def hand_out(self) -> None:
        """Gives each free thread a unit."""
        self.asked.extend(self.leaders.take_requested())
        while len(self.running) < self.n and (self.asked or self.left):
            unit = self.asked.popleft() if self.asked else self.left.popleft()
            context = contextvars.copy_context()
            future = self.pool.submit(context.run, run_attempt, self.work, unit)
            self.running[future] = unit
            future.add_done_callback(lambda _: self.leaders.wake())

    def some_done(self) -> bool:
        """Returns whether a thread is free again."""
        return any(one.done() for one in self.running)

    def stop(self) -> None:
        """Ends the leaders, and waits for the threads' units."""
        self.leaders.close()
        self.pool.shutdown(wait=False, cancel_futures=True)
        while self.cancelled and not all(one.done() for one in self.running):
            cancel()  # a unit that began meanwhile has not seen the first one
            wait(self.running, LOOK_SECONDS)
        self.pool.shutdown(wait=True)


def run_attempt(work: str, unit: Unit) -> Outcome:
    """Runs a unit and returns its outcome."""
    begin = time.monotonic()
    with note_work(unit, "this process"):
        outcome = attempt(work, unit)
    if unit.pin is not None:
        leading.note(Ran(threading.current_thread().name, unit, begin, time.monotonic()))
    return outcome
