"""Loss over time of KV and KV-VP, seconds an epoch and speedup: figure 4a to 4c.

    stored_convergence.py [--data skewed,splice,matrix,movielens] [--threads 1,2]
                          [--caches 16MiB,1GiB] [--epochs 10] [--store DIR] [--out DIR]

KV is a key a feature, KV-VP vertically partitioned (K = 1,000); same data, threads, steps and
batches. Time runs over the epochs, as in the paper; the offline stage is shown apart. An epoch's
time is the difference of trainings of one and of --epochs epochs; beside it is what its workers
counted. Its loss is that of each row before its own update. Two methods reach the same loss when
each reaches the higher of their lowest ones, interpolated between epochs. The first cache
should not hold the model, and the last should.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np
import stored_plots
import stored_runs
from stored_runs import METHODS, Refused, Timed

ASKED = {"skewed": 5.0, "splice": 3.0, "matrix": 3.0, "movielens": 15.0}
Key = tuple[str, str, str, int]  # data set, cache, method, threads
Results = dict[Key, Timed]


def main() -> None:
    """The command line."""
    made = stored_runs.parser(__doc__ or "", "skewed,splice,matrix,movielens", "1,2")
    made.add_argument(
        "--caches", type=stored_runs.words, default="16MiB,1GiB", metavar="SIZE,SIZE"
    )
    made.add_argument("--epochs", type=int, default=10)
    args = made.parse_args()
    facts = stored_runs.begin(args)
    results: Results = {}
    for name in args.data:
        for memory in args.caches:
            measure(name, memory, args, results)
            compare(name, memory, args.threads, results)
    stored_runs.write(args, facts, [row(key, timed) for key, timed in results.items()])
    for memory in args.caches:
        draw(memory, args, results)


def measure(name: str, memory: str, args: argparse.Namespace, results: Results) -> None:
    """Runs every method with every number of threads; prints and skips the rejected ones."""
    data = stored_runs.data_of(name, args)
    stored_runs.say(f"{name}, cache {memory}")
    for threads in args.threads:
        made = {method: stored_runs.stored(method, threads, memory) for method in METHODS}
        for method, timed in stored_runs.timed_in_turns(made, data, args.epochs, args).items():
            if isinstance(timed, Refused):
                stored_runs.say(f"  {method}-{threads}: {timed}")
                continue
            results[name, memory, method, threads] = timed
            stored_runs.say(
                f"  {method}-{threads}: {timed.epoch:.4g} s an epoch (its workers' time "
                f"{timed.model.busy:.4g} s), once {timed.before:.3g} s (of it partitioning "
                f"{timed.model.partitioning:.3g} s), loss {timed.model.loss:.4g}"
            )


def times_to(loss: float, timed: Timed) -> float | None:
    """Seconds of epochs until the loss, linear between epochs; None: never."""
    history = np.asarray(timed.model.history)
    below = np.flatnonzero(history <= loss)
    if not len(below):
        return None
    last = int(below[0])
    if last == 0:
        return timed.epoch
    before, after = history[last - 1], history[last]
    return timed.epoch * (last + float((before - loss) / (before - after)))


def same_loss(slow: Timed, fast: Timed) -> tuple[float, float, float]:
    """The loss that both reach, and how often sooner `fast` does: of epochs alone, and from the
    start, with everything that is done once.
    """
    loss = max(min(slow.model.history), min(fast.model.history))
    times = [times_to(loss, one) for one in (slow, fast)]
    assert times[0] is not None
    assert times[1] is not None
    whole = (slow.before + times[0]) / (fast.before + times[1])
    return loss, times[0] / times[1], whole


def compare(name: str, memory: str, threads: Iterable[int], results: Results) -> None:
    """Prints the ratios and their targets."""
    for n in threads:
        pair = [results.get((name, memory, method, n)) for method in METHODS]
        if pair[0] is None or pair[1] is None:
            continue
        loss, ratio, whole = same_loss(pair[0], pair[1])
        stored_runs.say(
            f"  loss {loss:.4g}: KV-VP-{n} is {whole:.3g}x as fast with all that is done once"
        )
        if name in ASKED:
            text = f"{name}, cache {memory}, same loss, KV-VP-{n} against KV-{n}"
            stored_runs.goal(text, ratio, ASKED[name], at_least=True)


def row(key: Key, timed: Timed) -> dict[str, Any]:
    """A row for JSON."""
    return dict(zip(("data", "cache", "method", "threads"), key, strict=True)) | timed.as_dict()


def draw(memory: str, args: argparse.Namespace, results: Results) -> None:
    """A picture a cache: above all figure 4a, then 4b and 4c."""
    mine = {key: timed for key, timed in results.items() if key[1] == memory}
    names = [name for name in args.data if any(key[0] == name for key in mine)]
    if not names:
        return
    figure, axes = stored_plots.panels(len(names))
    for name, ax in zip(names, axes, strict=True):
        for (_, _, method, n), timed in select(mine, name):
            seconds = timed.epoch * np.arange(1, len(timed.model.history) + 1)
            dash = stored_plots.DASHES[args.threads.index(n) % len(stored_plots.DASHES)]
            ax.plot(
                seconds,
                timed.model.history,
                dash,
                color=stored_plots.COLOURS[method],
                marker="o",
                markersize=3,
                linewidth=1.5,
                label=f"{method}-{n}",
            )
        stored_plots.dress(ax, f"{name}, cache {memory}", "time of epochs (s)", "mean loss")
        stored_plots.logarithmic(ax, "x")
        ax.legend(frameon=False, fontsize="small")
    stored_plots.save(figure, args.out, f"stored_convergence_{memory}")
    speeds(memory, names, args, mine)


def speeds(memory: str, names: list[str], args: argparse.Namespace, mine: Results) -> None:
    """Seconds an epoch, and speedup over KV with the fewest threads, by threads."""
    for what, ylabel in (("epoch", "time of an epoch (s)"), ("speedup", "speedup over KV-1")):
        figure, axes = stored_plots.panels(len(names))
        for name, ax in zip(names, axes, strict=True):
            first = mine.get((name, memory, "KV", args.threads[0]))
            for method in METHODS:
                found = {n: timed for (_, _, m, n), timed in select(mine, name) if m == method}
                if what == "speedup" and first is None:
                    continue
                y = [
                    first.epoch / t.epoch if what == "speedup" and first else t.epoch
                    for t in found.values()
                ]
                ax.plot(
                    list(found), y, color=stored_plots.COLOURS[method], marker="o", label=method
                )
            stored_plots.dress(ax, f"{name}, cache {memory}", "threads", ylabel)
            ax.set_xscale("log", base=2)
            ax.set_xticks(args.threads, [str(n) for n in args.threads])
            ax.set_ylim(bottom=0)
            ax.legend(frameon=False, fontsize="small")
        stored_plots.save(figure, args.out, f"stored_{what}_{memory}")


def select(results: Results, name: str) -> list[tuple[Key, Timed]]:
    """Selects the results of a data set."""
    return [(key, timed) for key, timed in results.items() if key[0] == name]


if __name__ == "__main__":
    main()
