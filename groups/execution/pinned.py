"""Assigns units of leaders to the workers that hold their data.

A pin without a worker goes to the next idle one that may take more: as long as workers start, each
takes at most its equal share of all known pins, so that the first to start does not get all of
them. A unit waits for a busy worker that holds its pin.
"""

import time
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable

from tuskml.groups.execution.executor import Unit

PATIENCE_SECONDS = 15.0
"""Seconds to wait for starting workers, before others take their share."""


class Pins:
    """Units that wait, by pin, and the workers that hold pins."""

    def __init__(self) -> None:
        self.by_pin: dict[str, deque[Unit]] = {}
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
            self.sizes[unit.pin] = unit.size

    def take(self, worker: Hashable, workers: int, more_start: bool) -> Unit | None:
        """The next unit for one of the workers; None if there is none for it now."""
        mine = next((pin for pin in self.by_pin if self.holder.get(pin) == worker), None)
        if mine is None:
            mine = self.free(worker, workers, more_start)
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

    def free(self, worker: Hashable, workers: int, more_start: bool) -> str | None:
        """Assigns a free pin to the worker, and returns it."""
        found = [pin for pin in self.by_pin if pin not in self.holder]
        if not found:
            return None
        share = sum(self.sizes.values()) / max(workers, 1)
        patient = more_start and time.monotonic() < self.began + PATIENCE_SECONDS
        if patient and self.held[worker] >= share:
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
