"""Seconds per epoch as the model outgrows the cache.

    cliff.py [--cache 2MiB] [--ratios 0.5,1,2,4,8,16,32,64] [--data uniform|tail] [--threads 2]
             [--epochs 3] [--store DIR] [--keep-pages] [--json FILE] [--out DIR]
    cliff.py --group 32MiB [--cache 16MiB] [--in-memory 16] [--minutes 20] [the others]
    cliff.py --options [--cache 16MB] [--rows 250000] [--width 30] [--features 9000000]
    cliff.py --draw FILE [FILE ...] [--out DIR]     # the picture of --group's results

Live bytes are those of the weights of features that occur, four bytes each. Per point: seconds per
epoch (median of the epochs); megabytes of weights that an epoch must read and write once per chunk
of rows; the bound, which is those bytes at the sequential bandwidth measured in this run (reading
and writing past the page cache) plus the seconds per epoch of the same training without a store;
and the ratio of seconds to bound. The page cache is emptied of the training's
files all the time (posix_fadvise), so that the disk is the disk, unless --keep-pages is given.

With --group each training is a process of its own in a memory cgroup of `cache` and so much more,
which holds its page cache too, and rows are packed without a database (out_of_core.py). There the
training in memory is run up to --in-memory times the cache; beyond that its seconds per row are
those of the last point, which is less than they would be.

With --options one epoch on rows of --width ids, drawn from --features, is trained with each option
that once changed where weights lie: processor seconds, requests and megabytes.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import math
import mmap
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Protocol

import duckdb
import machine

ASKED = 2.0
ENTRIES = 60
"""Per row."""
EACH = 1.5
"""Entries per feature of uniform data, of which then 78 % occur."""
PROBE = 256 << 20
TICK = 0.02
"""Seconds between two times that pages are dropped."""
CACHESTAT = 451
KEPT = (
    "s/epoch",
    "read MB",
    "written MB",
    "total s",
    "cpu s",
    "phases",
    "peak MiB",
    "loss",
    "plan",
)
"""Results of out_of_core.py that are kept."""


def main() -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--cache", default="2MiB")
    made.add_argument("--ratios", default="0.5,1,2,4,8,16,32,64")
    made.add_argument("--data", choices=("uniform", "tail"), default="uniform")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--epochs", type=int, default=3)
    made.add_argument("--store", type=Path, default=Path.cwd())
    made.add_argument("--keep-pages", action="store_true")
    made.add_argument("--group", help="bytes of the memory cgroup beside the cache")
    made.add_argument("--in-memory", type=float, default=16)
    made.add_argument("--minutes", type=float, default=20, help="for a training in a group")
    made.add_argument("--options", action="store_true", help="one epoch with each option")
    made.add_argument("--rows", type=int, default=250_000)
    made.add_argument("--width", type=int, default=30)
    made.add_argument("--features", type=int, default=9_000_000)
    made.add_argument("--json", type=Path)
    made.add_argument("--out", type=Path, help="folder of the picture")
    made.add_argument("--draw", type=Path, nargs="+", help="JSON of runs: draws them, runs none")
    args = made.parse_args()
    if args.draw:
        drawn = [row for file in args.draw for row in json.loads(file.read_text())]
        draw(drawn, args.out or Path("build/figures"))
        return
    print(machine.sentence(machine.facts()))
    if args.options:
        each_option(args)
        return
    rows = []
    with tempfile.TemporaryDirectory(prefix="cliff-", dir=args.store) as root:
        speed = bandwidth(Path(root))
        print(f"disk: reads {speed[0] / 1e6:,.0f} MB/s, writes {speed[1] / 1e6:,.0f} MB/s")
        for ratio in map(float, args.ratios.split(",")):
            if args.group:
                rows.append(group_point(Path(root), ratio, speed, args, rows))
            else:
                rows.append(point(Path(root), ratio, speed, args))
            print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    worst = max(row.get("ratio", math.inf) for row in rows)
    print(f"goal: seconds over bound, worst: {worst}, asked <= {ASKED:g}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")
    if args.out:
        draw(rows, args.out)


OPTIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "warm_start": {"warm_start": "none"},
    "validation": {"validation": 0.1},
    "all": {"warm_start": "none", "validation": 0.1, "l2": 1e-6},
}
"""Options by what a model is called; the first is the start of others."""


def each_option(args: argparse.Namespace) -> None:
    """Trains one epoch with each of OPTIONS, and prints what it took."""
    one = f"(hash(i * {args.width} + j) % {args.features})::INTEGER"
    with (
        tempfile.TemporaryDirectory(prefix="cliff-", dir=args.store) as root,
        connected(Path(root), args.threads) as con,
    ):
        con.execute(
            f"CREATE TABLE t AS SELECT [{one} FOR j IN range({args.width})] AS ids, "
            f"[1.0::FLOAT FOR j IN range({args.width})] AS vals, (hash(i) % 2 = 0) AS y "
            f"FROM range({args.rows}) r(i)"
        )
        for name, more in OPTIONS.items():
            given = {"store": name, "cache": args.cache, "threads": args.threads}
            given |= {"algorithm": "hogbatch", "max_iter": 1, "epsilon": 0} | more
            call = f"train_model('logistic', y, sparse(ids, vals), '{json.dumps(given)}')"
            began = time.process_time(), time.perf_counter()
            found = con.execute(f"SELECT m.plan, m.options FROM (SELECT {call} AS m FROM t)")
            ((plan, text),) = found.fetchall()
            busy, wall = time.process_time() - began[0], time.perf_counter() - began[1]
            counters = json.loads(text)["counters"]
            print(
                f"{name:>10}: processor {busy:.1f} s, wall {wall:.1f} s, "
                f"{counters['requests']:,} requests, {counters['bytes_read'] / 1e6:,.0f} MB read, "
                f"{counters['bytes_written'] / 1e6:,.0f} MB written; {plan}",
                flush=True,
            )


def draw(rows: list[dict[str, Any]], folder: Path) -> None:
    """Seconds per epoch by size; rows: of `group_point`, by size."""
    import stored_plots

    figure, (axes,) = stored_plots.panels(1, 5.6, 3.6)
    stored_plots.sizes(axes, [row for row in rows if "bound" in row])
    stored_plots.dress(axes, "Models that outgrow the cache", "weights / cache", "s per epoch")
    stored_plots.save(figure, folder, "stored_cliff")


def point(
    root: Path, ratio: float, speed: tuple[float, float], args: argparse.Namespace
) -> dict[str, Any]:
    """Measures one size of model."""
    cache = size_of(args.cache)
    n = max(1, int(ratio * cache / 4))
    with connected(root, args.threads) as con:
        fill(con, n, args.data)
        squeezing = nullcontext() if args.keep_pages else squeezed(root)
        whole = train(con, None, args)
        with squeezing:
            some = train(con, args.cache, args)
    bytes_moved = moved_bytes(some["plan"])
    bound = whole["epoch"] + bytes_moved / speed[0] + bytes_moved / speed[1]
    counters = some["counters"]
    passes = args.epochs + 1
    return {
        "live/cache": round(some["live"] * 4 / cache, 2),
        "features": some["live"],
        "s/epoch": round(some["epoch"], 3),
        "in memory": round(whole["epoch"], 3),
        "must move MB": round(bytes_moved / 1e6, 1),
        "read MB": round(counters["bytes_read"] / passes / 1e6, 1),
        "written MB": round(counters["bytes_written"] / passes / 1e6, 1),
        "bound": round(bound, 3),
        "ratio": round(some["epoch"] / bound, 2),
        "plan s": round(sum(counters["seconds"][name] for name in ("layout", "map")), 2),
        "loss": round(some["loss"], 5),
        "loss in memory": round(whole["loss"], 5),
        "routed": bool(bytes_moved),
    }


def group_point(
    root: Path,
    ratio: float,
    speed: tuple[float, float],
    args: argparse.Namespace,
    before: list[dict[str, Any]],
) -> dict[str, Any]:
    """Measures one size of model in a memory cgroup; before: the smaller ones."""
    import out_of_core

    weights = ratio * size_of(args.cache)
    arguments = [
        "--weights",
        f"{weights / 2**20:.3f}MiB",
        "--threads",
        str(args.threads),
        "--epochs",
        str(args.epochs),
        "--data",
        args.data,
        "--slack",
        args.group,
        "--store",
        str(root),
        "--minutes",
        str(args.minutes),
    ]
    asked = out_of_core.parser().parse_args(arguments)
    run = lambda name: out_of_core.apart(name, args.cache, asked, arguments)  # noqa: E731
    row = {"weights/cache": ratio, "load": round(os.getloadavg()[0], 1)}
    if ratio <= args.in_memory or not before:
        whole = run("memory")
        row |= {"in memory": whole["s/epoch"], "loss in memory": whole["loss"]}
    else:
        row["in memory"] = round(before[-1]["in memory"] * ratio / before[-1]["weights/cache"], 3)
    some = run("routes")
    if "failed" in some:
        return row | some
    moved = moved_bytes(some["plan"])
    bound = row["in memory"] + moved / speed[0] + moved / speed[1]
    told = {"must move MB": moved / 1e6, "bound": bound, "ratio": some["s/epoch"] / bound}
    row |= {name: round(value, 3) for name, value in told.items()}
    return row | {name: some[name] for name in KEPT}


def moved_bytes(plan: str) -> float:
    """Bytes that an epoch must move in each direction, by a model's plan; 0: it is in memory."""
    if "MB per epoch" not in plan:
        return 0.0
    return float(plan.partition(" MB per epoch")[0].rpartition(" ")[2].replace(",", "")) * 1e6


