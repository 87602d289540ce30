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
class Work:
    """What workers ran. units: of whole groups; groups: those trained by parts, and parts: of
    these; workers: those that ran something; n_bytes: of their inputs and answers.
    """

    units: int
    groups: int
    parts: int
    workers: int
    n_bytes: int

    def __str__(self) -> str:
        by_parts = f"{counted(self.groups, 'group')} in {counted(self.parts, 'part')}"
        ran = [counted(self.units, "unit")] if self.units or not self.groups else []
        ran += [by_parts] if self.groups else []
        return (
            f"{' and '.join(ran)} on {counted(self.workers, 'worker')}, with "
            f"{self.n_bytes / 1e6:,.2f} MB of messages"
        )


def counted(n: int, name: str) -> str:
    """A number of things, by their name in the singular."""
    return f"{n:,} {name}{'s' if n != 1 else ''}"


@dataclass(frozen=True)
class Execution:
    """The time of a training by group on a number of workers, estimated if it is explained or
    chosen by estimates; seconds: the actual time, or None.

    pilot: the basis of the estimates; estimates: of each approach, the shortest first; ran: the
    approach that ran, or would; chosen: the choice of placement 'auto'; work: what ran.
    """

    workers: int
    groups: int
    rows: int
    configurations: int
    pilot: Pilot | None = None
    estimates: tuple[Estimate, ...] = ()
    ran: str = "TP"
    seconds: float | None = None
    chosen: str = "TP"
    work: Work | None = None

    def __str__(self) -> str:
        about = (
            f"{self.rows:,} rows in {counted(self.groups, 'group')}, configurations: "
            f"{self.configurations}, workers: {self.workers:,}"
        )
        last = f"{self.ran} " + (
            "would run" if self.seconds is None else f"took {self.seconds:.3g} s"
        )
        for mine in self.estimates:  # switching has no estimate
            if mine.approach == self.ran:
                last += f", estimated {mine.seconds:.3g} s"
        ran = "" if self.work is None else f"\n{self.work}"
        if self.pilot is None:
            return f"{about}\n{last}{ran}"
        about += (
            f"; a pilot of {self.pilot.rows:,} rows took {self.pilot.seconds:.3g} s in "
            f"{self.pilot.passes} passes on one thread"
        )
        head = ["approach", "seconds", "compute", "load", "network", "idle", "worker-hours"]
        lines = [
            [one.approach, *(f"{x:.3g}" for x in seconds_of(one)), MEANINGS[one.approach]]
            for one in self.estimates
        ]
        last += f"; placement 'auto' takes {self.chosen}"
        return f"{about}\n{table([*head, ''], lines)}\n{last}{ran}"


def seconds_of(one: Estimate) -> list[float]:
    """Returns seconds of the call, seconds of all workers together, and paid hours."""
    hours = one.seconds * one.workers / 3600
    return [one.seconds, one.compute, one.load, one.network, one.idle, hours]
