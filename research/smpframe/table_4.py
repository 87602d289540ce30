"""Table 4: million samples a second of the scheduled lasso, by entries of a column, per core."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from scheduled_data import problem
from scheduled_lasso import THRESHOLD
from simulated_workers import Inline

from research import report
from research.report import Found
from tuskml.learners.paths.scheduled import Lasso, Rows
from tuskml.schedule import Correlations, Dynamic, Prioritised

PAPER = {1_000: 125 / 64, 10_000: 212 / 64}
"""Millions of 64 cores, by one."""


def find(scale: float) -> Iterator[Found]:
    """Entries that updates touched in a processor second, the scheduling included."""
    iterations = max(20, round(200 * scale))
    for rows, paper in PAPER.items():
        data = problem(rows, 400, 0.1)
        order = Prioritised(400, Correlations(data.x, kept=0), 32, threshold=THRESHOLD)
        program = Lasso(data.penalty, np.ones(400), order)
        touched, settle = [0], order.settle

        def counted(places: object, *more: object, settle=settle, touched=touched, n=rows) -> None:
            touched[0] += len(places) * n
            settle(places, *more)

        order.settle = counted
        worker = Inline(program, Rows(data.x, data.y))
        run = partial(Dynamic(iterations).run, program, np.zeros(400), [0], worker)
        seconds = report.processor_seconds(run)
        what = f"million entries a second, {rows:,} in a column"
        yield Found(what, f"{paper:.1f}", touched[0] / seconds / 1e6, least=paper)


if __name__ == "__main__":
    report.main(find)
