"""Seconds an epoch by the size of the cache: figure 6.

    stored_cache.py [--data skewed,matrix] [--caches 16MiB,100MiB,1GiB,10GiB] [--threads 2]
                    [--epochs 4] [--methods KV,KV-VP] [--store DIR] [--out DIR]

The paper's caches of 100 MB, 1 GB and 10 GB hold 1 to 80 % of its models; ours are to be chosen
by the model's size, which is printed (16 MB is the least that the option takes). The page cache of
the operating system stands behind a store on a disk, as in the paper.
"""

from __future__ import annotations

import argparse
from typing import Any

import stored_plots
import stored_runs
from stored_runs import METHODS, Refused

ASKED = 2.0


def main() -> None:
    """The command line."""
    made = stored_runs.parser(__doc__ or "", "skewed,matrix", "2")
    caches = "16MiB,100MiB,1GiB,10GiB"
    made.add_argument("--caches", type=stored_runs.words, default=caches, help="smallest first")
    made.add_argument("--epochs", type=int, default=4)
    made.add_argument("--methods", type=stored_runs.words, default="KV,KV-VP")
    args = made.parse_args()
    facts = stored_runs.begin(args)
    rows: list[dict[str, Any]] = []
    for name in args.data:
        for threads in args.threads:
            mine = measure(name, threads, args)
            compare(name, threads, args.caches, mine)
            rows += mine
    stored_runs.write(args, facts, rows)
    if rows:
        draw(rows, args)


def measure(name: str, threads: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Every method with every cache."""
    data = stored_runs.data_of(name, args)
    stored_runs.say(f"{name}, {threads} threads")
    rows: list[dict[str, Any]] = []
    for method in args.methods:
        for memory in args.caches:
            options = stored_runs.stored(method, threads, memory)
            with (
                stored_runs.stores(args.store) as root,
                stored_runs.connected(data, root, threads) as con,
            ):
                try:
                    timed = stored_runs.timed(con, data, options, args.epochs, args.repeat)
                except Refused as problem:
                    stored_runs.say(f"  {method}, cache {memory}: {problem}")
                    continue
                sealed = sum(file.stat().st_size for file in root.rglob("*") if file.is_file())
            model = timed.model
            stored_runs.say(
                f"  {method}, cache {memory}: {timed.epoch:.4g} s an epoch, "
                f"{model.each('requests'):,.0f} keys read a pass, "
                f"{model.each('cache_hits'):,.0f} found in memory; files {sealed / 1e6:.0f} MB"
            )
            about = {"data": name, "threads": threads, "method": method, "cache": memory}
            rows.append(about | {"files_bytes": sealed} | timed.as_dict())
    return rows


def compare(name: str, threads: int, caches: list[str], rows: list[dict[str, Any]]) -> None:
    """The smallest cache against the largest."""
    for method in METHODS:
        seconds = {row["cache"]: row["epoch"] for row in rows if row["method"] == method}
        if caches[0] not in seconds or caches[-1] not in seconds:
            continue
        ratio = seconds[caches[0]] / seconds[caches[-1]]
        text = f"{name}, {method}-{threads}, cache {caches[0]} against {caches[-1]}"
        if method == "KV-VP":
            stored_runs.goal(text, ratio, ASKED, at_least=False)
        else:
            stored_runs.say(f"  {text}: {ratio:.3g}")


def draw(rows: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Figure 6."""
    panels = list(dict.fromkeys((row["data"], row["threads"]) for row in rows))
    at = {(row["data"], row["threads"], row["method"], row["cache"]): row["epoch"] for row in rows}
    figure, axes = stored_plots.panels(len(panels))
    for (name, threads), ax in zip(panels, axes, strict=True):
        heights = {
            method: [at.get((name, threads, method, memory)) for memory in args.caches]
            for method in args.methods
        }
        stored_plots.bars(ax, args.caches, heights)
        stored_plots.dress(ax, f"{name}, {threads} threads", "cache", "time of an epoch (s)")
        ax.set(yscale="log", ylim=(ax.get_ylim()[1] / 1e4, 10 * ax.get_ylim()[1]))
        ax.legend(frameon=False, fontsize="small")
    stored_plots.save(figure, args.out, "stored_cache")


if __name__ == "__main__":
    main()
