"""Facts on the workers of a run on Ray: busy seconds, traffic with the driver, and peak memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from tuskml.groups.execution import ray_cluster

LOOK_SECONDS = 0.1


@dataclass
class Watched:
    """The facts of one run. busy: seconds of each worker; begin, end: of its units, by the
    monotonic clock; sent, received: bytes from and to the driver; peak: resident bytes of each
    worker's process.
    """

    busy: dict[Any, float] = field(default_factory=dict)
    begin: float = 0.0
    end: float = 0.0
    sent: int = 0
    received: int = 0
    peak: dict[int, int] = field(default_factory=dict)

    def __str__(self) -> str:
        n, span = max(len(self.busy), 1), self.end - self.begin
        mean = sum(self.busy.values()) / n
        traffic = (self.sent + self.received) / n / 1e6
        peak = max(self.peak.values(), default=0) / 1e6
        return (
            f"makespan {span:.2f} s, {span / max(mean, 1e-9):.2f} times the mean of {n} workers' "
            f"busy time; per worker {traffic:.2f} MB of messages, {peak:.0f} MB resident at most"
        )


@contextmanager
def watched() -> Iterator[Watched]:
    """Watches the runs inside."""
    found, done = Watched(), threading.Event()
    ended, given = ray_cluster.Run.end_task, ray_cluster.Run.deliver

    def note_end(run: Any, task: Any, how: str) -> None:
        now = time.monotonic()
        found.begin = found.begin or task.began
        found.end = now
        found.busy[task.worker] = found.busy.get(task.worker, 0.0) + now - task.began
        ended(run, task, how)

    def note_given(run: Any, unit: Any, outcome: Any) -> Any:
        found.sent += len(unit.payload)
        found.received += len(outcome.answer or b"")
        return given(run, unit, outcome)

    looking = threading.Thread(target=look, args=(found, done))
    ray_cluster.Run.end_task, ray_cluster.Run.deliver = note_end, note_given
    looking.start()
    try:
        yield found
    finally:
        ray_cluster.Run.end_task, ray_cluster.Run.deliver = ended, given
        done.set()
        looking.join()


def look(found: Watched, done: threading.Event) -> None:
    """Notes the memory of the workers' processes until it is done."""
    while not done.wait(LOOK_SECONDS):
        for process in psutil.Process().children(recursive=True):
            try:
                if "ray::Worker" in " ".join(process.cmdline()):
                    before = found.peak.get(process.pid, 0)
                    found.peak[process.pid] = max(before, process.memory_info().rss)
            except psutil.Error:
                continue
