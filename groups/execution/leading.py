"""Trainings that are led from this process, and whose sums workers compute.

A leader is a function that trains one group. It runs in a thread of this process, requests units,
waits for their answers, and requests the next ones. Meanwhile workers continue with units of other
leaders: partial sums travel when they are ready, and no barrier holds all workers.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2: gradient accumulation parallelism (GAP).
"""

import contextvars
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
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


Place = Callable[[int], Mapping[str, int]]
"""Returns the worker, from 0, that is to hold the data of each pin, of so many workers."""


def nowhere(_: int) -> Mapping[str, int]:
    """Places no pin."""
    return {}


class Leaders:
    """The leaders of one run, by the keys of their outcomes, and their requests.

    at_once: how many lead at the same time; place: where the pins of their units are to be.
    Threads of the leaders call `ask`; the executor's own thread calls the rest.
    """

    def __init__(
        self, leaders: Mapping[str, Leader], at_once: int, place: Place = nowhere
    ) -> None:
        self.leaders, self.place = dict(leaders), place
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

    def take_requested(self) -> list[Unit]:
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


# Units of leaders go to the workers that hold their data.
#
# A pin goes to the worker in its place, which the first worker takes that is idle. As long as
# workers start, the pins of a place without a worker wait for one; then any worker takes them. A
# unit waits for a busy worker that holds its pin.

PATIENCE_SECONDS = 15.0
"""Seconds to wait for starting workers, before others take their share."""

NO_PLACE = -1
"""Of a worker beyond the number that was expected."""


class Pins:
    """Units that wait, by pin, and the workers that hold pins.

    place: as of `Leaders`; workers: the number of places. A pin without one gets that of the
    fewest rows.
    """

    def __init__(self, place: Place, workers: int) -> None:
        self.by_pin: dict[str, deque[Unit]] = {}
        self.places = dict(place(max(workers, 1)))
        self.rows_there = [0.0] * max(workers, 1)
        self.seats: dict[Hashable, int] = {}
        """The place of each worker."""
        self.holder: dict[str, Hashable] = {}
        self.sizes: dict[str, float] = {}
        self.held: dict[Hashable, float] = defaultdict(float)
        self.began = time.monotonic()

    @property
    def waiting(self) -> bool:
        """Returns whether a unit waits."""
        return bool(self.by_pin)

    def rows(self, worker: Hashable) -> float:
        """The rows that a worker holds. The one with the fewest takes first, so that late
        workers get some.
        """
        return self.held[worker]

    def add(self, units: Iterable[Unit]) -> None:
        """Units that wait from now on."""
        for unit in units:
            assert unit.pin is not None
            self.by_pin.setdefault(unit.pin, deque()).append(unit)
            if unit.pin not in self.sizes:
                self.sizes[unit.pin] = unit.size
                fewest = self.rows_there.index(min(self.rows_there))
                self.rows_there[self.places.setdefault(unit.pin, fewest)] += unit.size

    def take(self, worker: Hashable, more_start: bool) -> Unit | None:
        """The next unit for one of the workers; None if there is none for it now."""
        mine = next((pin for pin in self.by_pin if self.holder.get(pin) == worker), None)
        if mine is None:
            mine = self.free(worker, more_start)
        if mine is None:
            return None
        waiting = self.by_pin[mine]
        unit = waiting.popleft()
        if not waiting:
            del self.by_pin[mine]
        return unit

    def beside(self, worker: Hashable, unit: Unit) -> list[Unit]:
        """The other units of the same ask whose data the worker holds."""
        if unit.together is None:
            return []
        alike = [
            pin
            for pin, waiting in self.by_pin.items()
            if self.holder.get(pin) == worker and waiting[0].ask == unit.ask
        ]
        found = []
        for pin in alike:
            found.append(self.by_pin[pin].popleft())
            if not self.by_pin[pin]:
                del self.by_pin[pin]
        return found

    def free(self, worker: Hashable, more_start: bool) -> str | None:
        """Assigns a free pin to the worker, and returns it."""
        taken = set(self.seats.values())
        if worker not in self.seats:
            left = (place for place in range(len(self.rows_there)) if place not in taken)
            self.seats[worker] = next(left, NO_PLACE)
        seat = self.seats[worker]
        free = [pin for pin in self.by_pin if pin not in self.holder]
        found = [pin for pin in free if self.places[pin] == seat]
        patient = more_start and time.monotonic() < self.began + PATIENCE_SECONDS
        if not found and not patient:
            found = [pin for pin in free if self.places[pin] not in self.seats.values()]
        if not found:
            return None
        self.holder[found[0]] = worker
        self.held[worker] += self.sizes[found[0]]
        return found[0]

    def move(self, unit: Unit, worker: Hashable) -> None:
        """Pins whose worker is slow go to another one, from the next unit on."""
        for one in unit.each:
            assert one.pin is not None
            before = self.holder.get(one.pin)
            if before is not None:  # else its worker was lost, and a slow one has the unit still
                self.held[before] -= one.size
            self.holder[one.pin] = worker
            self.held[worker] += one.size

    def forget(self, worker: Hashable) -> None:
        """Removes a lost worker, with its pins."""
        self.holder = {pin: one for pin, one in self.holder.items() if one != worker}
        self.held.pop(worker, None)
        self.seats.pop(worker, None)
