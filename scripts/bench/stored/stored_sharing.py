"""Payloads that threads read: shared by the cache alone, or pushed to those that need them next.

    stored_sharing.py [--threads 2,4,8,16] [--cliques 400000] [--cache 16MB] [--repeat 1]

Rows as in stored_affinity.py, the cache smaller than the model; medians of interleaved trainings
with option `sharing` of "cache" and "push" (Qin, Torres, Rusu, VLDB 2017, section 4.2). A key is
pushed if another thread read it and handed it over before it was asked for. More threads than
cores show requests and bytes, not speed. Chunks of rows are smaller with more threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import machine
import stored_affinity

WAYS = ("cache", "push")
COUNTED = ("requests", "saved_by_pushing", "cache_hits", "bytes_read", "bytes_written")


def main() -> None:
    """The command line."""
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = made.add_argument
    add("--threads", default="2,4,8,16")
    add("--cliques", type=int, default=400_000)
    add("--times", type=int, default=3, help="rows that a clique is in, on average")
    add("--cache", default="16MB")
    add("--epochs", type=int, default=2)
    add("--repeat", type=int, default=1, help="runs behind each median (%(default)s)")
    add("--store", type=Path, default=Path("build"), help="where stores lie (%(default)s)")
    args = made.parse_args()
    print(machine.sentence(machine.facts()))
    rows = stored_affinity.drawn(args.cliques, args.times, mixed=False)
    for threads in map(int, args.threads.split(",")):
        found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
        for _ in range(args.repeat):
            for way in WAYS:
                more = {"threads": threads, "sharing": way}
                found[way].append(stored_affinity.train(rows, "affinity", args, **more))
        for way in WAYS:
            print(line(threads, way, found[way]), flush=True)


def line(threads: int, way: str, models: list[dict[str, Any]]) -> str:
    """Medians, for people; seconds an epoch are those of one worker."""
    counters = [json.loads(model["options"])["counters"] for model in models]
    counts = {name: statistics.median(one[name] for one in counters) for name in COUNTED}
    busy = statistics.median(
        sum(one["seconds"][name] for name in ("acquire", "train", "release"))
        / model["iterations"]
        / threads
        for one, model in zip(counters, models, strict=True)
    )
    return (
        f"{threads:>3} threads, {way:>5}: {counts['requests']:>10,.0f} requests, "
        f"{counts['saved_by_pushing']:>9,.0f} pushed, {counts['cache_hits']:>10,.0f} hits, "
        f"{counts['bytes_read'] / 1e6:>7,.1f} MB read, {counts['bytes_written'] / 1e6:>7,.1f} MB "
        f"written, epoch {busy:.2f} s, loss {models[-1]['loss']:.5f}"
    )


if __name__ == "__main__":
    main()
