"""A stored model on tmpfs against the same training in memory: figure 7.

    stored_overhead.py [--data splice,movielens] [--threads 1,2] [--epochs 10] [--out DIR]
                       [--methods KV,KV-VP]

Same rows, threads, steps and batches, HogBatch (for ratings the engine's own SGD). All contenders
take turns, those of several numbers of threads too, as more threads must not be slower. Seconds an
epoch are the difference of trainings of one and of --epochs epochs, by their number: what either
does once drops out. Final losses are the engines' own objectives at the weights that they give.
"""

from __future__ import annotations

import argparse
from typing import Any

import stored_plots
import stored_runs
from stored_runs import METHODS, Options, Refused

MEMORY = "in memory"
MOST_SLOWER, MOST_OFF = 1.3, 0.01


def main() -> None:
    """The command line."""
    made = stored_runs.parser(__doc__ or "", "splice,movielens", "1,2")
    made.add_argument("--epochs", type=int, default=10)
    made.add_argument("--cache", default="1GiB", help="of the stored models (default 1GiB)")
    known = list(METHODS)
    made.add_argument("--methods", type=stored_runs.words, default=known, help="beside memory")
    args = made.parse_args()
    facts = stored_runs.begin(args)
    rows: list[dict[str, Any]] = []
    for name in args.data:
        mine = measure(name, args)
        for threads in args.threads:
            compare([row for row in mine if row["threads"] == threads])
        compare_threads(mine, args.threads)
        rows += mine
    stored_runs.write(args, facts, rows)
    if rows:
        draw(rows, args)


def contenders(args: argparse.Namespace) -> dict[str, tuple[str, Options]]:
    """The method and options of each."""
    made: dict[str, tuple[str, Options]] = {}
    for threads in args.threads:
        made[f"{MEMORY}-{threads}"] = MEMORY, {"threads": threads}
        for one in args.methods:
            made[f"{one}-{threads}"] = one, stored_runs.stored(one, threads, args.cache)
    return made


def measure(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds an epoch and final loss of all."""
    data = stored_runs.data_of(name, args)
    stored_runs.say(name)
    rows: list[dict[str, Any]] = []
    made = contenders(args)
    options = {text: options for text, (_, options) in made.items()}
    for text, timed in stored_runs.timed_in_turns(options, data, args.epochs, args).items():
        if isinstance(timed, Refused):
            stored_runs.say(f"  {text}: {timed}")
            continue
        asked, loss = timed.model.asked if timed.model.counters else 0, timed.model.loss
        stored_runs.say(
            f"  {text}: {timed.epoch:.4g} s an epoch, loss {loss:.6g}, "
            f"{asked:,.0f} keys a pass, once {timed.before:.3g} s"
        )
        about = {"data": name, "threads": made[text][1]["threads"], "method": made[text][0]}
        rows.append(about | timed.as_dict())
    return rows


def compare_threads(rows: list[dict[str, Any]], threads: list[int]) -> None:
    """The most threads against the fewest: they must not be slower."""
    for method in dict.fromkeys(row["method"] for row in rows):
        at = {row["threads"]: row["epoch"] for row in rows if row["method"] == method}
        few, many = min(threads), max(threads)
        if few < many and few in at and many in at:
            text = f"{method}, time an epoch, {many} threads against {few}"
            stored_runs.goal(text, at[many] / at[few], 1, at_least=False)


def compare(rows: list[dict[str, Any]]) -> None:
    """Time and loss against those in memory."""
    base = next((row for row in rows if row["method"] == MEMORY), None)
    if base is None:
        return
    for row in (row for row in rows if row is not base):
        text = f"{row['data']}, {row['method']}-{row['threads']} against memory"
        off = (row["model"]["loss"] - base["model"]["loss"]) / abs(base["model"]["loss"])
        ratio = row["epoch"] / base["epoch"]
        if row["method"] == "KV-VP":
            stored_runs.goal(f"{text}, time an epoch", ratio, MOST_SLOWER, at_least=False)
        else:
            stored_runs.say(f"  {text}, time an epoch: {ratio:.3g}")
        stored_runs.goal(f"{text}, loss {off:+.2%}, apart by", abs(off), MOST_OFF, at_least=False)


def draw(rows: list[dict[str, Any]], args: argparse.Namespace) -> None:
    """Figure 7."""
    names = list(dict.fromkeys(row["data"] for row in rows))
    at = {(row["data"], row["method"], row["threads"]): row["epoch"] for row in rows}
    figure, axes = stored_plots.panels(len(names))
    for name, ax in zip(names, axes, strict=True):
        heights = {
            method: [at.get((name, method, n)) for n in args.threads]
            for method in (MEMORY, *reversed(args.methods))
        }
        stored_plots.bars(ax, [str(n) for n in args.threads], heights)
        stored_plots.dress(ax, f"{name}, store on tmpfs", "threads", "time of an epoch (s)")
        ax.legend(frameon=False, fontsize="small")
    stored_plots.save(figure, args.out, "stored_overhead")


if __name__ == "__main__":
    main()
