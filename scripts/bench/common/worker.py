"""One process a contender: no peer's thread pool, allocator or cache disturbs another, and memory
is its own.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import traceback
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from contender import Contender, Outcome, Settings

Reply = dict[str, Any]


class NotInstalled(Exception):
    """A library that the contender needs is not there."""


class NotConnected(Exception):
    """The side of tuskml that the contender needs does not exist yet."""


class Worker:
    """The parent's handle on the process of one contender."""

    def __init__(self, contender: Contender, settings: Settings) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(contender, settings, theirs))
        self._process.start()
        theirs.close()
        self.problem: str | None = self._receive().get("problem")

    def run(self, with_quality: bool) -> Reply:
        """One timed run; the reply has seconds, train, peak_bytes and quality, or problem."""
        self._pipe.send(with_quality)
        reply = self._receive()
        self.problem = reply.get("problem")
        return reply

    def close(self) -> None:
        """Ends the process, politely first."""
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        self._process.join(20)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self) -> Reply:
        try:
            reply: Reply = self._pipe.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            return {"problem": f"failed: the process ended with code {self._process.exitcode}"}
        return reply


def _serve(contender: Contender, settings: Settings, pipe: Connection) -> None:
    """The child: set up once, then run whenever the parent asks."""
    try:
        missing = [name for name in contender.needs if find_spec(name) is None]
        if missing:
            raise NotInstalled(f"not installed: {', '.join(missing)}")
        run = contender.setup(settings)
        pipe.send({})
        while (with_quality := pipe.recv()) is not None:
            pipe.send(_measure(run, with_quality))
    except EOFError:
        pass
    except (NotInstalled, NotConnected) as problem:
        pipe.send({"problem": str(problem)})
    except Exception as problem:
        traceback.print_exc()
        message = (str(problem).splitlines() or [""])[0]
        pipe.send({"problem": f"failed: {type(problem).__name__}: {message}"})


def _measure(run: Any, with_quality: bool) -> Reply:
    gc.collect()
    before = reset_peak()
    outcome: Outcome = run()
    peak = resident("VmHWM") - before if outcome.peak_bytes is None else outcome.peak_bytes
    quality = outcome.quality() if with_quality else {}
    return {
        "seconds": outcome.seconds,
        "train": outcome.train,
        "peak_bytes": peak,
        "quality": quality,
    }


def reset_peak(process: str = "self") -> int:
    """Resets a process's peak memory; returns the resident bytes."""
    try:
        Path(f"/proc/{process}/clear_refs").write_text("5")
    except OSError:
        return 0  # then the peak counts from the start of the process
    return resident("VmRSS", process)


def resident(field: str, process: str = "self") -> int:
    """A field of /proc/PID/status in bytes: VmRSS (now), VmHWM (highest), RssShmem (shared)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return 0
