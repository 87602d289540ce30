"""Clusters: seconds and the mean squared distance, compared with scikit-learn.

python scripts/bench/run.py kmeans --rows 1000000 --groups 10000

Rows are normal around centres that are uniform, with as much noise as lets clusters overlap. One
large group has 20 features, small groups have 100 rows of 4. Contenders take turns on the same
rows, with as many centres and starts, and scikit-learn's processor limited to as many threads.
Seconds are those of the whole statement for tuskml, with packing and the model, and of `fit` on a
NumPy array for scikit-learn. A line of JSON has one contender's median seconds of the clock and of
the processor, which other programs disturb less, the loss (the inertia over the rows), and its
iterations.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import tuskml

Rows = NDArray[np.float64]
Result = tuple[float, int]
"""The loss, and the iterations."""


def arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("--starts", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--sample", type=int, default=200, help="groups of scikit-learn")
    return parser.parse_args()


def drawn(n: int, d: int, clusters: int, seed: int) -> Rows:
    """Rows (n, d) around as many centres."""
    draws = np.random.default_rng(seed)
    centres = draws.uniform(-4, 4, (clusters, d))
    return centres[draws.integers(clusters, size=n)] + draws.normal(scale=2.0, size=(n, d))


def main() -> None:
    """Prints a line of JSON per contender."""
    args = arguments()
    with threadpool_limits(args.threads), tuskml.connect(threads=args.threads) as con:
        for starts in args.starts:
            large = drawn(args.rows, 20, args.clusters, 1)
            for name, run in large_runs(con, large, args, starts):
                told(f"{name}, {args.rows} x 20, {starts} starts", args.repeat, run)
            small = drawn(args.groups * 100, 4, args.clusters, 2)
            for name, run in small_runs(con, small, args, starts):
                told(f"{name}, groups of 100 x 4, {starts} starts", args.repeat, run)


def told(name: str, repeat: int, run: Callable[[], Result]) -> None:
    """Runs a contender several times."""
    clock, processor, found = [], [], (0.0, 0)
    for _ in range(repeat):
        began, used = time.perf_counter(), time.process_time()
        found = run()
        clock.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    times = {"clock": statistics.median(clock), "processor": statistics.median(processor)}
    about = {"contender": name} | {k: round(v, 3) for k, v in times.items()}
    print(json.dumps(about | {"loss": found[0], "iterations": found[1]}), flush=True)


def large_runs(
    con: Any, x: Rows, args: argparse.Namespace, starts: int
) -> Iterator[tuple[str, Callable[[], Result]]]:
    """Yields runs on one group, by tuskml with its default algorithm and by Lloyd's
    iterations, and by scikit-learn.
    """
    from sklearn.cluster import KMeans, MiniBatchKMeans

    names = [f"x{j}" for j in range(x.shape[1])]
    table = pa.table({name: x[:, j] for j, name in enumerate(names)})
    con.register("arrow", table)
    con.execute("CREATE OR REPLACE TABLE large AS FROM arrow")
    for algorithm in ("auto", "lloyd"):
        options = {"clusters": args.clusters, "starts": starts, "algorithm": algorithm}
        call = f"train_model('kmeans', NULL, [{', '.join(names)}], '{json.dumps(options)}')"

        def ours(sql: str = f"SELECT m.loss, m.iterations FROM (SELECT {call} AS m FROM large)"):
            return con.execute(sql).fetchall()[0]

        yield f"tuskml, {algorithm}", ours
    for kind in (KMeans, MiniBatchKMeans):

        def theirs(kind: Any = kind) -> Result:
            found = kind(args.clusters, n_init=starts, random_state=1).fit(x)
            return float(found.inertia_) / len(x), int(found.n_iter_)

        yield f"scikit-learn, {kind.__name__}", theirs


def small_runs(
    con: Any, x: Rows, args: argparse.Namespace, starts: int
) -> Iterator[tuple[str, Callable[[], Result]]]:
    """Yields runs on all groups by tuskml, and on some of them by scikit-learn: the mean loss,
    and no iterations.
    """
    from sklearn.cluster import KMeans

    table = pa.table({f"x{j}": x[:, j] for j in range(4)} | {"g": np.arange(len(x)) // 100})
    con.register("arrow", table)
    con.execute("CREATE OR REPLACE TABLE small AS FROM arrow")
    options = json.dumps({"clusters": args.clusters, "starts": starts})
    call = f"train_model('kmeans', NULL, [x0, x1, x2, x3], '{options}')"

    def ours(groups: int) -> Result:
        sql = f"SELECT {call} AS m FROM small WHERE g < {groups} GROUP BY g"
        return con.execute(f"SELECT avg(m.loss), count(*) FROM ({sql})").fetchall()[0]

    def theirs() -> Result:
        losses = [
            KMeans(args.clusters, n_init=starts, random_state=1).fit(x[at : at + 100]).inertia_
            for at in range(0, 100 * args.sample, 100)
        ]
        return float(np.mean(losses)) / 100, args.sample

    yield f"tuskml, {args.groups}", lambda: ours(args.groups)
    yield f"tuskml, {args.sample}", lambda: ours(args.sample)
    yield f"scikit-learn, {args.sample}", theirs


if __name__ == "__main__":
    main()