@contextmanager
def connected(root: Path, threads: int) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with tuskml."""
    import tuskml

    con = tuskml.connect(threads=threads, store_root=root)
    try:
        con.execute("SET enable_progress_bar = false")
        yield con
    finally:
        con.close()


def fill(con: duckdb.DuckDBPyConnection, n: int, kind: str) -> None:
    """Rows of ENTRIES ids: uniform over n, or by Zipf's law over 10^9 with about n that occur."""
    if kind == "uniform":
        rows, one = int(n * EACH) // ENTRIES, f"(hash(i * {ENTRIES} + j) % {n})::INTEGER"
    else:
        # 24 million entries of Zipf's law have 8.9 million features (stored_data.BILLION)
        rows = int(n * 2.7) // ENTRIES
        unit = f"(hash(i * {ENTRIES} + j) % 1000000007 / 1000000007.0)"
        one = f"((exp({unit} * ln(1e9))::BIGINT * 618033989) % 1000000000)::INTEGER"
    con.execute(
        f"CREATE OR REPLACE TABLE t AS SELECT [{one} FOR j IN range({ENTRIES})] AS ids, "
        f"[1.0::FLOAT FOR j IN range({ENTRIES})] AS vals, (hash(i) % 2 = 0) AS y "
        f"FROM range({max(rows, 64)}) r(i)"
    )


