"""Placements of groups on a cluster: group, model, data and switching task parallelism, and GAP.

Measured: seconds of tuskml.train on Parquet shards, of linear models by lbfgs, of boosted trees
or of nets, for each value of `placement`, interleaved, medians; on a Ray cluster of this machine
that runs already, so with the start of the workers, or in threads of this process. All read
the same shards by the same loader.
Rows: `skewed` groups, whose sizes fall as 1/rank as in the paper's figure 6; `giants`: two
groups have 30 % of the rows each, and the others share the rest; `giant`: one has 80 %. Beside the
seconds of a call stand the makespan of its units over the mean of the workers' busy seconds, the
processor seconds of the busiest worker, of all and of the driver, the bytes of messages between
the driver and a worker, and the peak of a worker's memory. Where workers share processors, or
these are busy otherwise, the busiest worker's processor seconds say what a placement gains.

    python scripts/bench/run.py placements --groups 280 --executor ray
    python scripts/bench/run.py placements --groups 18 --task mlp --configurations 6 --search
    python scripts/bench/run.py placements --groups 18 --executor threads --rate 25
    python scripts/bench/run.py placements --shape giant --groups 9 --placements gtp,gap --search

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 5.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from tempfile import gettempdir
from typing import Any

import machine
from slow_link import linked
from watched import one_thread, watched

import tuskml

FEATURES = 10
TASKS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "logistic": ("l2", 1e-3, {"algorithm": "lbfgs"}),
    "gbdt": ("l2", 1e-3, {"objective": "logistic", "trees": 10}),
    "mlp": (
        "learning_rate",
        1e-3,
        {"objective": "logistic", "layers": [16], "max_iter": 2, "batch_size": 64},
    ),
}
"""For each task the option in which configurations differ, its least value, and the others."""
NAMES = ("gtp", "gap", "dp", "sp", "mtp")
GROUP = {
    "skewed": "(exp(ln({groups} + 1) * u) - 1)::INTEGER",
    "giant": "CASE WHEN u < 0.8 THEN 0 ELSE 1 + ((u - 0.8) / 0.2 * ({groups} - 1))::INTEGER END",
    "giants": "CASE WHEN u < 0.3 THEN 0 WHEN u < 0.6 THEN 1 "
    "ELSE 2 + ((u - 0.6) / 0.4 * ({groups} - 2))::INTEGER END",
}
ROWS = """
SELECT {group} AS g, {names}, (hash(i, -1) % 1000) / 1000 < 1 / (1 + exp(-x0 + x1)) AS y
FROM (SELECT i, (hash(i) % 1000003) / 1000003 AS u, {columns} FROM range({rows}) t(i))
"""


def main() -> None:
    """Prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--groups", type=int, default=280)
    parser.add_argument("--shape", choices=list(GROUP), default="skewed")
    parser.add_argument("--shard-bytes", type=int, default=4_000_000)
    parser.add_argument("--executor", choices=["ray", "threads"], default="ray")
    parser.add_argument("--placements", default=",".join(NAMES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--configurations", type=int, default=1, help="calls, each with its l2")
    parser.add_argument("--task", choices=list(TASKS), default="logistic")
    parser.add_argument("--search", action="store_true", help="one call for all configurations")
    parser.add_argument("--source", help="Parquet files with columns g, y and x0 .. x9 instead")
    memory = "GB of the node that workers share, of Ray; rows beyond go to disk"
    parser.add_argument("--memory", type=float, help=memory)
    parser.add_argument("--iterations", type=int, help="the most iterations of a linear model")
    rate = "MB a second of each worker's link to the shards, with --executor threads"
    parser.add_argument("--rate", type=float, help=rate)
    args = parser.parse_args()
    with tuskml.connect() as con:
        source = args.source or shards(con, args)
        if args.rate:
            args.link = linked(con, args.rate * 1e6)
            source = f"slow://{source}"
        seconds = timed(con, source, args)
    for name, times in seconds.items():
        runs = ", ".join(f"{one:.2f}" for one in times)
        print(f"{name:4} {statistics.median(times):6.2f} s ({runs})")
    print(machine.sentence(machine.facts()), "load", os.getloadavg())


def shards(con: object, args: argparse.Namespace) -> str:
    """The rows, split; a folder of an earlier run with the same rows is used again."""
    what = f"{args.shape}-{args.groups}-{args.rows}-{args.shard_bytes}"
    folder = Path(gettempdir()) / f"tuskml-placements-{what}"
    if not (folder / "manifest.json").exists():
        columns = ", ".join(f"(hash(i, {k}) % 2000) / 1000 - 1 AS x{k}" for k in range(FEATURES))
        query = ROWS.format(
            rows=args.rows,
            group=GROUP[args.shape].format(groups=args.groups),
            names=", ".join(f"x{k}" for k in range(FEATURES)),
            columns=columns,
        )
        tuskml.split(con, source=query, group_by="g", into=folder, shard_bytes=args.shard_bytes)
    return f"{folder}/*.parquet"


def timed(con: object, source: str, args: argparse.Namespace) -> dict[str, list[float]]:
    """Seconds of each placement, run by run."""
    if args.executor == "ray":
        import ray

        ray.init(
            num_cpus=args.workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            address="local",
            _memory=None if args.memory is None else args.memory * 1e9,
        )
    else:
        one_thread(args.workers)
    seconds: dict[str, list[float]] = {}
    for _ in range(args.repeat):
        for name in args.placements.split(","):
            began = time.perf_counter()
            for options in calls(args):
                with watched() as seen:  # the last call is shown
                    train(con, source, args, name, options)
            seconds.setdefault(name, []).append(time.perf_counter() - began)
            if args.rate:
                carried, args.link.carried = args.link.carried, 0
                print(f"{name:4} {seconds[name][-1]:6.2f} s: {carried / 1e6:.0f} MB over links")
            if seen.busy:
                print(f"{name:4} {seconds[name][-1]:6.2f} s: {seen}", flush=True)
    if args.executor == "ray":
        ray.shutdown()
    return seconds


def train(
    con: object, source: str, args: argparse.Namespace, name: str, options: dict[str, Any]
) -> None:
    """Runs one call; prints the reason if groups fail, such as missing memory."""
    try:
        tuskml.train(
            con,
            args.task,
            source=source,
            label="y",
            group_by="g",
            features=[f"x{k}" for k in range(FEATURES)],
            executor=args.executor,
            placement=name,
            **options,
        )
    except tuskml.ClusterError as error:
        print(f"{name:4} failed: {error}", flush=True)


def calls(args: argparse.Namespace) -> list[dict[str, Any]]:
    """The options of each call."""
    name, least, options = TASKS[args.task]
    if args.iterations:
        options = options | {"max_iter": args.iterations}
    values = [least * 2**number for number in range(args.configurations)]
    if args.executor == "threads":
        options = options | {"threads": 1}
    if args.search:
        return [options | {name: values, "folds": 2}]
    return [options | {name: value} for value in values]


if __name__ == "__main__":
    main()
