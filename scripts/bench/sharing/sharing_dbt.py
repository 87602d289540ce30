"""dbt with four threads on forty models of DuckDB, with shares of the cores and without.

    python scripts/bench/run.py sharing_dbt --models 40 --threads 4 --repeat 5

Each model of the project trains one logistic regression on a table of its own. `off` takes no
part in shares; with `--asked 8` each model asks for a given number of threads, as projects do
that were written for a larger machine. The seconds are those of `dbt run` within its process,
without imports; of the same runs in turn.
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

import duckdb
import machine

PROJECT = """
name: forty
version: "0.1.0"
config-version: 2
profile: forty
model-paths: ["models"]
models:
  forty:
    +materialized: table
"""
PROFILE = """
forty:
  target: duckdb
  outputs:
    duckdb:
      type: duckdb
      path: forty.duckdb
      threads: {threads}
      plugins:
        - module: tuskml.dbt
"""
DRIVER = """
import json, sys, time
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
from dbt.cli.main import dbtRunner
import tuskml
for line in sys.stdin:
    began = time.monotonic()
    found = dbtRunner().invoke(json.loads(line))
    took = time.monotonic() - began
    DuckDBConnectionManager.close_all_connections()  # the file is for the other process
    rows = [one.execution_time for one in found.result.results] if found.success else []
    print("took", json.dumps([took, found.success, rows]), flush=True)
"""
TABLE = """
CREATE TABLE rows_{number} AS SELECT (hash(i, {number}) % 1000 / 1000 < x[1])::INT AS y, x
FROM (SELECT i, [hash(i, j, {number}) % 1000 / 1000 FOR j IN range(28)]::FLOAT[] AS x
      FROM range({rows}) r(i))
"""


def make(folder: Path, args: argparse.Namespace) -> None:
    """Makes a project of `given.models` models, and the file with their rows."""
    (folder / "models").mkdir()
    (folder / "dbt_project.yml").write_text(PROJECT)
    (folder / "profiles.yml").write_text(PROFILE.format(threads=args.threads))
    options = json.dumps(
        {"algorithm": args.algorithm, "epsilon": 0, "max_iter": args.iterations}
        | ({"threads": args.asked} if args.asked else {})
    )
    with duckdb.connect(str(folder / "forty.duckdb")) as con:
        for number in range(args.models):
            con.execute(TABLE.format(number=number, rows=args.rows))
            text = f"SELECT train_model('logistic', y, x, '{options}') AS model FROM rows_{number}"
            (folder / "models" / f"model_{number}.sql").write_text(text)


class Dbt:
    """A process that runs dbt on request."""

    def __init__(self, folder: Path, table: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=folder,
            env=os.environ | {"TUSKML_SHARES": table, "DBT_SEND_ANONYMOUS_USAGE_STATS": "0"},
        )

    def run(self) -> tuple[float, list[float]]:
        """Seconds of a run, and of each of its models."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        arguments = ["--quiet", "run", "--profiles-dir", "."]
        self.process.stdin.write(json.dumps(arguments) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("took "):
                took, success, rows = json.loads(line.removeprefix("took "))
                if not success:
                    break
                return took, rows
            print(line, end="")
        sys.exit("dbt failed")

    def end(self) -> None:
        """Lets it go."""
        self.process.communicate()


def main() -> None:
    """Prints the medians of both settings and of their quotients."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--algorithm", default="bgd")
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--asked", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    print(machine.sentence(machine.facts()), "load", os.getloadavg())
    with tempfile.TemporaryDirectory(prefix="tuskml-") as name:
        folder = Path(name)
        make(folder, args)
        tables = {"shares": str(folder / "table"), "off": "off"}
        found: dict[str, list[float]] = {name: [] for name in tables}
        runs = {setting: Dbt(folder, table) for setting, table in tables.items()}
        for dbt in runs.values():
            dbt.run()  # which reads the project
        for turn in range(args.repeat):
            for setting in list(tables) if turn % 2 else list(tables)[::-1]:
                took, rows = runs[setting].run()
                found[setting].append(took)
                each = statistics.median(rows)
                print(f"{setting}: {took:.2f} s, a model {each:.2f} s", flush=True)
        for dbt in runs.values():
            dbt.end()
        for setting, times in found.items():
            print(f"{setting}: median {statistics.median(times):.2f} s")
        pairs = sorted(b / a for a, b in zip(found["shares"], found["off"], strict=True))
        shown = ", ".join(f"{one:.2f}" for one in pairs)
        print(f"off / shares: {statistics.median(pairs):.2f} of {shown} (asked: 1.15)")


if __name__ == "__main__":
    main()
