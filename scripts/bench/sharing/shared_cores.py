"""Trainings at the same time, with shares of the cores and without (Mahajan 2021, chapter 2).

Processes connect to DuckDB, pack the same rows, and begin to train together. rho is the time of
the slowest training over its ideal one, which is N times the time of a training alone: with a fair
share of the machine none takes longer. The makespan is the time until the last one has ended.

    python scripts/bench/run.py shared_cores --counts 2,4,8 --repeat 5
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import machine

PROCESS = """
import json, os, sys, time
import tuskml
rows, options = int(sys.argv[1]), sys.argv[2]
con = tuskml.connect()
con.execute("SET enable_progress_bar = false")
con.execute(
    "CREATE TABLE t AS SELECT hash(i, 99) % 2 AS y, "
    "[hash(i, j) % 1000 / 1000 FOR j IN range(28)]::FLOAT[] AS x "
    f"FROM range({rows}) r(i)"
)
con.execute("SELECT train_model('logistic', y, x) FROM (FROM t LIMIT 1000)").fetchall()
print("ready", flush=True)
for line in sys.stdin:
    began = time.monotonic()
    con.execute(f"SELECT train_model('logistic', y, x, '{options}') FROM t").fetchall()
    print(json.dumps([began, time.monotonic()]), flush=True)
"""
OPTIONS = {
    "bgd": '{"algorithm": "bgd", "epsilon": 0, "max_iter": 200}',
    "newton": '{"algorithm": "newton", "epsilon": 0, "max_iter": 60}',
    "hogbatch": '{"algorithm": "hogbatch", "epsilon": 0, "max_iter": 60}',
}


class Trainer:
    """A process that trains on request."""

    def __init__(self, rows: int, options: str, table: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(rows), options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"TUSKML_SHARES": table},
        )
        self.line()

    def line(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def begin(self) -> None:
        """Lets it train once."""
        assert self.process.stdin is not None
        self.process.stdin.write("train\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Lets it go."""
        self.process.communicate()


def main() -> None:
    """Prints a line per algorithm, number of trainings and setting."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--counts", default="2,4,8")
    parser.add_argument("--algorithms", default=",".join(OPTIONS))
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    counts = [int(count) for count in args.counts.split(",")]
    print(machine.sentence(machine.facts()), "load", os.getloadavg())
    with tempfile.TemporaryDirectory(prefix="tuskml-") as folder:
        for algorithm in args.algorithms.split(","):
            tables = {"shares": str(Path(folder) / "table"), "off": "off"}
            trainers = {
                name: [Trainer(args.rows, OPTIONS[algorithm], table) for _ in range(max(counts))]
                for name, table in tables.items()
            }
            report(algorithm, trainers, counts, args.repeat)
            for trainer in (*trainers["shares"], *trainers["off"]):
                trainer.end()


def report(
    algorithm: str, trainers: dict[str, list[Trainer]], counts: list[int], repeat: int
) -> None:
    """Measures the settings in turn, and prints their medians."""
    alone = statistics.median(together(trainers["off"][:1])[0] for _ in range(repeat))
    print(f"{algorithm}: a training alone takes {alone:.2f} s")
    for count in counts:
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in trainers}
        for _ in range(repeat):
            for name, some in trainers.items():
                found[name].append(together(some[:count]))
        for name, times in found.items():
            slowest, makespan = (statistics.median(one) for one in zip(*times, strict=True))
            print(
                f"  {count} trainings, {name}: max rho {slowest / (count * alone):.2f}, "
                f"makespan {makespan:.2f} s"
            )


def together(trainers: list[Trainer]) -> tuple[float, float]:
    """Seconds of the slowest training, and from the first one's start to the last one's end."""
    for trainer in trainers:
        trainer.begin()
    times = [json.loads(trainer.line()) for trainer in trainers]
    began, ended = zip(*times, strict=True)
    return max(b - a for a, b in times), max(ended) - min(began)


if __name__ == "__main__":
    main()
