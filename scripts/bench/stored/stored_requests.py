"""Requests to the store in a pass over the rows, by K and by threads: figures 4d and 5.

    stored_requests.py [--data skewed,splice,matrix,movielens] [--threads 1,2,4,8]
                       [--tops 0,100,1000,10000] [--cache 1GiB] [--epochs 2] [--out DIR]

K features of the highest frequency share keys (Algorithm 3) and each other one has its own; K = 0
is a key a feature, KV. Counted are the keys that a store without a cache is asked for: those read
and those found in memory, but not those that another worker pushed. What is pushed depends on when
workers meet: medians of --repeat runs. Chunks of rows are smaller with more threads, so that the
features, of which a chunk asks each once, are more.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from typing import Any

import stored_plots
import stored_runs
from stored_runs import Data, Refused, Trained

ASKED = {"skewed": 6.0, "movielens": 150.0}
SHOWN = (
    "features",
    "saved_by_partitioning",
    "read_together",
    "saved_by_pushing",
    "cache_hits",
    "requests",
)
Rows = list[dict[str, Any]]


def main() -> None:
    """The command line."""
    made = stored_runs.parser(__doc__ or "", "skewed,splice,matrix,movielens", "1,2,4,8")
    made.add_argument("--tops", type=stored_runs.numbers, default="0,100,1000,10000")
    made.add_argument("--cache", default="1GiB", help="so large that chunks stay large")
    made.add_argument("--epochs", type=int, default=2)
    args = made.parse_args()
    facts = stored_runs.begin(args)
    rows: Rows = []
    for name in args.data:
        data = stored_runs.data_of(name, args)
        stored_runs.say(f"{name}: a pass, in keys\n  {header()}")
        mine = []
        for row in measure(data, args):
            mine.append(row)
            stored_runs.say(f"  {line(row)}")
        rows += mine
        compare(name, mine)
    stored_runs.write(args, facts, rows)
    if rows:
        draw(rows, args)


def measure(data: Data, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row a K and number of threads."""
    for top in args.tops:
        for threads in args.threads:
            options = {
                "store": stored_runs.NAME,
                **keys_of(data, top),
                "threads": threads,
                "cache": args.cache,
                "max_iter": args.epochs,
            }
            try:
                found = [once(data, options, args) for _ in range(args.repeat)]
            except Refused as problem:
                stored_runs.say(f"  K={top}, {threads} threads: {problem}")
                continue
            counts = {name: statistics.median(one.each(name) for one in found) for name in SHOWN}
            yield {
                "data": data.name,
                "top": top,
                "threads": threads,
                "asked": statistics.median(one.asked for one in found),
                **counts,
            }


def keys_of(data: Data, top: int) -> dict[str, Any]:
    """The options of K; a factorization has keys of whole vectors, or of one number each."""
    if "matrix_factorization" in data.call:
        return {"method": "kv-vp" if top else "kv"}
    return {"partition": top}


def once(data: Data, options: dict[str, Any], args: argparse.Namespace) -> Trained:
    """Runs one training in a fresh root."""
    with (
        stored_runs.stores(args.store) as root,
        stored_runs.connected(data, root, max(args.threads)) as con,
    ):
        return stored_runs.train(con, data, options)


def header() -> str:
    """The header of the lines."""
    names = ("asked of store", *(name.replace("_", " ") for name in SHOWN))
    return f"{'K':>7} {'threads':>7} " + " ".join(f"{name:>21}" for name in names)


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    counts = " ".join(f"{row[name]:21,.0f}" for name in ("asked", *SHOWN))
    return f"{row['top']:7,} {row['threads']:7} {counts}"


def compare(name: str, rows: Rows) -> None:
    """Prints the ratio to KV-1, whose every feature of a chunk is a request."""
    base = next((row["asked"] for row in rows if row["top"] == 0 and row["threads"] == 1), None)
    if base is None:
        return
    for row in (row for row in rows if row["top"]):
        text = f"{name}, requests, KV-1 over KV-VP-{row['threads']}, K={row['top']:,}"
        ratio = base / row["asked"]
        if row["threads"] == 1 and name in ASKED:
            stored_runs.goal(text, ratio, ASKED[name], at_least=True)
        else:
            stored_runs.say(f"  {text}: {ratio:.3g}")


def draw(rows: Rows, args: argparse.Namespace) -> None:
    """Figure 4d, at K = 1,000 or else the largest, and figure 5, with the fewest threads."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    merged = [top for top in args.tops if top]
    chosen = 1_000 if 1_000 in merged else (merged or [0])[-1]
    at = {(row["data"], row["top"], row["threads"]): row["asked"] for row in rows}
    figure, axes = stored_plots.panels(len(names))
    for name, ax in zip(names, axes, strict=True):
        heights = {
            "KV": [at.get((name, 0, n)) for n in args.threads],
            "KV-VP": [at.get((name, chosen, n)) for n in args.threads],
        }
        stored_plots.bars(ax, [str(n) for n in args.threads], heights)
        stored_plots.dress(ax, f"{name}, K = {chosen:,}", "threads", "requests a pass (keys)")
        ax.set(yscale="log", ylim=(1, 10 * ax.get_ylim()[1]))
        ax.legend(frameon=False, fontsize="small", ncols=2)
    stored_plots.save(figure, args.out, "stored_requests_threads")
    first = args.threads[0]
    figure, axes = stored_plots.panels(len(names))
    for name, ax in zip(names, axes, strict=True):
        heights = {f"KV-VP-{first}": [at.get((name, top, first)) for top in args.tops]}
        stored_plots.bars(ax, [f"{top:,}" for top in args.tops], heights)
        stored_plots.dress(
            ax,
            f"{name}, threads: {first}",
            "frequent features merged, K",
            "requests a pass (keys)",
        )
        ax.set(yscale="log", ylim=(1, 10 * ax.get_ylim()[1]))
    stored_plots.save(figure, args.out, "stored_requests_top")


if __name__ == "__main__":
    main()