def train(
    con: duckdb.DuckDBPyConnection,
    cache: str | None,
    args: argparse.Namespace,
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A training; seconds per epoch as reported.

    cache: None without a store; more: options.
    """
    from tuskml.learners import events

    options = {
        "threads": args.threads,
        "max_iter": args.epochs,
        "epsilon": 0,
        "step": 1 / ENTRIES,
        "schedule": "constant",
        "algorithm": "hogbatch",
        "l2": 0,
    } | (more or {})
    if cache is not None:
        options |= {"store": "cliff", "cache": cache}
    times: list[float] = []
    with events.listening(lambda event: event.iteration and times.append(time.perf_counter())):
        call = f"train_model('logistic', y, sparse(ids, vals), '{json.dumps(options)}')"
        fields = "m.loss, m.plan, m.options, m.n_features"
        began = time.perf_counter()
        found = con.execute(f"SELECT {fields} FROM (SELECT {call} AS m FROM t)").fetchall()[0]
        seconds = time.perf_counter() - began
    loss, plan, text, _ = found
    times = times[: args.epochs]
    each = [b - a for a, b in itertools.pairwise(times)]
    told = "SELECT approx_count_distinct(id) FROM (SELECT unnest(ids) AS id FROM t)"
    live = con.execute(told).fetchall()  # exact counts take more memory than the rows
    return {
        "loss": loss,
        "plan": plan,
        "counters": json.loads(text).get("counters"),
        "epoch": statistics.median(each),
        "live": live[0][0],
        "seconds": seconds,
    }


def bandwidth(folder: Path) -> tuple[float, float]:
    """Bytes per second read and written in sequence, past the page cache; medians of three."""
    block, found = mmap.mmap(-1, 4 << 20), []
    path = folder / "probe"
    for _ in range(3):
        pair = []
        for flags in (os.O_WRONLY | os.O_CREAT, os.O_RDONLY):
            file = os.open(path, flags | os.O_DIRECT, 0o600)
            began = time.perf_counter()
            for _ in range(PROBE // len(block)):
                if flags & os.O_WRONLY:
                    os.write(file, block)
                else:
                    os.readv(file, [block])
            pair.append(PROBE / (time.perf_counter() - began))
            os.close(file)
        found.append(pair)
    path.unlink()
    writes, reads = (statistics.median(column) for column in zip(*found, strict=True))
    return reads, writes


class Forgets(Protocol):
    """An object that can drop its own pages."""

    def forget(self) -> None: ...


@contextmanager
def squeezed(root: Path, limit: int = 0, held: Sequence[Forgets] = ()) -> Iterator[None]:
    """Repeatedly drops this process's files below `root` from the page cache.

    limit: only while they have more bytes there; held: other objects that drop pages as well.
    """
    ended = threading.Event()

    def forget() -> None:
        while not ended.wait(TICK):
            files = [int(name) for name in os.listdir("/proc/self/fd") if is_below(name, root)]
            if limit and sum(map(cached, files)) <= limit:
                continue
            for one in list(held):
                one.forget()
            for file in files:
                with suppress(OSError):
                    os.fdatasync(file)
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    thread = threading.Thread(target=forget)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def is_below(name: str, root: Path) -> bool:
    """Returns whether a descriptor is of a file there."""
    try:
        return os.readlink(f"/proc/self/fd/{name}").startswith(str(root))
    except OSError:
        return False


def cached(file: int) -> int:
    """Bytes of a file in the page cache, by cachestat(2)."""
    found, whole = (ctypes.c_uint64 * 5)(), (ctypes.c_uint64 * 2)()
    call = ctypes.CDLL(None, use_errno=True).syscall
    if call(CACHESTAT, file, ctypes.byref(whole), ctypes.byref(found), 0):
        return 0
    return int(found[0]) * os.sysconf("SC_PAGE_SIZE")


def size_of(text: str) -> int:
    """Bytes; also below the option's minimum, so that small models behave like large ones."""
    from tuskml.learners.options import kinds

    kinds.LEAST_CACHE = 1 << 20
    return int(kinds.CACHE.parse(text))


if __name__ == "__main__":
    main()
