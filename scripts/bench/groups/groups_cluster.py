"""The overhead of a Ray cluster of this machine against its threads: one logistic model per group.

Measured: seconds of tuskml.train on Parquet shards, interleaved, medians. `query` is one query of
the database, `threads` the units of a cluster in threads of this process, `ray` the same on a
cluster that runs since `--settle` seconds, `ray, cold` with its start and its end until the call
returns: Ray's processes end behind it, which is not counted. `peer` is Ray's own way on a cluster
that runs already: Dataset.groupby(...).map_groups with scikit-learn's LogisticRegression (lbfgs,
the same objective), or for `--task gbdt` with LightGBM (as many trees, leaves, bins and rows of a
leaf, on one thread), twice as many partitions as workers. Rows: groups of Zipf sizes. The goals
are ray, cold <= 1.15 threads + 4 s, and peer >= 5 ray.

    python scripts/bench/run.py groups_cluster --rows 4000000 --groups 280
    python scripts/bench/run.py groups_cluster --rows 400000 --task gbdt --repeat 1
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import machine
import numpy as np
import pandas as pd

import tuskml
from tuskml.cluster.shards.manifest import Manifest, read_manifest
from tuskml.groups.execution import ray_session

FEATURES = 10
L2 = 1e-3
TREES = {"trees": 20, "num_leaves": 31, "min_child_rows": 20, "max_bins": 255, "l2": 0.0}
TASKS: dict[str, dict[str, Any]] = {
    "logistic": {"algorithm": "lbfgs", "l2": L2},
    "gbdt": {"objective": "logistic", "learning_rate": 0.1, **TREES},
}
"""Tasks with their options."""
ROWS = """
SELECT (exp(ln({groups}) * (hash(i) % 1000003) / 1000003))::INTEGER AS g, {features},
       (hash(i, -1) % 1000) / 1000 < 1 / (1 + exp(-x0 + x1)) AS y
FROM (SELECT i, {columns} FROM range({rows}) t(i))
"""


def main() -> None:
    """Prints the medians, and the goal."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=280)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--task", choices=list(TASKS), default="logistic")
    settle = "seconds between Ray's start and a training on it"
    parser.add_argument("--settle", type=float, default=0.0, help=settle)
    parser.add_argument("--without-peer", action="store_true", help="leaves Ray Data out")
    parser.add_argument("--folder", type=Path, help="keeps the shards for another run")
    args = parser.parse_args()
    with TemporaryDirectory(prefix="tuskml-") as folder, tuskml.connect() as con:
        place = (args.folder or Path(folder)) / "shards"
        manifest = read_manifest(place) or shards(con, args.rows, args.groups, place)
        if args.repeat == 0:
            return
        print(
            f"{manifest.rows:,} rows, {len(manifest.groups)} groups, "
            f"{len(manifest.shards)} shards, {manifest.bytes / 1e6:,.0f} MB"
        )
        seconds = timed(con, manifest.source, args)
    for name, times in seconds.items():
        runs = ", ".join(f"{one:.2f}" for one in times)
        print(f"{name:10} {statistics.median(times):6.2f} s ({runs})")
    threads, cold = (statistics.median(seconds[name]) for name in ("threads", "ray, cold"))
    ray = statistics.median(seconds["ray"])
    if "peer" in seconds:
        peer = statistics.median(seconds["peer"])
        print(f"goal: peer {peer:.2f} s >= 5 ray = {5 * ray:.2f} s, it is {peer / ray:.1f} times")
    print(f"goal: ray, cold {cold:.2f} s <= 1.15 threads + 4 s = {1.15 * threads + 4:.2f} s")
    print(machine.sentence(machine.facts()), "load", os.getloadavg())


def shards(con: object, rows: int, groups: int, folder: Path) -> Manifest:
    """The rows, split."""
    columns = ", ".join(f"(hash(i, {k}) % 2000) / 1000 - 1 AS x{k}" for k in range(FEATURES))
    names = ", ".join(f"x{k}" for k in range(FEATURES))
    query = ROWS.format(rows=rows, groups=groups, features=names, columns=columns)
    return tuskml.split(con, source=query, group_by="g", into=folder)


def timed(con: object, source: str, asked: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each way, run by run."""
    import ray

    given = {
        "source": source,
        "label": "y",
        "features": [f"x{k}" for k in range(FEATURES)],
        "group_by": "g",
        **TASKS[asked.task],
    }

    def peer() -> None:
        map_groups(Path(source).parent, 2 * asked.workers, PEERS[asked.task])

    def train(executor: str | None) -> Callable[[], None]:
        return lambda: tuskml.train(con, asked.task, executor=executor, **given)

    def start() -> None:
        ray.init(
            num_cpus=asked.workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            address="local",
        )

    def cold() -> None:
        for one in ray_session._ending:  # the processes of the last one, which end behind it
            one.join()
        note(seconds, "ray, cold", train("ray"))
        for one in ray_session._ending:
            one.join()

    seconds: dict[str, list[float]] = {}
    for _ in range(asked.repeat):
        note(seconds, "query", train(None))
        note(seconds, "threads", train("threads"))
        cold()
        start()
        time.sleep(asked.settle)
        note(seconds, "ray", train("ray"))
        if not asked.without_peer:
            note(seconds, "peer", peer)
        ray.shutdown()
    return seconds


def map_groups(folder: Path, partitions: int, fitted: Callable[..., pd.DataFrame]) -> None:
    """Trains one model of the peer per group, by Ray Data."""
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.read_parquet(str(folder), file_extensions=["parquet"])
    groups = rows.groupby("g", num_partitions=partitions)
    groups.map_groups(fitted, batch_format="pandas").to_pandas()


def fitted(group: pd.DataFrame) -> pd.DataFrame:
    """The coefficients of one group; mean(loss) + l2 / 2 ||w||^2 as tuskml has it."""
    from sklearn.linear_model import LogisticRegression

    rows = group[[f"x{k}" for k in range(FEATURES)]]
    model = LogisticRegression(C=1 / (L2 * len(group))).fit(rows, group["y"])
    return pd.DataFrame({"g": [group["g"].iloc[0]], "coef": [model.coef_[0].tolist()]})


def boosted(group: pd.DataFrame) -> pd.DataFrame:
    """The trees of one group by LightGBM, as text."""
    import lightgbm

    x, y = group[[f"x{k}" for k in range(FEATURES)]], group["y"]
    rows = lightgbm.Dataset(x.to_numpy(np.float64), y.to_numpy(np.float64))
    options = {
        "objective": "binary",
        "learning_rate": 0.1,
        "num_threads": 1,
        "verbose": -1,
        "num_leaves": TREES["num_leaves"],
        "min_data_in_leaf": TREES["min_child_rows"],
        "max_bin": TREES["max_bins"],
        "lambda_l2": TREES["l2"],
    }
    model = lightgbm.train(options, rows, TREES["trees"])
    return pd.DataFrame({"g": [group["g"].iloc[0]], "model": [model.model_to_string()]})


PEERS = {"logistic": fitted, "gbdt": boosted}


def note(seconds: dict[str, list[float]], name: str, work: Callable[[], None]) -> None:
    """Runs work and notes its seconds."""
    began = time.perf_counter()
    work()
    seconds.setdefault(name, []).append(time.perf_counter() - began)


if __name__ == "__main__":
    main()
