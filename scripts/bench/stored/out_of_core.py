"""Weights larger than memory, four ways: by routes, by key, memory-mapped, and in memory.

    out_of_core.py [--weights 32MiB] [--caches 4MiB] [--each 1.5] [--data uniform|tail]
                   [--epochs 3] [--threads 2] [--kv-share 0.01] [--mapped-share 1] [--minutes 60]
                   [--store DIR] [--json FILE]

weights: bytes of a float per id; each: entries of the rows per id. Contenders, each a process of
its own that begins cold: `routes` is the default; `KV` has a key for each feature (option
partition 0), on a share of the rows, and so with fewer features, its seconds scaled up; `mapped`
is the same HogBatch on a memory-mapped float array of all ids, `mapped, random` with MADV_RANDOM,
where asked for on a share of the rows as well, which still touch all pages of the array;
and `memory` has no store. Pages of the store's files are dropped every 20 ms, so that `cache` is
what there is; those of the memory-mapped array whenever they exceed twice the cache, so that on
average it has as much. Seconds per epoch are the median after the first; total seconds are of the
whole training with packing, planning and sealing; those of the processor include a count of the
features too. Bytes are those of /proc/self/io, per pass over the rows, the one for the objective
included; features are an estimate.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, nullcontext
from mmap import MADV_RANDOM
from pathlib import Path
from typing import Any

import cliff
import machine
import mapped_weights

CONTENDERS = ("routes", "mapped", "mapped, random", "KV", "memory")
ASKED = {"KV": 3.0, "mapped": 1.5}


def main() -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--weights", default="32MiB")
    made.add_argument("--caches", default="4MiB")
    made.add_argument("--each", type=float, default=cliff.EACH)
    made.add_argument("--data", choices=("uniform", "tail"), default="uniform")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--epochs", type=int, default=3)
    made.add_argument("--kv-share", type=float, default=0.01)
    made.add_argument("--mapped-share", type=float, default=1.0)
    made.add_argument("--minutes", type=float, default=60, help="for a contender at most")
    made.add_argument("--contenders", default=";".join(CONTENDERS), help="separated by ;")
    made.add_argument("--store", type=Path, default=Path.cwd())
    made.add_argument("--json", type=Path)
    made.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = made.parse_args()
    if given.one:
        print(json.dumps(one(*given.one, given)))
        return
    print(machine.sentence(machine.facts()))
    rows = []
    for cache in given.caches.split(","):
        each = {name: apart(name, cache, given) for name in given.contenders.split(";")}
        found = {name: row for name, row in each.items() if row is not None}
        print(f"\nweights {given.weights}, cache {cache}, load {os.getloadavg()[0]:.1f}")
        for name, row in found.items():
            rows.append({"cache": cache, "contender": name} | row)
            print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
        for name in set(each) - set(found):
            print(f"contender {name}: not done after {given.minutes:g} minutes", flush=True)
        goals(found)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


def goals(found: dict[str, dict[str, Any]]) -> None:
    """How many times faster than the others, by epoch."""
    for other, asked in ASKED.items():
        able = [row["s/epoch"] for name, row in found.items() if name.startswith(other)]
        if able and "routes" in found:
            reached = min(able) / found["routes"]["s/epoch"]
            print(f"  goal: {other} / routes: {reached:.2f}, asked >= {asked:g}")


def apart(name: str, cache: str, given: argparse.Namespace) -> dict[str, Any] | None:
    """A contender in a process of its own; None where it takes too long."""
    run = Path(__file__).resolve().parents[1] / "run.py"
    command = [sys.executable, str(run), "out_of_core", *sys.argv[1:], "--one", name, cache]
    with tempfile.TemporaryDirectory(dir=given.store) as store:
        command += ["--store", store]
        try:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, text=True, check=True, timeout=60 * given.minutes
            )
        except subprocess.TimeoutExpired:
            return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def one(name: str, cache: str, given: argparse.Namespace) -> dict[str, Any]:
    """Trains it; what is on the page about it."""
    n, size = cliff.size_of(given.weights) // 4, cliff.size_of(cache)
    mapped = name.startswith("mapped")
    share = given.kv_share if name == "KV" else given.mapped_share if mapped else 1.0
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=given.store)))
        con = stack.enter_context(cliff.connected(root, given.threads))
        cliff.EACH = given.each * share
        cliff.fill(con, n, given.data)
        limit = 0
        if mapped:
            limit = 2 * size
            advice = MADV_RANDOM if "random" in name else None
            stack.enter_context(mapped_weights.mapped(advice))
        memory = None if name == "memory" else cache
        more = {"partition": 0} if name == "KV" else {}
        before, busy = disk_bytes(), time.process_time()
        held = mapped_weights.Mapped.live
        with nullcontext() if name == "memory" else cliff.squeezed(root, limit, held):
            trained = cliff.train(con, memory, given, more)
        busy = time.process_time() - busy
        after = disk_bytes()
    passes = given.epochs + 1
    return {
        "s/epoch": round(trained["epoch"] / share, 3),
        "total s": round(trained["seconds"] / share, 2),
        "cpu s": round(busy / share, 2),
        "read MB": round((after[0] - before[0]) / passes / share / 1e6, 1),
        "written MB": round((after[1] - before[1]) / passes / share / 1e6, 1),
        "loss": round(trained["loss"], 5),
        "features": trained["live"],
        "share of rows": share,
        "plan": trained["plan"].split(", ", 4)[-1],
    }


def disk_bytes() -> tuple[int, int]:
    """Bytes that this process had read from and written to disks."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["read_bytes"]), int(lines["write_bytes"])


if __name__ == "__main__":
    main()
