"""Weights larger than memory, four ways: by routes, by key, memory-mapped, and in memory.

    out_of_core.py [--weights 128MiB] [--caches 16MiB] [--each 1.5] [--data uniform|tail]
                   [--epochs 3] [--threads 2] [--shares "mapped=0.02;KV=0.01"] [--minutes 60]
                   [--slack 64MiB] [--contenders A;B] [--store DIR] [--json FILE] [--begin FILE]

weights: bytes of a float per id; each: entries of the rows per id, 60 in a row. Contenders, each a
process of its own: `routes` is the default; `KV` has a key for each feature (option method kv);
`mapped` is the same HogBatch on a memory-mapped float array of all ids, `mapped, random` with
MADV_RANDOM; `memory` has no store. Rows are the same for all, written straight into packed form,
those of a share the first ones: the array still has all its pages, while KV has fewer features,
and a cache as many times smaller (2 MiB at least).

With its rows in memory a contender joins a memory cgroup of `cache` and `slack` bytes, which holds
its page cache and all that it allocates from then on. The slack is for what no cache counts: a
training's tables, stacks, the interpreter. Without cgroups pages of its files are dropped every
20 ms instead, those of the array where they exceed cache and slack. `memory` has no limit.

Seconds are those after joining: of the first epoch, of the median of the others, and of the
whole training, cold at first, with planning, the objective and sealing; the time of passes is
divided by the share. Goals compare first epochs of KV and the array with the slower one of routes:
later, the pages of a small share of the rows are in the cache. The array is taken by its faster
setting, needs no plan, and is charged for none. Bytes are those of /proc/self/io per pass over the
rows, the objective's included, and divided by the share too.

begin: with its rows in memory a contender waits for this file, so that a measurement which has the
machine for itself need not last until they are made.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from mmap import MADV_RANDOM
from pathlib import Path
from typing import Any

import cliff
import machine
import mapped_weights
import memory_group
import numpy as np
import stored_data
from data import draw_labels
from rowblock import sparse_segments

CONTENDERS = ("routes", "mapped", "mapped, random", "KV", "memory")
ASKED = {"KV": 3.0, "mapped": 1.5}
SEGMENT_ROWS = 1 << 16
LEAST_CACHE = 2 << 20
MOST_IDS = (1 << 31) - 1
"""Ids of packed rows: 8 GiB of weights less one."""
LOOK = 0.02
"""Seconds between two looks at the memory that is held."""
FIRST, NEXT = "first epoch s", "next epochs s"
PHASES = ("layout", "map", "objective", "seal")


def main() -> None:
    """The command line."""
    args = parser().parse_args()
    if args.one:
        print(json.dumps(one(*args.one, args)))
        return
    print(machine.sentence(machine.facts()))
    rows = []
    for cache in args.caches.split(","):
        print(f"\nweights {args.weights}, cache {cache}, load {os.getloadavg()[0]:.1f}")
        found = {}
        for name in args.contenders.split(";"):
            row = apart(name, cache, args, sys.argv[1:])
            rows.append({"cache": cache, "contender": name} | row)
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
            found[name] = row
        goals(found)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=2) + "\n")


def parser() -> argparse.ArgumentParser:
    """The parser of its options."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--weights", default="128MiB")
    made.add_argument("--caches", default="16MiB")
    made.add_argument("--each", type=float, default=cliff.EACH)
    made.add_argument("--data", choices=("uniform", "tail"), default="uniform")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--epochs", type=int, default=3)
    made.add_argument("--shares", default="", help="NAME=SHARE of the rows; separated by ;")
    made.add_argument("--minutes", type=float, default=60, help="for a contender at most")
    made.add_argument("--slack", default="64MiB")
    made.add_argument("--contenders", default=";".join(CONTENDERS), help="separated by ;")
    made.add_argument("--store", type=Path, default=Path.cwd())
    made.add_argument("--json", type=Path)
    made.add_argument("--begin", type=Path, help="file to wait for")
    made.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    return made


def goals(found: dict[str, dict[str, Any]]) -> None:
    """Prints the ratios to the others: of a whole training, and of an epoch."""
    routes = found.get("routes", {})
    if "total s" not in routes:
        return
    ours = {"total s": routes["total s"], FIRST: max(routes[FIRST], routes[NEXT])}
    for (other, asked), what in itertools.product(ASKED.items(), ours):
        able = [row[what] for name, row in found.items() if name.startswith(other) and what in row]
        if able:
            reached = min(able) / ours[what]
            print(f"  goal: {other} / routes, {what}: {reached:.2f}, asked >= {asked:g}")


# --- a contender ---


