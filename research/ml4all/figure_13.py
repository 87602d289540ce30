"""Figures 13, 14, 17 and 18: samplers and transforms of mgd and sgd, from a table.

Processor seconds to the tolerance, reading the table included, in turns.
"""

from collections.abc import Iterator

from research import report
from research.ml4all.plans import connected, table, trained
from research.report import Found

RATIOS = (
    ("13a: mgd eager, bernoulli over shuffled", "mgd eager bernoulli", "mgd eager shuffled"),
    ("13b: mgd lazy, random over shuffled", "mgd lazy random", "mgd lazy shuffled"),
    ("14a: sgd shuffled, eager over lazy", "sgd eager shuffled", "sgd lazy shuffled"),
    ("17a: sgd eager, random over shuffled", "sgd eager random", "sgd eager shuffled"),
    ("17b: sgd lazy, random over shuffled", "sgd lazy random", "sgd lazy shuffled"),
    ("18b: sgd random, eager over lazy", "sgd eager random", "sgd lazy random"),
)
"""What the paper finds to be above 1 for large sets."""
SAMPLERS = {
    "shuffled": "shuffled-partition",
    "random": "random-partition",
    "bernoulli": "bernoulli",
}


def find(scale: float) -> Iterator[Found]:
    """Ratios of the paper's faster way to its slower one."""
    with connected() as con:
        table(con, max(40_000, round(500_000 * scale)))

        def run(name: str) -> None:
            algorithm, transform, sampler = name.split()
            trained(
                con,
                algorithm=algorithm,
                transform=transform,
                sampler=SAMPLERS[sampler],
                epsilon=0.01,
                max_iter=20,
                **({"batch_size": 1000} if algorithm == "mgd" else {}),
            )

        names = dict.fromkeys(name for _, *two in RATIOS for name in two)
        took = report.in_turns({name: lambda n=name: run(n) for name in names}, 3)
    for what, slow, fast in RATIOS:
        yield Found(what, "above 1", took[slow] / took[fast], least=1.0)


if __name__ == "__main__":
    report.main(find)
