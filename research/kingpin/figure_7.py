"""Figure 7: losses and accuracies of nets by placement, of the largest group and of all."""

from collections.abc import Iterator

import numpy as np

from research import report
from research.kingpin.trainings import shards, train
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Differences to gtp: they are not of time."""
    rows = round(300_000 * scale)
    with shards("one giant", 6, rows) as (con, source):
        found = {
            name: train(con, source, name, "mlp", learning_rate=[1e-3, 1e-2])
            for name in ("gtp", "gap")
        }
    loss = {
        name: {key: model.loss for key, model in models.items()} for name, models in found.items()
    }
    largest = max(found["gtp"].items(), key=lambda pair: pair[1].n_rows)[0]
    off = loss["gap"][largest] / loss["gtp"][largest] - 1
    what = "largest group: loss of gap over that of gtp"
    yield Found(what, "curves overlap", 100 * off, "{:+.2f} %", -2, 2)
    each = np.array([loss["gap"][key] / loss["gtp"][key] - 1 for key in loss["gtp"]])
    worst = float(100 * np.abs(each).max())
    yield Found("all groups: at most apart by", "same", worst, "{:.2f} %", most=5.0)


if __name__ == "__main__":
    report.main(find)
