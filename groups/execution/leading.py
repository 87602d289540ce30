"""Trainings that are led from this process, and whose sums workers compute.

A leader is a function that trains one group. It runs in a thread of this process, requests units,
waits for their answers, and requests the next ones. Meanwhile workers continue with units of other
leaders: partial sums travel when they are ready, and no barrier holds all workers.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2: gradient accumulation parallelism (GAP).
"""

import contextvars
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

from tuskml.errors import ClusterError, Interrupted, RowsError, TuskError
from tuskml.groups.execution.executor import ROWS, Outcome, Unit

Leader = Callable[["Leaders"], bytes]
"""Returns the answer of the group; it asks by `Leaders.ask`."""


@dataclass(frozen=True)
class Ran:
    """A unit that a worker ran from begin to end, of the monotonic clock."""

    worker: str
    unit: Unit
    begin: float
    end: float


def unheard(_: Ran) -> None:
    """Ignores an event."""


heard: list[Callable[[Ran], None]] = [unheard]
"""Listeners for units of leaders that workers ran; tests check their order."""


def note(ran: Ran) -> None:
    """Tells who hears, of units that ran one after another of each."""
    units = ran.unit.each
    ends = [ran.begin + (ran.end - ran.begin) * n / len(units) for n in range(len(units) + 1)]
    for unit, (begin, end) in zip(units, pairwise(ends), strict=True):
        for hear in heard:
            hear(replace(ran, unit=unit, begin=begin, end=min(end, ran.end)))


class Leaders:
    """The leaders of one run, by the keys of their outcomes, and their requests.

    at_once: how many lead at the same time. Threads of the leaders call `ask`; the executor's own
    thread calls the rest.
    """

    def __init__(self, leaders: Mapping[str, Leader], at_once: int) -> None:
        self.leaders = dict(leaders)
        self._pool = ThreadPoolExecutor(max(1, at_once), thread_name_prefix="tuskml leader")
        self._change = threading.Condition()
        self._asked: deque[Unit] = deque()
        self._answers: dict[str, Outcome | None] = {}
        self._done: deque[Outcome] = deque()
        self._leading = 0
        self._count = self._asks = 0
        self._closed: str | None = None

    def begin(self) -> None:
        """Starts them."""
        self._leading = len(self.leaders)
        for key, leader in self.leaders.items():
            self._pool.submit(contextvars.copy_context().run, self._lead, key, leader)

    def _lead(self, key: str, leader: Leader) -> None:
        outcome = Outcome(key, None, "the training was interrupted")
        try:
            if self._closed is None:
                outcome = Outcome(key, leader(self))
        except TuskError as error:
            outcome = Outcome(key, None, str(error))
        except Exception as error:
            why = f"{type(error).__name__}: {' '.join(str(error).split())}"
            outcome = Outcome(key, None, why)
        finally:
            with self._change:
                self._done.append(outcome)
                self._leading -= 1
                self._change.notify_all()

    def ask(self, units: Sequence[Unit]) -> list[bytes]:
        """Their answers, in their order. ClusterError with one of their errors; Interrupted."""
        with self._change:
            mine, self._asks = [], self._asks + 1
            for unit in units:
                self._count += 1
                mine.append(replace(unit, key=f"{unit.key}/{self._count}", ask=self._asks))
            self._answers.update({one.key: None for one in mine})
            self._asked.extend(mine)
            self._change.notify_all()
            self._change.wait_for(lambda: self._closed is not None or self._all_there(mine))
            if self._closed is not None:
                raise Interrupted(self._closed)
            found = [self._answers.pop(one.key) for one in mine]
        for one in found:
            assert one is not None
            if one.answer is None and (one.error or "").startswith(ROWS):
                raise RowsError((one.error or "").removeprefix(ROWS))
            if one.answer is None:
                raise ClusterError(one.error or "a worker failed")
        return [one.answer for one in found if one is not None and one.answer is not None]

    def _all_there(self, units: Sequence[Unit]) -> bool:
        return all(self._answers[one.key] is not None for one in units)

    @property
    def working(self) -> bool:
        """Returns whether some leaders still run, or have outcomes that were not taken."""
        with self._change:
            return self._leading > 0 or bool(self._done)

    def taken(self) -> list[Unit]:
        """Units that were requested since the last call."""
        with self._change:
            found = list(self._asked)
            self._asked.clear()
        return found

    def settle(self, outcome: Outcome) -> None:
        """Passes an answer to its leader; of a unit that ran twice the first one counts."""
        with self._change:
            if self._answers.get(outcome.key, outcome) is None:
                self._answers[outcome.key] = outcome
                self._change.notify_all()

    def wants(self, key: str) -> bool:
        """Returns whether a unit of this key still waits for its answer."""
        with self._change:
            return self._answers.get(key, outcome_of_none) is None

    def outcomes(self) -> list[Outcome]:
        """Returns the outcomes of leaders that ended since the last call."""
        with self._change:
            found = list(self._done)
            self._done.clear()
        return found

    def wait(self, seconds: float, also: Callable[[], bool] = lambda: False) -> None:
        """Waits until there is something to take, or `also` holds, which `wake` checks."""
        with self._change:
            self._change.wait_for(lambda: self._asked or self._done or also(), seconds)

    def wake(self) -> None:
        """Makes `wait` test its condition again."""
        with self._change:
            self._change.notify_all()

    def close(self) -> None:
        """Ends all leaders that still wait."""
        with self._change:
            self._closed = "the training was interrupted"
            self._change.notify_all()
        self._pool.shutdown(wait=True, cancel_futures=True)


outcome_of_none = Outcome("", None)


def none() -> Leaders:
    """Returns leaders of no training."""
    return Leaders({}, 1)
