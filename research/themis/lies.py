"""What an app gains that misreports, over many draws, beside the same app that tells the truth.

python -m research.themis.lies --worlds 6 --seeds 20

A simulation at a contention of 4x. In each of several sets of apps one app at a time overstates
its rho by a factor. Truth and lie have the same draws, by app and time, so their seconds are
compared in pairs; an app's gain is the mean of its pairs, and the standard error that of the mean
over apps.
"""

from __future__ import annotations

import argparse

import numpy as np

from research.themis.knobs import LIARS, one
from research.themis.runs import spread_out

FACTORS = (0.5, 0.9, 1.34, 2.0, 4.0, 10.0)


def main() -> None:
    """Prints a line per factor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    cases = [(liar, world) for world in range(given.worlds) for liar in LIARS]
    tasks = [
        ("lie", (liar, factor, world), seed)
        for liar, world in cases
        for factor in (1.0, *FACTORS)
        for seed in range(given.seeds)
        if factor != 1.0 or liar == LIARS[0]  # who tells the truth changes nothing
    ]
    found = spread_out(one, tasks, given.processes)
    took: dict[tuple[int, int, float], list[float]] = {}
    for (_, (liar, factor, world), _), (_, _, seconds) in zip(tasks, found, strict=True):
        for app in LIARS if factor == 1.0 else [liar]:
            took.setdefault((app, world, factor), []).append(seconds[app])  # by seed
    for factor in FACTORS:
        gains = np.array(
            [
                np.mean(1 - np.array(took[liar, world, factor]) / np.array(took[liar, world, 1.0]))
                for liar, world in cases
            ]
        )
        error = gains.std(ddof=1) / np.sqrt(len(gains))
        at = np.percentile(100 * gains, [0, 10, 50, 90, 100])
        print(
            f"factor {factor}: mean gain {100 * gains.mean():.2f} % +- {100 * error:.2f}, "
            f"least, tenths and most {', '.join(f'{x:.1f}' for x in at)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
