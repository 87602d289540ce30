"""Limits of a worker's silence and of its work's duration.

Each worker is polled repeatedly, and answers while it computes. A process that is stopped, or
whose machine hangs, does not answer. Time in which this process itself is suspended, such as on a
sleeping laptop, does not count.
"""

import time
from typing import Any

from tuskml.errors import OptionError

LOOKS = 4
"""Polls of a worker within the time that it may be silent."""
MOST_STEP = 1.0
"""Seconds between two looks of which no more count."""


class Clock:
    """Seconds in which this process ran."""

    def __init__(self) -> None:
        self.now = 0.0
        self._last = time.monotonic()

    def tick(self) -> float:
        """Looks at the time, and says how much of it counts so far."""
        now = time.monotonic()
        self.now += min(now - self._last, MOST_STEP)
        self._last = now
        return self.now


class Pulses:
    """The pulses of all workers that have work. silent: seconds after which one is given up."""

    def __init__(self, silent: float) -> None:
        self.clock = Clock()
        self.silent = silent
        self._heard: dict[Any, float] = {}
        self._asked: dict[Any, Any] = {}
        """Workers by the reference of the answer that is awaited."""
        self._done: dict[Any, float] = {}
        """Since when answers are there, and not here."""
        self._looked = 0.0

    def begin(self, worker: Any) -> None:
        """Starts the pulse of a worker with new work."""
        self._heard[worker] = self.clock.now

    def end(self, worker: Any) -> None:
        """Records that the worker is idle, or gone."""
        self._heard.pop(worker, None)
        for reference in [ref for ref, one in self._asked.items() if one is worker]:
            del self._asked[reference]

    def ask(self) -> list[Any]:
        """Asks those that are due, and returns the references of all answers that are awaited."""
        now, waiting = self.clock.tick(), set(map(id, self._asked.values()))
        for worker, heard in self._heard.items():
            if id(worker) not in waiting and now >= heard + self.silent / LOOKS:
                self._asked[worker.alive.remote()] = worker
        return list(self._asked)

    def take(self, reference: Any) -> bool:
        """Returns whether this is such an answer. One that is an error is heard of by its work
        too.
        """
        worker = self._asked.pop(reference, None)
        if worker in self._heard:
            self._heard[worker] = self.clock.now
        return worker is not None

    def is_silent(self, worker: Any) -> bool:
        """Returns whether it was last heard of too long ago."""
        return self.clock.now > self._heard.get(worker, self.clock.now) + self.silent

    def find_unfetched(self, ray: Any, references: list[Any]) -> list[Any]:
        """Answers that exist for long and do not come, as where their file on a disk is lost: Ray
        looks for such a file without end.
        """
        now = self.clock.now
        if references and now >= self._looked + MOST_STEP:
            self._looked, n = now, len(references)
            done, _ = ray.wait(references, num_returns=n, timeout=0, fetch_local=False)
            self._done = {one: self._done.get(one, now) for one in done}
        return [one for one in references if now > self._done.get(one, now) + self.silent]


def check_timeout(given: object) -> float | None:
    """The argument `worker_timeout`, in seconds. Raises OptionError."""
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise OptionError(
            f"worker_timeout is {given!r}, expected a number of seconds above 0, such as 600"
        )
    return float(given)
