"""Re-planning when shares change, beside the plan that was chosen at the start (Mahajan 2021).

    python -m research.qoop.replanned --part trainings --traces 3
    python -m research.qoop.replanned --part plans
    python -m research.qoop.replanned --part plans --memory
    python -m research.qoop.replanned --part queries

`trainings`: real ones, whose share of two cores is replayed and changes between two threads and
one. `plans`: the optimizer's estimates of their candidates on a host of 16 cores, run in a
simulation under three profiles of volatility; with --memory the memory for their spilled rows has
such a profile too, and passes over rows that it does not hold read the disk. `queries`: the
thesis's abstract model under the same profiles. A speed-up is the time with the first plan over
that with re-planning.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import machine
import numpy as np
from numpy.typing import NDArray

import tuskml
from research.qoop.adversaries import Profile
from research.qoop.model import Queries, Rules, simulate
from tuskml.learners.linear.planner import guard, replanning
from tuskml.learners.linear.planner.replanning import Resources, next_plan
from tuskml.schedule import shares

PROFILES = {"low": (0.02, 0.1), "medium": (0.1, 0.2), "high": (0.2, 0.6)}
"""Parts of a cluster by which a share changes at once (section 2.6.2.1)."""
Problem = tuple[int, int, str, str]
"""Rows, features, task and options."""
ASKED = {"low": 1.05, "medium": 1.1, "high": 1.4}
PROBLEMS = (
    (400_000, 28, "logistic", "{}"),
    (150_000, 100, "logistic", "{}"),
    (60_000, 250, "logistic", "{}"),
    (30_000, 500, "logistic", "{}"),
    (60_000, 250, "poisson", "{}"),
    (30_000, 500, "logistic", '{"l2": 0.001}'),
    (400_000, 28, "logistic", '{"epsilon": 0.001}'),
    (150_000, 100, "huber", "{}"),
)
WIDE = (
    (3_000, 600, "logistic", "{}"),
    (6_000, 1_200, "logistic", '{"l2": 0.001}'),
    (4_000, 1_000, "logistic", '{"l2": 0.01}'),
    (2_000, 2_000, "logistic", '{"l2": 0.01}'),
    (20_000, 600, "poisson", '{"l2": 0.001}'),
    (10_000, 1_000, "huber", '{"l2": 0.001}'),
    (400_000, 20, "logistic", '{"epsilon": 0.01}'),
    (200_000, 60, "logistic", '{"epsilon": 0.003}'),
)
"""Few rows with many features, where systems are solved, and rough ends, where epochs are few."""
TABLE = """
CREATE OR REPLACE TABLE t AS
SELECT (hash(i, 99) % 1000 / 1000 < 1 / (1 + exp(-3 * x[1] + 2 * x[2])))::INT AS y, x
FROM (SELECT i, [(hash(i, j) % 1000 + {together} * (hash(i) % 1000)) / 1000 FOR j IN range({d})]
      ::FLOAT[] AS x FROM range({n}) r(i))
"""
STEPS = 5000
CORES = 16


def profile(
    draws: np.random.Generator, change: tuple[float, float], units: float, steps: int
) -> NDArray[np.float64]:
    """What is given, (steps,): it changes every 5 to 40 steps."""
    given, at = np.empty(steps), 0
    now = units * draws.uniform(0.4, 1)
    while at < steps:
        length = int(draws.integers(5, 40))
        given[at : at + length] = now
        at += length
        by = units * draws.uniform(*change) * draws.choice([-1, 1])
        now = float(np.clip(now + by if 1 <= now + by <= units else now - by, 1, units))
    return given


def main() -> None:
    """Prints the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--part", choices=["trainings", "plans", "queries"], default="trainings")
    parser.add_argument("--traces", type=int, default=3)
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--memory", action="store_true")
    given = parser.parse_args()
    print(machine.sentence(machine.facts()), "load", os.getloadavg())
    if given.part == "queries":
        queries()
        return
    with tuskml.connect() as con:
        con.execute("SET enable_progress_bar = false")
        if given.part == "plans":
            plans(con, WIDE if given.wide else PROBLEMS, given.memory)
        else:
            trainings(con, given.traces, WIDE if given.wide else PROBLEMS)


