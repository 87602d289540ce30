"""The estimated and actual time of a training on workers."""

from dataclasses import dataclass

from tuskml.schedule.simulation import Estimate
from tuskml.text.table import table

MEANINGS = {
    "TP": "task parallelism: each group on one worker",
    "MTP": "task parallelism: each configuration of a group on one worker",
    "DP": "data parallelism: all workers on one configuration, waiting after each pass",
    "GAP": "gradient accumulation: large groups cut, sums added while others are trained",
}


@dataclass(frozen=True)
class Pilot:
    """Rows of a unit, its seconds on one thread, those of reading its rows, its passes, and the
    coefficients and features of its models.
    """

    rows: int
    seconds: float
    reading: float
    passes: int
    coefficients: int
    features: int


@dataclass(frozen=True)
class Execution:
    """Estimated time of a training by group on a number of workers; seconds: the actual time, or
    None.

    estimates: of each approach, the shortest first; ran: the approach that ran, or would; chosen:
    the choice of placement 'auto'.
    """

    workers: int
    groups: int
    rows: int
    configurations: int
    pilot: Pilot
    estimates: tuple[Estimate, ...]
    ran: str = "TP"
    seconds: float | None = None
    chosen: str = "TP"

    def __str__(self) -> str:
        pilot = self.pilot
        groups = f"{self.groups:,} group{'s' if self.groups != 1 else ''}"
        about = (
            f"{self.rows:,} rows in {groups}, configurations: {self.configurations}, "
            f"workers: {self.workers:,}; a pilot of {pilot.rows:,} rows took "
            f"{pilot.seconds:.3g} s in {pilot.passes} passes on one thread"
        )
        head = ["approach", "seconds", "compute", "load", "network", "idle", "worker-hours"]
        lines = [
            [one.approach, *(f"{x:.3g}" for x in seconds_of(one)), MEANINGS[one.approach]]
            for one in self.estimates
        ]
        last = f"{self.ran} " + (
            "would run" if self.seconds is None else f"took {self.seconds:.3g} s"
        )
        for mine in self.estimates:  # switching has no estimate
            if mine.approach == self.ran:
                last += f", estimated {mine.seconds:.3g} s"
        last += f"; placement 'auto' takes {self.chosen}"
        return f"{about}\n{table([*head, ''], lines)}\n{last}"


def seconds_of(one: Estimate) -> list[float]:
    """Returns seconds of the call, seconds of all workers together, and paid hours."""
    hours = one.seconds * one.workers / 3600
    return [one.seconds, one.compute, one.load, one.network, one.idle, hours]
