"""Trainings at the same time in DuckDB, PostgreSQL or both, with shares of the cores and without.

    python scripts/bench/run.py sharing_databases --where duckdb postgres mixed --counts 2 4 8

Each training is a process's or a session's own. All are asked to begin together, in turn with
shares and without (`off`). rho is a training's time over N times that of the same one alone; the
greatest of a run counts, and the makespan is the time until the last one has ended. `--uneven 16`
lets the first of them ask for a given number of threads. The server shares the table of a group:
it runs as another account.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import machine
import psycopg

CLUSTER = Path(__file__).parents[3] / "tests" / "postgres" / "cluster.py"
PROCESS = """
import json, os, sys, time
import duckdb, psycopg, tuskml
where, rows = sys.argv[1], int(sys.argv[2])
if where == "duckdb":
    con = tuskml.connect()
    con.execute("SET enable_progress_bar = false")
    con.execute(
        "CREATE TABLE t AS SELECT hash(i, 99) % 2 AS y, "
        "[hash(i, j) % 1000 / 1000 FOR j IN range(28)]::FLOAT[] AS x "
        f"FROM range({rows}) r(i)"
    )
else:
    con = psycopg.connect(where, autocommit=True)
con.execute("SELECT train_model('logistic', y, x) FROM (SELECT * FROM t LIMIT 1000) s").fetchall()
pid = os.getpid() if where == "duckdb" else con.info.backend_pid
print("ready", flush=True)

def used():
    with open(f"/proc/{pid}/stat") as stat:
        return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf(2)

def shares(on):
    if where == "duckdb":
        con.execute(f"SELECT tuskml_set_shares({on})").fetchall()
    else:
        con.execute(f"SET tuskml.shares = {'on' if on else 'off'}")

for line in sys.stdin:
    on, options = line.strip().split(" ", 1)
    shares(on == "shares")
    before, began = used(), time.monotonic()
    con.execute(f"SELECT train_model('logistic', y, x, '{options}') FROM t").fetchall()
    print(json.dumps([began, time.monotonic(), used() - before]), flush=True)
"""
OPTIONS: dict[str, dict[str, Any]] = {
    "bgd": {"algorithm": "bgd", "epsilon": 0, "max_iter": 200},
    "newton": {"algorithm": "newton", "epsilon": 0, "max_iter": 60},
    "hogbatch": {"algorithm": "hogbatch", "epsilon": 0, "max_iter": 60},
}
ROWS = """
CREATE TABLE t AS SELECT abs(hashtext(i::text)) % 2 AS y,
    (SELECT array_agg((abs(hashtext(i::text || ':' || j)) % 1000 / 1000.0)::float4)
     FROM generate_series(1, 28) j) AS x
FROM generate_series(1, {rows}) i
"""
SETTINGS = ("shares", "off")


class Trainer:
    """A process that trains on request, in a DuckDB of its own or a server's session."""

    def __init__(self, where: str, rows: int, table: str) -> None:
        self.where = where
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, where, str(rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TUSKML_SHARES": table},
        )

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        found = self.process.stdout.readline()
        if not found:
            sys.exit("a training failed")
        return found

    def begin(self, setting: str, options: dict[str, Any]) -> None:
        """Lets it train once."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{setting} {json.dumps(options)}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Lets it go."""
        self.process.communicate()


@contextmanager
def served(rows: int) -> Iterator[tuple[str, str]]:
    """The connection string of a server that has a table of rows, and its table of shares.

    TUSKML_BENCH_POSTGRES and TUSKML_SHARES name them if a server already runs.
    """
    with ExitStack() as stack:
        given = os.environ.get("TUSKML_BENCH_POSTGRES")
        conninfo, table = given or "", os.environ.get("TUSKML_SHARES", "")
        if not given:
            conninfo, table = started(stack)
        with psycopg.connect(conninfo, autocommit=True) as con:
            con.execute("DROP TABLE IF EXISTS t")
            con.execute(ROWS.format(rows=rows))
            con.execute("VACUUM (ANALYZE, FREEZE) t")
        yield conninfo, table