def prepared(con: duckdb.DuckDBPyConnection, problem: tuple[int, int, str, str]) -> str:
    """The statement that trains a problem, whose table is made."""
    n, d, task, options = problem
    con.execute(TABLE.format(n=n, d=d, together=1 if d < 200 else 0))
    return f"SELECT train_model('{task}', y, x, '{options}') AS m FROM t"


def trainings(
    con: duckdb.DuckDBPyConnection, traces: int, problems: Sequence[Problem] = PROBLEMS
) -> None:
    """Real trainings: seconds with their first plan and with re-planning, in turn."""
    found = []
    short = replanning.SHORT
    for problem in problems:
        statement = prepared(con, problem)
        alone = min(timed(con, statement)[0] for _ in range(3))
        for trace in range(traces):
            with SharesOf(trace, alone):
                seconds: dict[str, list[float]] = {"first": [], "replanned": []}
                plan = ""
                for _ in range(3):
                    for name, least in (("first", np.inf), ("replanned", short)):
                        replanning.SHORT = least
                        took, told = timed(con, statement)
                        seconds[name].append(took)
                        plan = told if name == "replanned" else plan
            quotient = min(seconds["first"]) / min(seconds["replanned"])
            found.append(quotient)
            print(f"{problem} trace {trace}: alone {alone:.3f} s, speed-up {quotient:.2f}; {plan}")
    low, middle, high = np.percentile(found, [0, 50, 100])
    print(f"{len(found)} trainings: median {middle:.2f}, {low:.2f} to {high:.2f}")


def timed(con: duckdb.DuckDBPyConnection, statement: str) -> tuple[float, str]:
    """Seconds of a statement's training, and the model's plan."""
    model: Any = con.execute(statement).fetchall()[0][0]
    return float(model["seconds"]), str(model["plan"])


class SharesOf:
    """Shares of two threads and one in turn, each for 10 to 60 % of a training alone."""

    def __init__(self, seed: int, alone: float) -> None:
        draws = np.random.default_rng(seed)
        changes = np.cumsum(alone * draws.uniform(0.1, 0.6, 40))
        threads = [1 + (i + seed) % 2 for i in range(41)]
        lines = zip([0.0, *changes], threads, strict=True)
        self.folder = tempfile.TemporaryDirectory(prefix="tuskml-")
        self.path = Path(self.folder.name) / "shares"
        self.path.write_text("\n".join(f"{at:.4f} {number}" for at, number in lines))

    def __enter__(self) -> None:
        os.environ[shares.SETTING] = str(self.path)

    def __exit__(self, *_: object) -> None:
        del os.environ[shares.SETTING]
        self.folder.cleanup()


@dataclass
class Estimated:
    """Estimates for one problem: seconds of each plan, (2, CORES + 1, plans), with rows in memory
    and on the disk, by threads; and of beginning it, (2, plans).
    """

    seconds: NDArray[np.float64]
    setup: NDArray[np.float64]

    def run(
        self, given: NDArray[np.float64], disk: NDArray[np.int64], each: float, policy: bool
    ) -> float:
        """Seconds until a training ends under a profile whose steps take so long each.

        disk: whether rows are on it, (steps,).
        """
        left, running, took, due = 1.0, None, 0.0, 0.0
        for share, where in zip(given, disk, strict=True):
            now, setup = self.seconds[where, int(share)], self.setup[where]
            if running is None or policy:
                more = setup * (np.arange(len(now)) != running)
                best = next_plan(list(left * now + more), running)
                assert best is not None
                due += 0.0 if best == running or running is None else setup[best]
                running = best
            pause = min(due, each)
            due -= pause
            if left * now[running] <= each - pause:
                return took + pause + left * float(now[running])
            left -= (each - pause) / now[running]
            took += each
        raise AssertionError("the profile is too short")

    def most(self) -> float:
        """Largest ratio of the plan's time to that of the best plan of some resources
        that is best with other ones: no policy gains more by switches."""
        every = self.seconds[:, 1:].reshape(-1, self.seconds.shape[2])
        best = every[:, every.argmin(axis=1)]  # (resources, resources that it was chosen for)
        return float((best / every.min(axis=1, keepdims=True)).max())


