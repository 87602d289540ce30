"""Which worker runs which unit of leaders: the one that holds what the unit needs.

A pin that no worker has goes to the next idle one that may take more: as long as workers start,
each takes no more than its equal share of all pins that are known, so that the first to start does
not end up with all of them. A worker that holds a pin and is busy is waited for.
"""

import time
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable

from tuskml.groups.execution.executor import Unit

PATIENCE_SECONDS = 15.0
"""For workers that start, before others take their share."""


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
        """What a worker holds. The one with the least takes first: the last to start gets some."""
        return self.held[worker]

    def add(self, units: Iterable[Unit]) -> None:
        """Units that wait from now on."""
        for unit in units:
            assert unit.pin is not None
            self.by_pin.setdefault(unit.pin, deque()).append(unit)
            self.sizes[unit.pin] = unit.size

    def take(self, worker: Hashable, workers: int, more_start: bool) -> Unit | None:
        """The next unit for one of the workers; None where there is none for it now."""
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
        """The other units of the same ask for which a worker holds what they need."""
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
        """A pin that nobody holds, which the worker holds from now on."""
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
        """A worker that is lost, with what it held."""
        self.holder = {pin: one for pin, one in self.holder.items() if one != worker}
        self.held.pop(worker, None)
