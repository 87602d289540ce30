"""Table 5: placements of groups of which one outweighs a worker, on two workers in threads.

Seconds by the clock, in turns: what workers wait counts. The paper's neural net is a UNet on GPUs,
here it is a small net. Groups of more than 200,000 rows are cut, so `--tiny` cuts none. Data
parallelism waits after each pass, so it gets two groups alone.
"""

from collections.abc import Iterator
from typing import Any

from research import report
from research.kingpin.trainings import seconds, shards
from research.report import Found

PAPER: dict[str, tuple[int, dict[str, float], dict[str, Any]]] = {
    "logistic": (400_000, {"gtp": 2.63, "mtp": 12.6}, {"max_iter": 10}),
    "gbdt": (300_000, {"gtp": 1.0, "mtp": 13.8}, {}),
    "mlp": (300_000, {"gtp": 1.01, "mtp": 1.39}, {}),
}
"""Of a task the rows, minutes over those of Kingpin (countries and cities), options."""
DATA_PARALLEL = 1.84
"""The same for logistic regression."""


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """The seconds of other placements over those of gap. off: gtp instead of gap."""
    ours = "gtp" if off else "gap"
    for task, (rows, paper, more) in PAPER.items():
        with shards("one giant", 6, round(rows * scale)) as (con, source):
            names = list(dict.fromkeys([ours, *paper]))
            took = seconds(con, source, names, task, 1, **more)
        for name, ratio in paper.items():
            what = f"{task}: {name} over gap"
            yield Found(what, f"{ratio:.2f}", took[name] / took[ours], "{:.2f}", least=ratio)
    with shards("one giant", 2, round(100_000 * scale)) as (con, source):
        few = {"max_iter": 5, "l2": [1e-3, 1e-2]}
        took = seconds(con, source, [ours, "dp"], "logistic", 1, **few)
    what = "logistic, two groups: dp over gap"
    yield Found(what, f"{DATA_PARALLEL}", took["dp"] / took[ours], "{:.2f}", least=DATA_PARALLEL)


if __name__ == "__main__":
    report.main(find)
