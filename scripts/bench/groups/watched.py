"""Facts on the workers of a run: busy and processor seconds, traffic with the driver, and memory.

Of threads, the processor seconds are those of the thread, so its units use one: `one_thread`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from tuskml.groups.execution import choosing, ray_cluster
from tuskml.groups.execution.executor import Unit
from tuskml.groups.execution.worker import Share, limit
from tuskml.schedule import budget

LOOK_SECONDS = 0.1


@dataclass
class Watched:
    """The facts of one run. busy: seconds of each worker; begin, end: of its units, by the
    monotonic clock; sent, received: bytes from and to the driver; peak: resident bytes of each
    worker's process; cpu: processor seconds of each worker since it started, and of the driver.
    """

    busy: dict[Any, float] = field(default_factory=dict)
    begin: float = 0.0
    end: float = 0.0
    sent: int = 0
    received: int = 0
    peak: dict[int, int] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    driver: float = 0.0

    def __str__(self) -> str:
        n, span = max(len(self.busy), 1), self.end - self.begin
        mean = sum(self.busy.values()) / n
        traffic = (self.sent + self.received) / n / 1e6
        peak = max(self.peak.values(), default=0) / 1e6
        return (
            f"makespan {span:.2f} s, {span / max(mean, 1e-9):.2f} times the mean of {n} workers' "
            f"busy time; processor seconds: {max(self.cpu.values(), default=0):.2f} of the "
            f"busiest, {sum(self.cpu.values()):.2f} of all, {self.driver:.2f} of the driver; "
            f"per worker {traffic:.2f} MB of messages, {peak:.0f} MB resident at most"
        )


@contextmanager
def watched() -> Iterator[Watched]:
    """Watches the runs inside."""
    found, done = Watched(), threading.Event()
    ended, given = ray_cluster.Run.end_task, ray_cluster.Run.deliver
    welcome, started = ray_cluster.Run.welcome, dict[str, float]()
    own, attempt = time.process_time(), choosing.run_attempt

    def note_thread(work: str, unit: Unit, thread: int) -> bytes:
        began, before = time.monotonic(), time.thread_time()
        answer = attempt(work, unit, thread)
        name, found.end = f"thread {thread}", time.monotonic()
        found.begin = found.begin or began
        found.busy[name] = found.busy.get(name, 0.0) + found.end - began
        found.cpu[name] = found.cpu.get(name, 0.0) + time.thread_time() - before
        found.sent += len(unit.payload)
        found.received += len(answer)
        return answer

    def note_start(run: Any, reference: Any) -> None:
        welcome(run, reference)
        for name in run.names.values():
            started.setdefault(name, processor_seconds(name))

    def note_end(run: Any, task: Any, how: str) -> None:
        now = time.monotonic()
        found.begin = found.begin or task.began
        found.end = now
        found.busy[task.worker] = found.busy.get(task.worker, 0.0) + now - task.began
        name = run.names[task.worker]
        found.cpu[name] = processor_seconds(name) - started[name]
        ended(run, task, how)

    def note_given(run: Any, unit: Any, outcome: Any) -> Any:
        found.sent += len(unit.payload)
        found.received += len(outcome.answer or b"")
        return given(run, unit, outcome)

    looking = threading.Thread(target=look, args=(found, done))
    ray_cluster.Run.end_task, ray_cluster.Run.deliver = note_end, note_given
    ray_cluster.Run.welcome, choosing.run_attempt = note_start, note_thread
    looking.start()
    try:
        yield found
    finally:
        ray_cluster.Run.end_task, ray_cluster.Run.deliver = ended, given
        ray_cluster.Run.welcome, choosing.run_attempt = welcome, attempt
        found.driver = time.process_time() - own
        found.driver -= sum(x for name, x in found.cpu.items() if name.startswith("thread"))
        done.set()
        looking.join()


def one_thread(workers: int) -> None:
    """Makes this process one of so many threads, each of which trains with one."""
    limit(Share(1))
    budget.threads = lambda asked=None: workers if asked is None else asked


def processor_seconds(name: str) -> float:
    """Processor seconds of a worker's process so far, by its name, "host (process 123)"."""
    times = psutil.Process(int(name.rpartition(" ")[2].rstrip(")"))).cpu_times()
    return float(times.user + times.system)


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
