"""Leases on real Ray nodes of this machine, and what the simulation predicts of them.

python -m research.themis.calibrated --lease 10

Two nodes of one CPU. One training alone gives seconds of a unit, and of a call besides; two at
once those of a change of workers. Then three trainings with other numbers of rows share them, each
a process of its own that begins some seconds after the one before. The simulation is given their
units and these costs alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import tuskml
from research.themis.simulation.apps import Spec, Stage
from research.themis.simulation.events import Rules, Simulation
from research.themis.simulation.machines import Machines
from research.themis.simulation.policies.themis import Themis
from tuskml.cluster import units

STORE, FEATURES, PASSES = 80_000_000, 12, 300
ROWS = """
SELECT i % {groups} AS g, {names}, hash(i, -1) % 1000 / 1000 < 1 / (1 + exp(-x0 + x1)) AS y
FROM (SELECT i, {columns} FROM range({rows}) t(i))
"""


def shards(folder: Path, groups: int, rows: int) -> str:
    """Rows of equal groups, in shards."""
    names = ", ".join(f"x{k}" for k in range(FEATURES))
    columns = ", ".join(f"hash(i, {k}) % 1000 / 500 - 1 AS x{k}" for k in range(FEATURES))
    with tuskml.connect() as con:
        sql = ROWS.format(groups=groups, rows=rows, names=names, columns=columns)
        con.execute(f"CREATE TABLE rows AS {sql}")
        manifest = tuskml.split(
            con, source="rows", group_by="g", into=folder, shard_bytes=4_000_000
        )
        return str(manifest.source)


def child(source: str, batch: int) -> None:
    """A training; prints what it took, as JSON."""
    from tuskml.groups.execution.leases import LeasedRun

    units.BATCH_ROWS = batch
    runs: list[Any] = []
    begun: dict[Any, float] = {}
    starts: list[float] = []
    init, start_on, welcome = LeasedRun.__init__, LeasedRun.start_on, LeasedRun.welcome

    def noted(run: Any, *given: Any) -> None:
        init(run, *given)
        runs.append(run)

    def started(run: Any, node: str) -> None:
        before = set(run.starting)
        start_on(run, node)
        begun.update({ref: time.monotonic() for ref in run.starting if ref not in before})

    def welcomed(run: Any, reference: Any) -> None:
        welcome(run, reference)
        starts.append(time.monotonic() - begun.get(reference, time.monotonic()))

    LeasedRun.__init__, LeasedRun.start_on, LeasedRun.welcome = noted, started, welcomed
    with tuskml.connect() as con:
        names = [f"x{k}" for k in range(FEATURES)]
        began = time.monotonic()
        tuskml.train(
            con,
            "logistic",
            source=source,
            label="y",
            features=names,
            group_by="g",
            executor="ray",
            algorithm="lbfgs",
            epsilon=0.0,
            max_iter=PASSES,
        )
        took = time.monotonic() - began
    run = runs[0]
    sizes = [unit.size for unit in run.units]
    print(
        json.dumps(
            {
                "took": took,
                "units": len(sizes),
                "rows": mean(sizes),
                "starts": starts,
                "pace": run.profile.pace,
            }
        )
    )


def begin(source: str, batch: int) -> subprocess.Popen[str]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--child", source, "--batch", str(batch)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it printed."""
    lines = process.communicate()[0].strip().splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def predicted(
    apps: list[dict[str, Any]], begins: list[float], costs: dict[str, float]
) -> list[float]:
    """Seconds of each, by the simulation."""
    specs = [
        Spec(at, (Stage(app["units"], costs["pace"] * app["rows"], 1),))
        for app, at in zip(apps, begins, strict=True)
    ]
    rules = Rules(lease=costs["lease"], restart=costs["start"])
    times = []
    for seed in range(20):
        run = Simulation(specs, Machines((1, 1), (0, 1)), Themis(), rules, seed).ran()
        ends = {app.number: app.ended - app.arrival for app in run.apps}
        times.append([ends[n] + costs["besides"] for n in range(len(specs))])
    return [mean(column) for column in zip(*times, strict=True)]


def together(sources: list[str], batch: int) -> tuple[list[dict[str, Any]], list[float]]:
    """Trainings that begin four seconds after each other: what they took, and when they began."""
    processes, begins = [], []
    for source in sources:
        begins.append(time.monotonic())
        processes.append(begin(source, batch))
        time.sleep(4.0)
    return [answer(process) for process in processes], [at - begins[0] for at in begins]


def fitted(apps: list[dict[str, Any]], begins: list[float], costs: dict[str, float]) -> float:
    """Seconds of a change of workers with which the last training ends when it did."""
    ended = max(app["took"] + at for app, at in zip(apps, begins, strict=True))
    found = []
    for start in (0.2 * step for step in range(2, 26)):
        guess = predicted(apps, begins, costs | {"start": start})
        ends = max(one + at for one, at in zip(guess, begins, strict=True))
        found.append((abs(ends - ended), start))
    return min(found)[1]


def compared(lease: float, batch: int, folder: Path) -> None:
    """Runs all and prints a table."""

    def sources(*groups: int) -> list[str]:
        return [shards(folder / f"{len(groups)}-{n}", n, n * batch) for n in groups]

    first = together(sources(64), batch)[0][0]
    unit = first["pace"] * first["rows"]
    costs = {"pace": first["pace"], "start": median(first["starts"]), "lease": lease}
    costs["besides"] = first["took"] - costs["start"] - first["units"] * unit / 2
    pair, begins = together(sources(90, 60), batch)
    costs["start"] = fitted(pair, begins, costs)
    print(json.dumps({"alone": first, "pair": pair, "costs": costs}), flush=True)
    found, begins = together(sources(200, 80, 120), batch)
    foretold = predicted(found, begins, costs)
    print("| training | units | actual s | predicted s | off by |\n|---|---|---|---|---|")
    for place, (app, guess) in enumerate(zip(found, foretold, strict=True)):
        off = guess / app["took"] - 1
        print(f"| {place + 1} | {app['units']} | {app['took']:.1f} | {guess:.1f} | {off:+.0%} |")
    whole = max(app["took"] + at for app, at in zip(found, begins, strict=True))
    ends = max(guess + at for guess, at in zip(foretold, begins, strict=True))
    print(f"| all | | {whole:.1f} | {ends:.1f} | {ends / whole - 1:+.0%} |")
    print(
        "starts",
        [round(x, 1) for app in found for x in app["starts"]],
        "seconds of a unit",
        [round(app["pace"] * app["rows"], 3) for app in found],
    )


def main() -> None:
    """Starts the nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child")
    parser.add_argument("--lease", type=float, default=10.0)
    parser.add_argument("--batch", type=int, default=25_000)
    given = parser.parse_args()
    if given.child:
        child(given.child, given.batch)
        return
    from ray.cluster_utils import Cluster

    os.environ["TUSKML_CLUSTER_LEASE"] = str(given.lease)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster()
    try:
        for place in range(2):
            more = {} if place else {"include_dashboard": False}
            cluster.add_node(num_cpus=1, object_store_memory=STORE, **more)
        cluster.wait_for_nodes()
        os.environ["RAY_ADDRESS"] = cluster.address
        with TemporaryDirectory() as folder:
            compared(given.lease, given.batch, Path(folder))
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
