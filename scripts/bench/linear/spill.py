"""Rows beyond the budget: training on three times the connection's memory_limit against training
without a limit.

Measured: 10M rows x 28 float32 to a model, with an ample memory_limit and with a third of the
rows' bytes; the most bytes that lay in unlinked files at once; what is left in temp_directory
after the query and after kill -9 in its midst.
Against: tuskml itself.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import data
import goals
import harness
import tusk
from contender import Benchmark, Contender, Outcome, Run, Settings

FREE, LIMITED, KILLED = (
    "tuskml, no limit",
    "tuskml, a third of the rows' bytes",
    "tuskml, limited, kill -9",
)
OPTIONS = {"algorithm": "mgd", "batch_size": 32, "max_iter": 10, "epsilon": 0}
SQL = tusk.train_sql("x", OPTIONS, "data.big")


def row_bytes(settings: Settings) -> int:
    """The bytes of the features."""
    return settings.rows(10_000_000) * data.DIM * 4


def training(limited: bool, settings: Settings) -> Run:
    """A run of one training; the quality reports the bytes spilled and left."""
    folder = Path(tempfile.mkdtemp(prefix="spill-", dir=settings.data_dir))
    con = tusk.connect(data.big(settings), settings, **_config(limited, folder, settings))

    def run() -> Outcome:
        with SpillWatch("self", folder) as watch:
            outcome = tusk.training_run(con, SQL, lambda model: {"loss": model["loss"]})()
        left = len(list(folder.rglob("*")))
        shutil.rmtree(folder, ignore_errors=True)
        check = outcome.quality
        outcome.quality = lambda: check() | {"spilled MB": watch.most / 1e6, "files left": left}
        return outcome

    return run


def killed(settings: Settings) -> Run:
    """kill -9 as soon as the training has spilled; the seconds are those until the kill."""
    folder = Path(tempfile.mkdtemp(prefix="spill-", dir=settings.data_dir))
    victim = multiprocessing.get_context("spawn").Process(target=_victim, args=(settings, folder))

    def run() -> Outcome:
        start = time.perf_counter()
        victim.start()
        spilled = 0
        while victim.is_alive() and not spilled:
            time.sleep(0.01)
            spilled = _unlinked_bytes(str(victim.pid), folder)
        victim.kill()
        victim.join()
        seconds = time.perf_counter() - start
        left = len(list(folder.rglob("*")))
        shutil.rmtree(folder, ignore_errors=True)
        return Outcome(seconds, None, lambda: {"spilled MB": spilled / 1e6, "files left": left})

    return run


class SpillWatch:
    """Samples, from a thread, the bytes that a process maps from unlinked files of a folder."""

    def __init__(self, pid: str, folder: Path) -> None:
        self.most = 0
        self._pid, self._folder = pid, folder
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> SpillWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._done.wait(0.02):
            self.most = max(self.most, _unlinked_bytes(self._pid, self._folder))


def _unlinked_bytes(pid: str, folder: Path) -> int:
    """The size of the maps of deleted files under the folder."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return 0
    spans = [
        line.split(" ", 1)[0].split("-")
        for line in lines
        if str(folder) in line and "(deleted)" in line
    ]
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


def _victim(settings: Settings, folder: Path) -> None:
    con = tusk.connect(data.big(settings), settings, **_config(True, folder, settings))
    con.execute(SQL).fetchall()


def _config(limited: bool, folder: Path, settings: Settings) -> dict[str, str]:
    limit = row_bytes(settings) // 3 if limited else row_bytes(settings) * 8
    return {"temp_directory": str(folder), "memory_limit": f"{max(limit // 2**20, 64)}MiB"}


def benchmark(settings: Settings) -> Benchmark:
    """Training beyond the budget."""
    contenders = (
        Contender(FREE, partial(training, False), tusk.NEEDS),
        Contender(LIMITED, partial(training, True), tusk.NEEDS),
        Contender(KILLED, killed, tusk.NEEDS),
    )
    return Benchmark(
        name="spill",
        title="Training on three times the memory budget, 10M rows x 28 float32, 10 epochs",
        contenders=contenders,
        goals=(
            goals.slowdown_at_most(LIMITED, FREE, 3),
            *(goals.quality_at_most("files left", 0, of=one.name) for one in contenders),
        ),
        prepare=data.big,
        fresh=True,
    )


if __name__ == "__main__":
    harness.main(benchmark)
