"""A simulated cluster, calibrated by real runs of Ray on this machine.

`--calibrate FILE` trains groups on Ray with 1 to 4 workers of one logical processor, fits the
costs of the simulation on one set of groups, predicts the seconds of another set with other sizes,
and writes the costs. The goal is that predictions are within 15 % of what the runs take.
`--costs FILE` reads such costs and simulates what this machine cannot run: figures 3 and 12 of the
paper, and up to 10,000 workers and a million groups with 12 configurations, with failures.

    python -m research.kingpin.cluster_simulation --calibrate costs.json
    python -m research.kingpin.cluster_simulation --costs FILE --plots docs/images
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import machine
import numpy as np

import tuskml
from research.kingpin import simulated_figures
from research.kingpin.approaches import whole
from research.kingpin.calibrating import Calibrated, Measured, calibrated
from research.kingpin.events import Simulation, Task
from tuskml.schedule import budget
from tuskml.schedule.simulation import Costs, Workload

FEATURES = 10
ROWS = """
SELECT (exp(ln({groups}) * (hash(i, {seed}) % 1000003) / 1000003))::INTEGER AS g, {names},
       (hash(i, -1) % 1000) / 1000 < 1 / (1 + exp(-x0 + x1)) AS y
FROM (SELECT i, {columns} FROM range({rows}) t(i))
"""
GIVEN: dict[str, Any] = {
    "label": "y",
    "features": [f"x{k}" for k in range(FEATURES)],
    "group_by": "g",
    "algorithm": "lbfgs",
    "l2": 1e-3,
    "max_iter": 10,
    "epsilon": 1e-12,
}
PASSES = 10


def main() -> None:
    """Calibrates, or simulates."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--calibrate", type=Path, metavar="FILE")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="as cluster_costs.json here")
    parser.add_argument("--plots", type=Path, metavar="FOLDER")
    parser.add_argument("--folder", type=Path, help="keeps the shards for another run")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 3, 4])
    parser.add_argument("--repeat", type=int, default=2)
    given = parser.parse_args()
    if given.calibrate is not None:
        with TemporaryDirectory(prefix="tuskml-") as folder:
            made = given.folder or Path(folder)
            calibrate(given.calibrate, made, given.rows, given.workers, given.repeat)
        print(machine.sentence(machine.facts()), "load", os.getloadavg())
    if given.costs is not None:
        costs = read(given.costs)
        simulated_figures.shown(costs, given.plots)


def read(path: Path) -> Calibrated:
    """Costs that `--calibrate` wrote."""
    found = json.loads(path.read_text())
    return Calibrated(Costs(**found["costs"]), found["start"], found["crowded"])


def calibrate(path: Path, folder: Path, rows: int, workers: list[int], repeat: int) -> None:
    """Fits on one set of groups, and prints predictions of another."""
    with tuskml.connect() as con:
        fitted = shards(con, rows, 280, 1, folder / "fitted")
        judged = shards(con, rows * 3 // 2, 60, 2, folder / "judged")
        if not workers:
            return
        runs: dict[tuple[str, int], list[Measured]] = {}
        for n in workers:
            start(n)
            for _ in range(repeat):
                for name, source in (("fitted", fitted), ("judged", judged)):
                    runs.setdefault((name, n), []).append(measured(con, source, n))
            import ray

            ray.shutdown()
    exchange = exchanges()
    found = calibrated(
        [run for (name, _), some in runs.items() if name == "fitted" for run in some],
        PASSES,
        exchange,
        reading(fitted),
        simulated_figures.ROW_BYTES,
    )
    raw = {f"{name} {n}": [plain(run) for run in some] for (name, n), some in runs.items()}
    path.write_text(json.dumps(asdict(found) | {"runs": raw}, indent=1))
    print(f"costs: {found}")
    print("| workers | actual s, each run | predicted s | off by |\n|---|---|---|---|")
    for (name, n), some in runs.items():
        if name == "judged":
            print(judgement(found, n, some))


def plain(run: Measured) -> dict[str, Any]:
    """A run as JSON has it."""
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(run).items()}


