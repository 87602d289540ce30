"""The lasso by scheduled updates: what figures 4, 5, 10, 11, 12 and table 4 use.

The product's training in threads (`tuskml.train` with the option `schedule`) of one worker, which
computes as many updates at once as are given.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scheduled_data import Problem, problem

import tuskml
from tuskml.learners.paths import parted, scheduled
from tuskml.schedule import budget

ROWS = 463
"""As Alzheimer's disease's set has; neighbouring columns are correlated, as its are."""
SHARE = 0.1
"""Of the penalty at which all weights are 0."""
TOLERANCE = 1e-3
"""The duality gap at the end, as a share of the objective without features."""
MOST, FAR = 1_000, 1e3
"""Passes over the data, and the loss over that of a constant model at which a fit diverges."""


class Fit(scheduled.ScheduledFit):
    """The product's program. seconds: of the processor, to the tolerance or the last pass."""

    latest: ClassVar[Fit]

    def solve(self, penalty: float) -> NDArray[np.void]:
        """Fits, and notes itself."""
        Fit.latest = self
        began = time.process_time()
        point = super().solve(penalty)
        self.seconds = time.process_time() - began
        self.reached = bool(point["gap"] <= self.problem.tolerance * self.null)
        return point

    @property
    def passes(self) -> float:
        """Columns that were read by the number of columns; infinite before the tolerance."""
        if not self.reached:
            return np.inf
        return self.counts.updates / len(self.w) + self.counts.looks


class Unguarded(Fit):
    """A fit that takes no update back where the objective rises, as the paper's. It ends where
    the loss is far above that of a constant model.
    """

    diverges = False

    def accepts(self, job: scheduled.Job, sums: NDArray[np.float64]) -> bool:
        """Whatever the objective is."""
        super().accepts(job, sums)
        self.best = np.inf
        self.diverges |= not sums[0] <= FAR * self.null
        self.ended |= self.diverges
        return True

    def gap(self) -> float:
        """Infinite where the fit diverges."""
        return np.inf if self.diverges else super().gap()

    def limit(self, fall: float) -> None:
        """Leaves as many updates at once as there are."""


def correlated(scale: float) -> Problem:
    """Rows with blocks of correlated columns."""
    return problem(ROWS, max(500, round(6_000 * scale)), SHARE)


@contextmanager
def stored(data: Problem) -> Iterator[str]:
    """Two files with the rows, as one would not be trained by parts; `sign` is the label of
    classes.
    """
    with tempfile.TemporaryDirectory() as folder:
        for place, rows in enumerate(np.array_split(np.arange(len(data.y)), 2)):
            y = data.y[rows]
            columns = {"x": list(data.x[rows]), "y": y, "sign": (y > 0).astype(np.int8)}
            pq.write_table(pa.table(columns), Path(folder) / f"{place}.parquet")
        yield f"{folder}/*.parquet"


def train(data: Problem, schedule: str, at_once: int, kind: type[Fit] = Fit, **more: Any) -> Fit:
    """The fit of a training; more: options. `task` is 'lasso' unless given."""
    task = more.pop("task", "lasso")
    label = "y" if task == "lasso" else "sign"
    usual: dict[str, Any] = {"fit_intercept": False, "standardize": False, "tol": TOLERANCE}
    if task == "lasso":
        usual["lambda"] = data.penalty / len(data.y)
    with (
        stored(data) as source,
        tuskml.connect() as con,
        patch.object(parted, "ScheduledFit", kind),
        patch.object(scheduled, "AT_ONCE", at_once),
        patch.object(budget, "threads", lambda given=None: given or 1),
    ):
        tuskml.train(
            con, task, source=source, label=label, features="x", executor="threads",
            placement="dp", schedule=schedule, max_iter=MOST, **usual | more,
        )  # fmt: skip
    return Fit.latest