def plans(
    con: duckdb.DuckDBPyConnection, problems: Sequence[Problem] = PROBLEMS, memory: bool = False
) -> None:
    """The candidates of real problems by the optimizer's estimates, in a simulation."""
    every = [estimated(con, problem, memory) for problem in problems]
    for name, change in PROFILES.items():
        draws = np.random.default_rng(1)
        found = []
        for problem in every:
            usual = np.log(problem.seconds[:, CORES // 2].min(axis=1)).mean()
            each = float(np.exp(usual)) / 60
            for _ in range(50):
                given = profile(draws, change, CORES, STEPS)
                disk = np.zeros(STEPS, np.int64)
                if memory:
                    room = profile(draws, change, CORES, STEPS)
                    disk += room < room[0] * draws.uniform(0.5, 1)  # the rows fit at the start
                runs = (problem.run(given, disk, each, policy) for policy in (False, True))
                found.append(next(runs) / next(runs))
        told(name, np.array(found))


def estimated(con: duckdb.DuckDBPyConnection, problem: Problem, memory: bool) -> Estimated:
    """What the optimizer expects of each plan by the training's threads."""
    kept: list[replanning.Replanning] = []
    usual = guard.replanning_for

    def spy(*given: Any) -> replanning.Replanning | None:
        made = usual(*given)
        kept.extend([] if made is None else [made])
        return made

    guard.replanning_for = spy  # type: ignore[assignment]
    con.execute(prepared(con, problem)).fetchall()
    guard.replanning_for = usual
    size = float(problem[0] * (4 * problem[1] + 8)) * memory
    judged = [
        [kept[0].candidates(Resources(max(n, 1), np.inf, on_disk)) for n in range(CORES + 1)]
        for on_disk in (0.0, size)
    ]
    possible = [i for i, one in enumerate(judged[0][1]) if one.refusal is None]
    seconds = np.array(
        [[[some[i].expected_seconds for i in possible] for some in by] for by in judged]
    )
    setup = np.array([[by[1][i].cost.setup for i in possible] for by in judged])
    names = [judged[0][1][i].plan.algorithm for i in possible]
    best = [names[int(of.argmin())] for by in seconds for of in (by[1], by[2], by[CORES])]
    found = Estimated(seconds, setup)
    told_of = f"best by 1, 2 and {CORES} threads: {best[:3]}, on disk {best[3:]}"
    print(f"{problem}: {told_of}; bound {found.most():.2f}", flush=True)
    return found


def queries() -> None:
    """The abstract model: plans that need up to 16 times more take less work."""
    k = 2000
    for name, change in PROFILES.items():
        draws = np.random.default_rng(2)
        need = np.sort(np.exp(draws.uniform(0, np.log(CORES), (k, 6))), axis=1)
        need[:, 0] = 1.0
        work = 3000.0 * np.cumprod(draws.uniform(0.3, 0.9, (k, 6)), axis=1)
        some = Queries(need, work)
        given = np.array([profile(draws, change, CORES, STEPS) for _ in range(k)])
        fixed, _ = simulate(some, Profile(given), STEPS, Rules(switches=False))
        for error in (0.0, 0.25):
            wrong = draws.uniform(1 - error, 1 + error, work.shape)
            began = time.perf_counter()
            took, _ = simulate(some, Profile(given), STEPS, Rules(0.2, estimates=wrong))
            seconds = time.perf_counter() - began
            told(f"{name}, estimates off by {error:.0%} ({seconds:.1f} s)", fixed / took)


def told(name: str, found: NDArray[np.float64]) -> None:
    """Prints how much sooner trainings ended."""
    at = np.percentile(found, [0, 10, 50, 90, 100])
    asked = ASKED[name.partition(",")[0]]
    gains = f"{(found > 1.01).mean():.0%} gain, {(found < 0.99).mean():.0%} lose"
    spread = ", ".join(f"{one:.2f}" for one in at)
    print(f"{name}: median {at[2]:.2f} (asked {asked}), least to most {spread}; {gains}")


if __name__ == "__main__":
    main()
