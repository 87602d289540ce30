"""A large group in PostgreSQL: 5M x 28 float8, more than 1 GB of rows in one group.

Not among those that run.py runs by itself: ask for it by name, with --scale 2.2 for 11M rows.
Measured: SELECT train_model('logistic', y, x) ungrouped, with and without parallel workers, with
all rows in memory, and GROUP BY g where one group has all but every 1,000th row. Spilled MB is the
most that backend and workers had mapped of files in the server's temporary folder, private MB the
most anonymous memory of them all.
Against: the same statement in DuckDB; sum(x[28]), the floor of a scan.
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import data
import harness
import postgres_server as server
import tusk
from contender import TUSKML, Benchmark, Contender, Outcome, Run, Settings
from worker import resident

TRAIN = "SELECT train_model('logistic', y, x) AS m FROM {table}"
SCAN = f"SELECT sum(x[{data.DIM}]) FROM dense"
DUCKDB = "tuskml in DuckDB"
ROOM: server.Options = {"tuskml.memory_limit": "16GB"}


class Watch:
    """Samples, from a thread, the memory and the temporary files of a backend and its workers."""

    def __init__(self, session: server.Session) -> None:
        self.private = self.spilled = 0
        self._pid = session.pid
        place = session.connection.execute("SHOW data_directory").fetchone()[0]
        self._folder = Path(place) / "base" / "pgsql_tmp"
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def left(self) -> int:
        """The number of files in the temporary folder."""
        return len(list(self._folder.rglob("*")))

    def _sample(self) -> None:
        while not self._done.wait(0.02):
            team = [self._pid, *_workers(self._pid)]
            self.private = max(self.private, sum(_field("RssAnon", pid) for pid in team))
            self.spilled = max(self.spilled, sum(_mapped(pid, self._folder) for pid in team))


def _workers(leader: str) -> list[str]:
    """The parallel workers of a backend, by their titles among the server's processes."""
    try:
        fields = Path(f"/proc/{leader}/stat").read_text().rpartition(")")[2].split()
        parent = fields[1]
        siblings = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except OSError:
        return []
    return [pid for pid in siblings if f"parallel worker for PID {leader} " in _title(pid)]


def _title(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text() + " "
    except OSError:
        return ""


def _mapped(pid: str, folder: Path) -> int:
    """The size of a process's maps of files under the folder, removed ones too."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return 0
    spans = [line.split(" ", 1)[0].split("-") for line in lines if str(folder) in line]
    return sum(int(end, 16) - int(start, 16) for start, end in spans)


def _field(name: str, pid: str) -> int:
    try:
        return resident(name, pid)
    except OSError:
        return 0


def statement(sql: str, options: server.Options, settings: Settings) -> Run:
    """A run of one statement, watched."""
    session = server.Session(settings, **options)

    def run() -> Outcome:
        with Watch(session) as watch:
            rows, outcome = session.timed(sql)
        facts: dict[str, float | str] = {
            "spilled MB": watch.spilled / 1e6,
            "private MB": watch.private / 1e6,
            "files left": watch.left(),
        }
        if "train_model" in sql:
            model = max((row[0] for row in rows), key=lambda m: m.n_rows)
            outcome.train = model.seconds
            facts |= {"rows": model.n_rows, "loss": model.loss, "status": model.status}
        outcome.quality = lambda: facts
        return outcome

    return run


def duckdb(settings: Settings) -> Run:
    """A run of the same statement on the same rows in DuckDB."""
    con = tusk.connect(data.double_big(settings), settings)
    sql = TRAIN.format(table="data.dense")
    return tusk.training_run(con, sql, lambda m: {"loss": m["loss"], "rows": m["n_rows"]})


def prepare(settings: Settings) -> None:
    """The rows in DuckDB's file and in PostgreSQL."""
    server.load(data.double_big(settings), "dense", server.DENSE)


def benchmark(settings: Settings) -> Benchmark:
    """Large groups."""
    train = TRAIN.format(table="dense")
    runs = {
        TUSKML: partial(statement, train, {}),
        "tuskml, no parallel workers": partial(statement, train, server.ALONE),
        "tuskml, all in memory": partial(statement, train, ROOM),
        "tuskml, all in memory, no parallel workers": partial(
            statement, train, {**ROOM, **server.ALONE}
        ),
        "tuskml, GROUP BY": partial(statement, f"{train} GROUP BY g", {}),
        "floor: sum(x[28])": partial(statement, SCAN, {}),
    }
    return Benchmark(
        name="postgres_large",
        title=f"PostgreSQL: one group of {settings.rows(5_000_000):,} rows x 28 float8, logistic",
        contenders=(
            *(Contender(name, setup, server.NEEDS) for name, setup in runs.items()),
            Contender(DUCKDB, duckdb, tusk.NEEDS),
        ),
        goals=(),
        prepare=prepare,
        around=server.serve,
        fresh=True,
    )


if __name__ == "__main__":
    harness.main(benchmark)