def apart(name: str, cache: str, args: argparse.Namespace, arguments: list[str]) -> dict[str, Any]:
    """Runs a contender in a process of its own, in a memory group; returns its output.

    arguments: those of `given`.
    """
    run = Path(__file__).resolve().parents[1] / "run.py"
    command = [sys.executable, str(run), "out_of_core", *arguments]
    share = share_of(name, args)
    with ExitStack() as stack:
        size = cache_of(name, cache, share) + cliff.size_of(args.slack)
        group, limit = None, "none"
        if name != "memory":
            try:
                group = stack.enter_context(memory_group.limited(size))
                limit = f"cgroup v{group.version} of {size / 2**20:.0f} MiB"
            except memory_group.NoGroup as error:
                limit = f"pages dropped, as there is no cgroup ({error})"
        store = stack.enter_context(tempfile.TemporaryDirectory(dir=args.store))
        command += ["--store", store, "--one", name, cache, str(group.path) if group else ""]
        load = os.getloadavg()[0]
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, timeout=60 * args.minutes, check=False
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"not done after {args.minutes:g} minutes", "limit": limit}
        if done.returncode:
            killed = " by the kernel, out of memory" if group and group.killed else ""
            return {"failed": f"ended with {done.returncode}{killed}", "limit": limit}
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found | {"limit": limit, "load": round((load + os.getloadavg()[0]) / 2, 1)}


def share_of(name: str, args: argparse.Namespace) -> float:
    """The contender's share of the rows."""
    shares = dict(part.split("=") for part in args.shares.split(";") if part)
    return float(shares.get(name, shares.get(name.partition(",")[0], 1)))


def cache_of(name: str, cache: str, share: float) -> int:
    """Bytes; for KV, whose features are as many times fewer as its rows, that share."""
    size = cliff.size_of(cache)
    return max(LEAST_CACHE, int(size * share)) if name == "KV" else size


def one(name: str, cache: str, group: str, args: argparse.Namespace) -> dict[str, Any]:
    """Trains it."""
    share = share_of(name, args)
    size = cache_of(name, cache, share)
    options = options_of(name, size, args)
    n = min(cliff.size_of(args.weights) // 4, MOST_IDS)
    rows, kept = packed(n, share, args)
    while args.begin and not args.begin.exists():
        time.sleep(LOOK)
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=args.store)))
        warm(root, options)
        limit = size + cliff.size_of(args.slack)
        entry = Entry(root, Path(group) if group else None, limit, name.startswith("mapped"))
        stack.callback(entry.close)
        if name.startswith("mapped"):
            advice = MADV_RANDOM if "random" in name else None
            stack.enter_context(mapped_weights.mapped(advice, entry))
        elif name != "memory":
            entry()
        else:
            entry.mark()
        found = trained(rows, options, root)
        row = told(found, entry, share)
    del kept
    return row


def options_of(name: str, cache: int, args: argparse.Namespace) -> dict[str, Any]:
    """The options of its training."""
    options = {
        "threads": args.threads,
        "max_iter": args.epochs,
        "epsilon": 0,
        "schedule": "constant",
        "step": 1 / cliff.ENTRIES,
        "algorithm": "hogbatch",
        "l2": 0,
    }
    if name != "memory":
        options |= {"store": "weights", "cache": f"{cache / 2**20:.3f}MiB"}
    return options | ({"method": "kv"} if name == "KV" else {})


def told(found: dict[str, Any], entry: Entry, share: float) -> dict[str, Any]:
    """The printed results of a training that just ended."""
    whole = time.perf_counter() - entry.began
    moved, busy = entry.moved(), time.process_time() - entry.busy
    epochs, counters = found["epochs"], found["counters"]
    phases = {key: counters["seconds"].get(key, 0.0) for key in PHASES} if counters else {}
    passes = sum(epochs) + phases.get("objective", 0.0)
    n_passes = len(epochs) + 1
    return {
        "s/epoch": round(statistics.median(epochs) / share, 3),
        FIRST: round(epochs[0] / share, 3),
        NEXT: round(statistics.median(epochs[1:] or epochs) / share, 3),
        "total s": round(whole - passes + passes / share, 2),
        "cpu s": round(busy, 2),
        "phases": {key: round(value, 2) for key, value in phases.items()},
        "epochs": [round(value / share, 2) for value in epochs],
        "read MB": round(moved[0] / n_passes / share / 1e6, 1),
        "written MB": round(moved[1] / n_passes / share / 1e6, 1),
        "loss": round(found["loss"], 5),
        "share of rows": share,
        "peak MiB": round(entry.peak / 2**20, 1),
        "plan": found["plan"].split(", ", 4)[-1],
    }


