"""10,000 simulated GPUs: how long the simulation takes, and what it finds. A simulation.

python -m research.themis.large --apps 2500 --load 2 --jobs 10000
"""

from __future__ import annotations

import argparse

from research.themis.runs import POLICIES, measured, simulated
from research.themis.simulation.events import Rules
from research.themis.simulation.generated import SHAPES, jobs_like, searches

WORKERS = 10_000


def main() -> None:
    """Prints a table: searches, and single jobs with the shapes of published traces."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--apps", type=int, default=2_500)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--load", type=float, default=2.0)
    parser.add_argument("--policies", nargs="*", default=list(POLICIES))
    given = parser.parse_args()
    print(
        "| apps | scheduler | max rho | p99 | median | rho <= 1.05 | GPU hours | "
        "days simulated | allocations | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    traces = {"searches": searches(given.apps, given.load, WORKERS, 0)}
    for name in SHAPES:
        # jobs of less than two leases say more about the lease than about the scheduler
        traces[name] = jobs_like(name, given.jobs, given.load, WORKERS, 0, shortest=1_200.0)
    for trace, specs in traces.items():
        for name in given.policies:
            run, seconds = simulated(specs, WORKERS, POLICIES[name](), 0, Rules(pause=60.0))
            row = measured(name, WORKERS, 0, run, seconds)
            print(
                f"| {len(specs):,} {trace} | {name} | {row.most:.2f} | {row.p99:.2f} | "
                f"{row.median:.2f} | {row.within_105:.0%} | {row.gpu_hours:,.0f} | "
                f"{run.makespan / 86400:.1f} | {row.allocations:,} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
