"""Makespans of placed groups beside the least possible one, C*, simulated on up to 1,000 workers.

The numbers of groups are those of "Kingpin", table 4 (S. Li, A. Kumar, PVLDB 2021): 18 countries,
44 cities, 280 partners, with sizes that fall like its figure 6, here as 1 / rank, and 280 groups
with two that have 30 % of the rows each. Every worker goes through its tasks in their order; a
task begins when its worker is free and its configuration has left the group's other worker. With
`--noise`, a task takes longer or shorter by a lognormal factor of that standard deviation.

    python -m research.kingpin.placement
"""

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np

from research.kingpin.timetable import broken, timetable
from tuskml.schedule.placement import (
    constrained_wrap_around,
    greedy_makespan,
    heaviest_first,
    least_makespan,
    rows_by_worker,
    wrap_around,
)

ROWS, CONFIGURATIONS = 14_000_000, 12
WORKERS = [2, 4, 18, 100, 1000]


def distributions() -> Iterator[tuple[str, Any]]:
    """Names and rows of groups."""
    for groups in (18, 44, 280):
        share = 1 / np.arange(1, groups + 1)
        yield f"{groups} groups", (share / share.sum() * ROWS).astype(np.int64)
    small = 1 / np.arange(1, 279)
    share = np.r_[0.3, 0.3, 0.4 * small / small.sum()]
    yield "two giants", (share * ROWS).astype(np.int64)


def simulated(tasks: Any, workers: int, noise: float, random: np.random.Generator) -> float:
    """The end of the last task, in rows."""
    rows = (tasks["last"] - tasks["first"]) * np.exp(noise * random.normal(size=len(tasks)))
    order = np.lexsort((tasks["begin"], tasks["end"]))
    free = np.zeros(workers)
    left: dict[tuple[int, int], float] = {}
    for k in order.tolist():
        worker, which = int(tasks["worker"][k]), (tasks["group"][k], tasks["configuration"][k])
        end = max(free[worker], left.get(which, 0.0)) + rows[k]
        free[worker] = left[which] = end
    return float(free.max())


def main() -> None:
    """Prints, for each distribution and number of workers, makespans as multiples of C*."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--noise", type=float, default=0.05)
    noise = parser.parse_args().noise
    random = np.random.default_rng(0)
    print("| groups | workers | C* / (n / p) | wrap-around | with noise | constrained, of n / p |")
    print("|---|---|---|---|---|---|")
    for name, sizes in distributions():
        for workers in WORKERS:
            tasks = timetable(wrap_around(sizes, workers), CONFIGURATIONS)
            assert not list(broken(tasks, sizes, CONFIGURATIONS))
            least, mean = least_makespan(sizes, workers), sizes.sum() / workers
            of = least * CONFIGURATIONS
            noisy = simulated(tasks, workers, noise, random)
            shared = rows_by_worker(constrained_wrap_around(sizes, workers), workers).max()
            cells = (tasks["end"].max() / of, noisy / of, shared / mean)
            print(
                f"| {name} | {workers:,} | {least / mean:.2f} | "
                + " | ".join(f"{x:.3f}" for x in cells)
                + " |"
            )
    claims()


def claims() -> None:
    """Two threads that claim whole groups, as given in any order and from the largest on."""
    random = np.random.default_rng(1)
    for name, sizes in distributions():
        least = least_makespan(sizes, 2)
        mixed = [greedy_makespan(random.permutation(sizes), 2) / least for _ in range(200)]
        ordered = greedy_makespan(sizes[heaviest_first(sizes)], 2) / least
        print(
            f"{name}, claimed by two threads: {np.median(mixed):.3f} C* in random order, at worst "
            f"{max(mixed):.3f}, from the largest on {ordered:.3f}"
        )


if __name__ == "__main__":
    main()
