"""Measures the seconds of reading rows from a spill file, for plans by row group."""

import numpy as np

from tuskml.learners.linear.planner.calibration import groups_of
from tuskml.learners.linear.streamed.spilled import spilled_rows
from tuskml.learners.machine.reading import LEAST, SPILL, TABLES, median_seconds
from tuskml.learners.row_groups import Piece

ROWS, WIDTH = 15_360, 28


def measure_reading() -> dict[str, dict[str, float]]:
    """Seconds by TABLES and kind. Rows of a partition are copied: nothing has to be decoded."""
    x = np.ones((ROWS, WIDTH), np.float32)
    segment, groups = groups_of(x[:, 0].astype(float), [x], 0, "dense float32", WIDTH)
    rows = spilled_rows(groups, 0)
    one = median_seconds(lambda: rows.read([Piece(0, 0, 1)], lambda *_: None))
    every = median_seconds(lambda: rows.read([Piece(0, 0, rows.sizes[0])], lambda *_: None))
    del segment  # alive until here
    values = (one, LEAST, (every - one) / (rows.sizes[0] * (WIDTH + 1)))
    return {name: {SPILL: max(value, LEAST)} for name, value in zip(TABLES, values, strict=True)}
