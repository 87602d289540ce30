"""Rows that were packed and spilled, read by partition: the eager plans that read a part.

A partition is a segment of the group's rows (`rowblock.h`), which lies together in the spill file.
A pass over all of them reads the file from the disk where memory does not hold it; stochastic
steps, by shuffled or by random partitions, read as many partitions as the tolerance asks for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.kernels.passes import KINDS
from tuskml.kernels.segments import chunks, dense_row_bytes
from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.request import Request
from tuskml.learners.linear.streamed.skipping import may_skip
from tuskml.learners.linear.streamed.training import is_wanted, train_streamed
from tuskml.learners.machine.reading import LEAST, PAGE_BYTES, SPILL, TABLES, median_seconds
from tuskml.learners.models import Models
from tuskml.learners.receiving import Receiver
from tuskml.learners.row_groups import Piece, SeveralClasses, Storage

Part = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Features (n, d) and labels (n,) of a partition, as views."""


@dataclass(frozen=True)
class SpilledRows:
    """The partitions of one group of dense rows; memory: address of their account."""

    group: NDArray[np.void]
    memory: int
    parts: Sequence[Part]
    storage: Storage

    @property
    def sizes(self) -> Sequence[int]:
        """Rows in each partition."""
        return self.storage.sizes

    def read(self, pieces: Sequence[Piece], receiver: Receiver) -> None:
        """Copies the pieces' rows."""
        kind, d = int(self.group["kind"][0]), int(self.group["dim"][0])
        each = [(self.parts[p.row_group], slice(p.first, p.first + p.n_rows)) for p in pieces]
        labels = np.concatenate([part[1][rows] for part, rows in each])
        values = np.concatenate([part[0][rows] for part, rows in each])
        segment, groups = groups_of(labels, [values], 0, KINDS[kind], d)
        receiver(groups, self.memory)
        del segment  # alive until here


def spill_rows(group: NDArray[np.void], memory: int) -> SpilledRows:
    """The partitions of a group (`kernels.GROUP`, shape (1,)) of dense rows."""
    parts = [(features, labels) for _, features, labels in chunks(group[0])]
    sizes = tuple(len(labels) for _, labels in parts)
    row = int(dense_row_bytes(int(group["dim"][0]), int(group["kind"][0])))
    return SpilledRows(
        group, memory, parts, Storage(SPILL, sizes, sum(sizes) * row, block=PAGE_BYTES)
    )


def train_spilled(groups: NDArray[np.void], request: Request, memory: int) -> Models | None:
    """A model that has read a part of one group's spilled rows; None where all rows train."""
    alone = len(groups) == 1 and groups["kind"][0] < 2 and not groups["extras"][0]
    named = request.categories or request.feature_names or request.options.classes is not None
    if not alone or named or not may_skip(request) or not is_wanted(request):
        return None
    try:
        models = train_streamed(spill_rows(groups, memory), request, int(groups["dim"][0]))
    except (SeveralClasses, RowsError):
        return None
    return None if models is None else replace(models, n_skipped=groups["n_skipped"].copy())


ROWS, WIDTH = 15_360, 28


def measure_reading() -> dict[str, dict[str, float]]:
    """Seconds by TABLES and kind. Rows of a partition are copied: nothing has to be decoded."""
    x = np.ones((ROWS, WIDTH), np.float32)
    segment, groups = groups_of(x[:, 0].astype(float), [x], 0, "dense float32", WIDTH)
    rows = spill_rows(groups, 0)
    one = median_seconds(lambda: rows.read([Piece(0, 0, 1)], lambda *_: None))
    every = median_seconds(lambda: rows.read([Piece(0, 0, rows.sizes[0])], lambda *_: None))
    del segment  # alive until here
    values = (one, LEAST, (every - one) / (rows.sizes[0] * (WIDTH + 1)))
    return {name: {SPILL: max(value, LEAST)} for name, value in zip(TABLES, values, strict=True)}
