"""Seconds until a cancelled training frees the workers of a Ray cluster.

Measured: seconds from `tuskml.cancel()`, when the first groups are finished, until the call has
ended, and until the last process of a worker is gone. The goal is 2 s.

    python scripts/bench/run.py cluster_cancel --repeat 5
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import groups_cluster
import machine
import psutil

import tuskml
from tuskml.learners.events import Event, listening


def main() -> None:
    """Prints the seconds of each run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    import ray

    with TemporaryDirectory(prefix="tuskml-") as folder, tuskml.connect() as con:
        source = groups_cluster.shards(con, args.rows, 280, Path(folder) / "shards").source
        quiet = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
        ray.init(num_cpus=2, address="local", **quiet)
        for _ in range(args.repeat):
            ended, gone = cancelled(con, source)
            print(f"the call ends after {ended:.2f} s, the last worker after {gone:.2f} s")
        ray.shutdown()
    print(machine.sentence(machine.facts()), "load", os.getloadavg())


def cancelled(con: Any, source: str) -> tuple[float, float]:
    """Seconds until the call has ended, and until no worker is left."""
    asked: list[float] = []

    def cancel(_: Event) -> None:
        if not asked:
            asked.append(time.perf_counter())
            tuskml.cancel()

    features = [f"x{k}" for k in range(groups_cluster.FEATURES)]
    given: dict[str, Any] = {"label": "y", "features": features, "group_by": "g"}
    try:
        with listening(cancel):
            tuskml.train(con, "logistic", source=source, executor="ray", **given)
    except tuskml.Interrupted:
        pass
    ended = time.perf_counter()
    while workers():
        time.sleep(0.02)
    return ended - asked[0], time.perf_counter() - asked[0]


def workers() -> list[int]:
    """The processes of tuskml's workers below this one."""
    found = []
    for one in psutil.Process().children(recursive=True):
        try:
            if "ray::Worker" in " ".join(one.cmdline()):
                found.append(one.pid)
        except psutil.NoSuchProcess:
            continue
    return found


if __name__ == "__main__":
    main()
