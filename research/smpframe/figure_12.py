"""Figure 12: iterations in flight of the lasso on one worker behind a network with delays.

The product's program and engine. Messages take simulated seconds, computing takes the processor's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

from research import report
from research.report import Found
from research.smpframe.updates import Fit, correlated, train
from tuskml.learners.paths import scheduled

DELAY = 0.001
"""Seconds of a message."""


class Behind:
    """A worker whose messages take a time; a handle is a value and when it arrives.

    apart: seconds of waiting less those of the worker's computing, which do not delay the caller.
    """

    count = 1

    def __init__(self, program: Fit) -> None:
        self.program, self.apart, self.free = program, 0.0, 0.0

    def now(self) -> float:
        """The caller's clock."""
        return time.process_time() + self.apart

    def put(self, value: Any) -> Any:
        """The value."""
        return value

    def update(self, p: int, job: Any, part: Any) -> tuple[Any, float]:
        """Computes at once, by the worker's own clock."""
        arrives, began = self.now() + DELAY, time.process_time()
        value = self.program.update(p, job, self.program.rows, part)
        took = time.process_time() - began
        self.apart -= took
        self.free = max(self.free, arrives) + took
        return value, self.free + DELAY

    def local(self, p: int) -> tuple[Any, float]:
        """Nothing."""
        return None, 0.0

    def get(self, handles: Sequence[tuple[Any, float]]) -> list[Any]:
        """Waits for them."""
        for _, ready in handles:
            self.apart += max(0.0, ready - self.now())
        return [value for value, _ in handles]


class Delayed(Fit):
    """A fit whose worker is behind the network. took: its seconds with the delays."""

    def __enter__(self) -> Delayed:
        self.workers: Any = Behind(self)
        return self

    def run(self, gap: float) -> None:
        """Counts the seconds of updates, and not of passes over all features."""
        began = self.workers.now()
        super().run(gap)
        self.took = getattr(self, "took", 0.0) + self.workers.now() - began


def find(scale: float) -> Iterator[Found]:
    """Iterations a second, passes and seconds at depth 3 over those at depth 1."""
    data, fits = correlated(scale / 2), {}
    for depth in (1, 3):
        with patch.object(scheduled, "DEPTH", depth):
            fits[depth] = train(data, "dynamic", 32, Delayed)
    one, three = fits[1], fits[3]
    assert isinstance(one, Delayed)
    assert isinstance(three, Delayed)
    faster = three.counts.iterations / three.took / (one.counts.iterations / one.took)
    yield Found("12a: iterations a second, depth 3 over 1", "2.5", faster, least=2.5)
    more = three.passes / one.passes
    yield Found("12b: passes over the data, depth 3 over 1", "above 1", more, least=1.0)
    sooner = one.took / three.took
    yield Found("12c: seconds to converge, depth 1 over 3", "2", sooner, least=2.0)


if __name__ == "__main__":
    report.main(find)