def packed(n: int, share: float, args: argparse.Namespace) -> Any:
    """The first rows, by a share: a group, and the object that owns its memory."""
    total = int(n * args.each) // cliff.ENTRIES
    what = stored_data.Sparse("tail", total, n, cliff.ENTRIES, 1.0, 5)

    def parts() -> Iterator[Any]:
        for first in range(0, max(1, int(total * share)), SEGMENT_ROWS):
            count = min(SEGMENT_ROWS, max(1, int(total * share)) - first)
            rng = np.random.default_rng((5, first))
            shape = count, cliff.ENTRIES
            if args.data == "uniform":
                ids = rng.integers(0, n, shape, np.int32)
            else:
                ids = stored_data.zipf_ids(rng, count * cliff.ENTRIES, what).astype(np.int32)
                ids = ids.reshape(shape)
            margin = stored_data.truth(ids).sum(axis=1) / np.sqrt(cliff.ENTRIES / 4)
            yield ids, draw_labels(rng, margin)

    return sparse_segments(parts(), n)


def trained(rows: Any, options: dict[str, Any], root: Path) -> dict[str, Any]:
    """Trains on packed rows; seconds of each epoch as reported."""
    from tuskml.groups.stored import train_stored
    from tuskml.learners import events, registry
    from tuskml.learners.learner import Request
    from tuskml.learners.registry import learner_of, task_named

    task = task_named("logistic")
    learner = learner_of(task)
    request: Any = Request(task, registry.options_of(task, json.dumps(options)))
    times: list[float] = []
    with events.listening(lambda event: event.iteration and times.append(time.perf_counter())):
        if "store" in options:
            with timed() as each:
                (model,) = train_stored(rows, request, 0, str(root))
        else:
            (model,) = learner.train(rows, request, 0)
            each = [b - a for a, b in itertools.pairwise(times[: options["max_iter"]])]
    return {
        "epochs": each,
        "loss": float(model.loss[0]),
        "counters": json.loads(model.options.pool[model.options.code[0]]).get("counters"),
        "plan": model.plan.pool[model.plan.code[0]],
    }


@contextmanager
def timed() -> Iterator[list[float]]:
    """Seconds of each epoch of stored trainings."""
    from tuskml.learners.linear.stored.online import Online

    each: list[float] = []
    kept = Online._epoch

    def epoch(self: Online) -> float:
        began = time.perf_counter()
        loss = kept(self)
        each.append(time.perf_counter() - began)
        return loss

    Online._epoch = epoch  # type: ignore[method-assign]
    try:
        yield each
    finally:
        Online._epoch = kept  # type: ignore[method-assign]


def warm(root: Path, options: dict[str, Any]) -> None:
    """Imports and maps the needs of a training, by one on a few rows."""
    ids = np.arange(4 * cliff.ENTRIES, dtype=np.int32).reshape(4, cliff.ENTRIES)
    rows, kept = sparse_segments([(ids, np.array([True, False] * 2))], ids.size)
    trained(rows, options | {"max_iter": 2}, root)
    del kept


class Entry:
    """The start of a contender's seconds and bytes, and its limit."""

    def __init__(self, root: Path, group: Path | None, limit: int, mapped: bool) -> None:
        self.root, self.group, self.limit, self.mapped = root, group, limit, mapped
        self._stack, self.peak = ExitStack(), 0.0
        self.mark()

    def __call__(self) -> None:
        """Begins."""
        if self.group:
            memory_group.join(self.group)
            self._stack.enter_context(self._watched(self.group))
        else:
            most = self.limit if self.mapped else 0
            held = mapped_weights.Mapped.live
            self._stack.enter_context(cliff.squeezed(self.root, most, held))
        self.mark()

    @contextmanager
    def _watched(self, group: Path) -> Iterator[None]:
        """Notes the peak memory of the group's processes, without its page cache."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(LOOK):
                self.peak = max(self.peak, memory_group.held(group))

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def mark(self) -> None:
        """Without a limit."""
        self.began, self.busy, self._before = (
            time.perf_counter(),
            time.process_time(),
            disk_bytes(),
        )

    def moved(self) -> tuple[int, int]:
        """Bytes read and written since."""
        reads, writes = disk_bytes()
        return reads - self._before[0], writes - self._before[1]

    def close(self) -> None:
        """Ends the limit."""
        self._stack.close()


def disk_bytes() -> tuple[int, int]:
    """Bytes that this process had read from and written to disks."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"]), int(lines["write_bytes"])


if __name__ == "__main__":
    main()
