"""The possible gain of re-planning: seconds of each plan with two threads, with one, and from the
disk.

    python scripts/bench/run.py plans_by_resources --megabytes 40

Rows are spilled. `disk` is a memory cgroup that has room for a part of them alone, so that each
pass reads rows from the disk. The bound of two resources is the most that a switch between them
gains where it costs nothing: the time of the plan that is best with the one, over the time of the
best plan, both with the other.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import machine
import memory_group
import numpy as np
import pyarrow as pa

import tuskml

PROBLEMS = (
    (28, 0.5, "logistic", {}),
    (100, 0.5, "logistic", {}),
    (250, 0.0, "logistic", {}),
    (150, 0.5, "logistic", {}),
    (250, 0.5, "logistic", {}),
    (100, 0.5, "huber", {}),
    (60, 0.5, "poisson", {}),
    (250, 0.7, "logistic", {"l2": 0.001}),
)
"""Features, correlation of neighbouring ones, task and options."""
PLANS = ("newton", "newton_cg", "lbfgs", "bgd")
RESOURCES = ("2 threads", "1 thread", "disk")
MOST = 2.5
"""Times the seconds of the best plan, beyond which a plan is not run from the disk."""
SPILLED_FROM, ROOM = 0.1, 0.8
"""Share of the rows for which DuckDB's setting leaves memory, and for which the cgroup does."""
UNLIMITED = 1 << 40


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=40, help="of rows")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--problems", default="0,1,2,3,4,5,6,7")
    parser.add_argument("--folder", default=None, help="where rows are spilled to")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(PROBLEMS[int(args.one[0])], Path(args.one[1]), args)))
        return
    print(machine.sentence(machine.facts()), "load", os.getloadavg())
    for problem, found in each_in_a_group("plans_by_resources", args.problems):
        shown(problem, found)


def each_in_a_group(benchmark: str, problems: str) -> Iterator[tuple[Any, Any]]:
    """Yields the output of a benchmark's --one for each of these problems, in a process and a
    memory cgroup of its own; problems: numbers with commas between.
    """
    run = str(Path(__file__).resolve().parents[1] / "run.py")
    for number in map(int, problems.split(",")):
        with memory_group.limited(UNLIMITED) as group:
            command = [sys.executable, run, benchmark, *sys.argv[1:]]
            command += ["--one", str(number), str(group.path)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        yield PROBLEMS[number], json.loads(done.stdout.splitlines()[-1])


def shown(problem: Any, found: dict[str, dict[str, Any]]) -> None:
    """Seconds and iterations of each plan, and the bounds between two resources."""
    print(problem, "auto:", found.pop("auto"))
    for where in RESOURCES:
        took = {name: f"{s:.2f} ({n})" for name, (s, n) in found[where].items()}
        print(f"  {where}: {took}")
    for here, there in itertools.permutations(RESOURCES, 2):
        seconds = {name: s for name, (s, _) in found[there].items()}
        kept = min(found[here], key=lambda name: found[here][name][0])
        best = min(seconds, key=lambda name: seconds[name])
        bound = seconds.get(kept, np.inf) / seconds[best]
        print(f"  {here} -> {there}: {kept} -> {best}, at most {bound:.2f}")
    sys.stdout.flush()


def one(problem: Any, path: Path, args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Seconds and iterations of one problem by resources and plan; and those of `auto`."""
    _, _, task, options = problem
    size = args.megabytes << 20
    group = memory_group.Group(path, 1 if (path / "memory.limit_in_bytes").exists() else 2)
    with spilling(problem, size, args.folder) as con:
        memory_group.join(path)
        found: dict[str, dict[str, Any]] = {"auto": trained(con, task, options)[2]}
        for where in RESOURCES:
            threads = 1 if where == "1 thread" else 2
            took: dict[str, Any] = {}
            if where == "disk":
                limit(group, memory_group.held(path) + int(ROOM * size))
            for name in plans_for(where, found):
                asked = options | {"algorithm": name, "threads": threads}
                try:
                    runs = [trained(con, task, asked) for _ in range(args.repeat)]
                except duckdb.InvalidInputException:  # no such plan for the task
                    continue
                ended = [(s, n) for s, n, status in runs if status == "ok"]
                took |= {name: min(ended)} if ended else {}
            found[where] = took
        limit(group, UNLIMITED)
        return found


@contextmanager
def spilling(problem: Any, size: int, parent: str | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose table t has `size` bytes of the problem's rows, most of which
    trainings spill to a folder in the parent.
    """
    d, alike, *_ = problem
    with tuskml.connect() as con, tempfile.TemporaryDirectory(dir=parent) as folder:
        con.execute("SET enable_progress_bar = false; SET threads = 2")
        fill(con, size // (4 * d + 8), d, alike)
        given_to = [int(SPILLED_FROM * size), folder]
        con.execute("SELECT tuskml_set_memory(?, ?)", given_to).fetchall()
        yield con


def plans_for(where: str, found: dict[str, dict[str, Any]]) -> list[str]:
    """The plans to run; from the disk, those that are close to the best in memory."""
    if where != "disk":
        return list(PLANS)
    before = found["2 threads"]
    least = min(s for s, _ in before.values())
    return [name for name, (s, _) in before.items() if s <= MOST * least]


def fill(con: duckdb.DuckDBPyConnection, n: int, d: int, alike: float) -> None:
    """Table t (y, x): each feature has that correlation with the one before it."""
    draws = np.random.default_rng(1)
    x = draws.standard_normal((n, d), np.float32)
    for j in range(1, d):
        x[:, j] = alike * x[:, j - 1] + np.float32((1 - alike**2) ** 0.5) * x[:, j]
    weights = draws.standard_normal(d) * (2 / d**0.5)
    y = (draws.uniform(size=n) < 1 / (1 + np.exp(-x @ weights))).astype(np.int32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), d)
    con.register("made", pa.table({"y": y, "x": lists}))
    con.execute("CREATE OR REPLACE TABLE t AS SELECT y, x::FLOAT[] AS x FROM made")
    con.unregister("made")


def trained(
    con: duckdb.DuckDBPyConnection, task: str, options: dict[str, Any]
) -> tuple[float, int, str]:
    """Seconds and iterations of a training, and its status; of `auto` the plan."""
    statement = f"SELECT train_model('{task}', y, x, '{json.dumps(options)}') AS m FROM t"
    model: Any = con.execute(statement).fetchall()[0][0]
    told = model["status"] if "algorithm" in options else model["plan"]
    return float(model["seconds"]), int(model["iterations"]), str(told)


def limit(group: memory_group.Group, size: int) -> None:
    """Sets a group's limit, once the kernel has written enough pages to the disk."""
    for _ in range(500):
        try:
            (group.path / group.limit).write_text(str(size))
        except OSError:
            time.sleep(0.01)
        else:
            return
    raise SystemExit(f"{group.path}: its memory stays above {size} bytes")


if __name__ == "__main__":
    main()
