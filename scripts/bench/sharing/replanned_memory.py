"""Re-planning when memory no longer holds the spilled rows, compared with the plan chosen at the
start.

    python scripts/bench/run.py replanned_memory --megabytes 100 --problems 6,7

Once a part of the time has passed that a training takes alone, the limit of its memory cgroup
falls, so that its page cache has room for some of the rows alone: as where another program takes
the memory. From then on each pass reads rows from the disk. With --back the memory comes back
after as long again. A speed-up is the time with the first plan over that with re-planning, which
take turns. The problems are those of `plans_by_resources`.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import machine
import memory_group
import numpy as np
from plans_by_resources import PROBLEMS, ROOM, UNLIMITED, each_in_a_group, limit, spilling

from tuskml.learners.linear import training
from tuskml.learners.linear.planner import replanning

PARTS = (0.1, 0.4)
"""Shares of a training's time alone, after which memory falls."""


def main() -> None:
    """Prints a line per problem and part, and the median of all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=100, help="of rows")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--problems", default="0,1,2,3,4,5,6,7")
    parser.add_argument("--back", action="store_true", help="memory comes back")
    parser.add_argument("--folder", default=None, help="where rows are spilled to")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(one(PROBLEMS[int(args.one[0])], Path(args.one[1]), args)))
        return
    print(machine.sentence(machine.facts()), "load", os.getloadavg())
    found: list[float] = []
    for problem, rows in each_in_a_group("replanned_memory", args.problems):
        print(problem)
        for row in rows:
            found.append(row["first"] / row["replanned"])
            print(f"  {row}, speed-up {found[-1]:.2f}", flush=True)
    low, middle, high = np.percentile(found, [0, 50, 100])
    print(f"{len(found)} trainings: median {middle:.2f}, {low:.2f} to {high:.2f}")


def one(problem: Any, path: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds by the part after which memory falls, in a group."""
    _, _, task, options = problem
    size = args.megabytes << 20
    group = memory_group.Group(path, 1 if (path / "memory.limit_in_bytes").exists() else 2)
    with spilling(problem, size, args.folder) as con:
        statement = f"SELECT train_model('{task}', y, x, '{json.dumps(options)}') AS m FROM t"
        memory_group.join(path)
        alone = min(timed(con, statement)[0] for _ in range(2))
        rows = []
        for part in PARTS:
            falling = Falling(group, part * alone, int(ROOM * size), args.back)
            found = in_turn(con, statement, args.repeat, falling)
            rows.append({"alone": round(alone, 2), "part": part} | found)
        return rows


def in_turn(
    con: duckdb.DuckDBPyConnection, statement: str, repeat: int, falling: Falling
) -> dict[str, Any]:
    """Medians of the seconds with the first plan and with re-planning, and the last plans."""
    took: dict[str, list[float]] = {"first": [], "replanned": []}
    plans, short = {}, replanning.SHORT
    for number in range(repeat):
        order = list(took) if number % 2 == 0 else list(took)[::-1]
        for name in order:
            replanning.SHORT = np.inf if name == "first" else short
            with falling():
                _, plans[f"plan of {name}"] = timed(con, statement)
            took[name].append(time.monotonic() - falling.began)
    replanning.SHORT = short
    return {name: round(float(np.median(some)), 3) for name, some in took.items()} | plans


def timed(con: duckdb.DuckDBPyConnection, statement: str) -> tuple[float, str]:
    """Seconds of a statement's training; the model's plan, and its iterations."""
    model: Any = con.execute(statement).fetchall()[0][0]
    return float(model["seconds"]), f"{model['plan']} ({model['iterations']})"


class Falling:
    """Lowers the limit of a group some seconds after a training has started to iterate.

    began: that time, by the monotonic clock; the disk has all rows by then, so that the kernel
    need not write them before it evicts their pages.
    """

    def __init__(self, group: memory_group.Group, after: float, room: int, back: bool) -> None:
        self.group, self.after, self.room, self.back = group, after, room, back
        self.ended, self.began = threading.Event(), 0.0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        usual, thread = training.run_guarded, threading.Thread(target=self.falls)
        self.ended.clear()

        def begins(*some: Any) -> Any:
            os.sync()
            self.began = time.monotonic()
            thread.start()
            return usual(*some)

        training.run_guarded = begins
        try:
            yield
        finally:
            training.run_guarded = usual
            self.ended.set()
            thread.join()
            limit(self.group, UNLIMITED)

    def falls(self) -> None:
        """Later, and back after as long again if it is to come back."""
        if self.ended.wait(self.after):
            return
        limit(self.group, memory_group.held(self.group.path) + self.room)
        if self.back and not self.ended.wait(self.after):
            limit(self.group, UNLIMITED)


if __name__ == "__main__":
    main()
