"""Costs from real runs: straight lines through what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.simulation import Costs


@dataclass(frozen=True)
class Measured:
    """A real run by group on workers of a machine with a given number of processors.

    rows, seconds: of each unit (U,) and what a worker took for it; is_first: whether it was its
    worker's first; first: seconds until the first unit began; first_units: by which the first unit
    of each worker was longer, on average; last: seconds from the end of the last unit to the end
    of the call; whole: seconds of the whole call.
    """

    workers: int
    processors: int
    rows: NDArray[np.int64]
    seconds: NDArray[np.float64]
    is_first: NDArray[np.bool_]
    first: float
    first_units: float
    last: float
    whole: float

    @property
    def crowd(self) -> float:
        """Number of workers that share a processor."""
        return max(1.0, self.workers / self.processors)


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Least squares with neither intercept nor slope below 0: (intercept, slope)."""
    given, found = np.asarray(x, float), np.asarray(y, float)
    if len(given) > 1 and np.ptp(given) > 0:
        slope, intercept = np.polyfit(given, found, 1)
        if slope >= 0 and intercept >= 0:
            return float(intercept), float(slope)
        if intercept < 0:
            return 0.0, max(0.0, float(found @ given / (given @ given)))
    return float(found.mean()), 0.0


@dataclass(frozen=True)
class Calibrated:
    """costs: of one worker with a processor of its own, but for their start; start, crowded:
    seconds until workers work, once and for each worker that shares a processor."""

    costs: Costs
    start: float
    crowded: float

    def of(self, workers: int, processors: int) -> Costs:
        """Costs with a number of workers on one or more machines with a number of processors."""
        crowd = max(1.0, workers / processors) if processors else 1.0
        return replace(
            self.costs,
            row=self.costs.row * crowd,
            byte=self.costs.byte * crowd,
            model=self.costs.model * crowd,
            task=self.costs.task * crowd,
            start=self.start + self.crowded * crowd,
        )


def calibrated(
    runs: Sequence[Measured],
    passes: int,
    exchange: tuple[float, float, float],
    reading: float = 0.0,
    row_bytes: float = 1.0,
) -> Calibrated:
    """Calibrates costs from runs with different numbers of workers.

    passes: of each training; exchange: dispatch, sync and send of `Costs`; reading: seconds of a
    row of a given number of bytes, which are part of a unit's.
    """
    rows = np.concatenate([run.rows[~run.is_first] for run in runs]).tolist()
    each = np.concatenate([run.seconds[~run.is_first] / run.crowd for run in runs]).tolist()
    task, row = line(rows, each)
    crowds = [run.crowd for run in runs]
    begins = [run.first + run.first_units + run.last for run in runs]
    start, crowded = line(crowds, begins)
    read = min(reading, row)
    costs = Costs((row - read) / passes, read / row_bytes, 0.0, task, *exchange, 0.0)
    return Calibrated(costs, start, crowded)