def started(stack: ExitStack) -> tuple[str, str]:
    """Starts a server that ends with the stack."""
    spec = importlib.util.spec_from_file_location("cluster", CLUSTER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tuskml-"))
    cluster = stack.enter_context(module.private_cluster(Path(folder)))
    cluster.restart(shared_buffers="1GB", max_wal_size="4GB", autovacuum="off")
    table = cluster.folder / "shares"
    table.touch()
    if cluster.user:
        shutil.chown(table, cluster.user, cluster.user)
    table.chmod(0o660)
    return cluster.conninfo(module.TEMPLATE), str(table)


def main() -> None:
    """Prints a line per database, algorithm, number of trainings and setting."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--where", nargs="*", default=["duckdb", "postgres", "mixed"])
    parser.add_argument("--counts", nargs="*", type=int, default=[2, 4, 8])
    parser.add_argument("--algorithms", nargs="*", default=["bgd"])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--uneven", type=int, default=0)
    args = parser.parse_args()
    print(machine.sentence(machine.facts()), "load", os.getloadavg())
    with ExitStack() as stack:
        if args.where == ["duckdb"]:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tuskml-"))
            conninfo, table = "", str(Path(folder) / "table")
        else:
            conninfo, table = stack.enter_context(served(args.rows))
        for where in args.where:
            kinds = {"duckdb": ["duckdb"], "postgres": [conninfo], "mixed": ["duckdb", conninfo]}
            several = [kinds[where][i % len(kinds[where])] for i in range(max(args.counts))]
            trainers = [Trainer(one, args.rows, table) for one in several]
            for trainer in trainers:
                trainer.line()
            for algorithm in args.algorithms:
                report(where, algorithm, trainers, args)
            for trainer in trainers:
                trainer.end()


def report(where: str, algorithm: str, trainers: list[Trainer], args: argparse.Namespace) -> None:
    """Measures the settings in turn, and prints their medians."""
    options = OPTIONS[algorithm]
    alone: dict[str, float] = {}
    for trainer in {one.where: one for one in trainers[::-1]}.values():
        times = [together([trainer], "off", [options])[0][0] for _ in range(args.repeat)]
        alone[trainer.where] = statistics.median(times)
    print(f"{where}, {algorithm}: alone", ", ".join(f"{one:.2f} s" for one in alone.values()))
    for count in args.counts:
        found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in SETTINGS}
        asked = [options] * count
        if args.uneven:
            asked[0] = options | {"threads": args.uneven}
        for turn in range(args.repeat):
            for setting in SETTINGS if turn % 2 else SETTINGS[::-1]:
                seconds, makespan, used = together(trainers[:count], setting, asked)
                pairs = zip(seconds, trainers, strict=False)
                rho = max(one / alone[trainer.where] for one, trainer in pairs) / count
                found[setting].append((rho, makespan, used))
        told(count, found)


def told(count: int, found: dict[str, list[tuple[float, float, float]]]) -> None:
    """Prints the medians of one number of trainings, and of the quotients of makespans."""
    for name, runs in found.items():
        rho, makespan, used = (statistics.median(one) for one in zip(*runs, strict=True))
        print(
            f"  {count} trainings, {name}: max rho {rho:.2f}, makespan {makespan:.2f} s, "
            f"processors {used:.2f} s"
        )
    pairs = zip(*(found[name] for name in SETTINGS), strict=True)
    quotients = sorted(with_[1] / off[1] for with_, off in pairs)
    shown = ", ".join(f"{one:.2f}" for one in quotients)
    print(f"    makespan, shares / off: {statistics.median(quotients):.2f} of {shown}", flush=True)


def together(
    trainers: list[Trainer], setting: str, options: list[dict[str, Any]]
) -> tuple[list[float], float, float]:
    """Seconds of each training, from the first one's start to the last one's end, and of
    processors."""
    for trainer, one in zip(trainers, options, strict=True):
        trainer.begin(setting, one)
    times = [json.loads(trainer.line()) for trainer in trainers]
    began, ended, used = zip(*times, strict=True)
    return [b - a for a, b in zip(began, ended, strict=True)], max(ended) - min(began), sum(used)


if __name__ == "__main__":
    main()