def judgement(found: Calibrated, workers: int, runs: list[Measured]) -> str:
    """A line of the table: the units' rows are known before the run, and nothing else of it."""
    processors = runs[0].processors
    costs = found.of(workers, processors)
    work = Workload(runs[0].rows, 1, PASSES, simulated_figures.ROW_BYTES)
    tasks = [Task(whole(work, costs, n, 1, 1)) for n in runs[0].rows.tolist()]
    predicted = costs.start + Simulation(tasks, workers, (), costs.dispatch).ran().makespan
    actual = float(np.median([run.whole for run in runs]))
    each = ", ".join(f"{run.whole:.2f}" for run in runs)
    return f"| {workers} | {each} | {predicted:.2f} | {predicted / actual - 1:+.1%} |"


def shards(con: Any, rows: int, groups: int, seed: int, folder: Path) -> str:
    """Rows of groups of Zipf sizes, split."""
    if (folder / "manifest.json").exists():
        return f"{folder}/*.parquet"
    folder.parent.mkdir(exist_ok=True)
    columns = ", ".join(f"(hash(i, {k}) % 2000) / 1000 - 1 AS x{k}" for k in range(FEATURES))
    names = ", ".join(f"x{k}" for k in range(FEATURES))
    query = ROWS.format(groups=groups, seed=seed, names=names, columns=columns, rows=rows)
    return tuskml.split(con, source=query, group_by="g", into=folder).source


def start(workers: int) -> None:
    """Ray on this machine with a given number of logical processors."""
    import ray

    quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    ray.init(num_cpus=workers, address="local", **quiet)


class Heard(logging.Handler):
    """What the log says of each unit."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[float, str, str, float]] = []
        self.ended: list[tuple[float, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Notes the time, the unit and the worker; of a beginning also the rows."""
        now, given = time.perf_counter(), record.args
        if isinstance(given, tuple) and len(given) == 3:
            self.begun.append((now, str(given[0]), str(given[2]), float(str(given[1]))))
        elif isinstance(given, tuple) and len(given) == 4:
            self.ended.append((now, str(given[0]), str(given[3])))


def measured(con: Any, source: str, workers: int) -> Measured:
    """A run on the cluster at hand."""
    heard, log = Heard(), logging.getLogger("tuskml.cluster")
    log.addHandler(heard)
    log.setLevel(logging.INFO)
    log.propagate = False
    began = time.perf_counter()
    try:
        tuskml.train(con, "logistic", source=source, executor="ray", **GIVEN)
    finally:
        log.removeHandler(heard)
    whole = time.perf_counter() - began
    ends = {name: now for now, name, _ in heard.ended}
    rows = np.array([int(n) for _, _, _, n in heard.begun], np.int64)
    seconds = np.array([ends[name] - now for now, name, _, _ in heard.begun])
    seen: set[str] = set()
    firsts = np.array([not (where in seen or seen.add(where)) for _, _, where, _ in heard.begun])
    each = seconds[~firsts].sum() / max(rows[~firsts].sum(), 1)
    extra = float(np.mean(seconds[firsts] - each * rows[firsts]))
    return Measured(
        workers,
        budget.processors(),
        rows,
        seconds,
        firsts,
        heard.begun[0][0] - began,
        max(extra, 0.0),
        began + whole - max(ends.values()),
        whole,
    )


def reading(source: str) -> float:
    """Processor seconds of a row that one thread reads."""
    columns = ", ".join(["y", *GIVEN["features"]])
    query = f"SELECT max(hash({columns})), count(*) FROM '{source}'"
    with tuskml.connect(threads=1) as con:
        times = []
        for _ in range(3):
            began = time.process_time()
            rows = con.execute(query).fetchall()[0][1]
            times.append((time.process_time() - began) / rows)
    return float(np.median(times))


def exchanges() -> tuple[float, float, float]:
    """Seconds to hand a unit out, of an exchange of sums, and of a byte of it, on this machine."""
    import ray

    start(1)

    class Echo:
        def back(self, data: bytes) -> bytes:
            return data

    echo = ray.remote(Echo).options(num_cpus=1).remote()
    took = []
    for size in (1_000, 10_000_000):
        data, times = bytes(size), []
        for _ in range(30 if size == 1_000 else 5):
            began = time.perf_counter()
            ray.get(echo.back.remote(data))
            times.append(time.perf_counter() - began)
        took.append(float(np.median(times)))
    began = time.perf_counter()
    asked = [echo.back.remote(b"") for _ in range(500)]
    dispatch = (time.perf_counter() - began) / 500
    ray.get(asked)
    ray.shutdown()
    return dispatch, took[0], max(took[1] - took[0], 0.0) / 2e7


if __name__ == "__main__":
    main()
