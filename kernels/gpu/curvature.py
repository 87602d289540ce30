"""Curvature of models with more features than a block's registers hold: panels by cuBLAS."""

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.placed_pass import Visit
from tuskml.kernels.passes import raise_if_cancelled
from tuskml.kernels.segments import value_size

PANEL_ROWS = 1 << 13
PANEL_BYTES = 256 << 20


def add_wide(visit: Visit, shift: Any, scale: Any, precise: bool) -> Any:
    """Adds up a part's gradients and sum(h z z') (G, p (p + 1) / 2), one group after another.

    Sums within a panel are in the rows' type, or in double when `precise`. Sums over panels are in
    double.
    """
    device, of = visit.device, visit.of
    xp, d = device.xp, of.n_features
    size = value_size(int(of.groups["kind"][0]))
    each = 8 if precise or size == 8 else 4
    curvature = xp.zeros(visit.part.values.shape[0], np.float64)
    visit.wide(curvature)
    rows = max(32, min(PANEL_ROWS, PANEL_BYTES // ((d + 1) * each)))
    panel = xp.empty((rows, d + 1), np.float32 if each == 4 else np.float64)
    kernel = source.wide("wide_panel", size, each)
    assert of.on_device is not None
    below = of.on_device.constant("below", triangle(d + 1))
    chunks = visit.table.chunks
    sums = xp.zeros((of.n_groups, (d + 1) * (d + 2) // 2), np.float64)
    for own in np.split(chunks, np.flatnonzero(np.diff(chunks["group"])) + 1):
        if not len(own):
            continue
        raise_if_cancelled(of.cancel_mark)
        group, total = int(own["group"][0]), xp.zeros((d + 1, d + 1), np.float64)
        for first, n in panels(own, rows):
            arguments = [
                visit.part.values,
                np.int64(first),
                curvature,
                shift[group],
                scale[group],
                np.int64(d),
                panel,
            ]
            device.launch(kernel, (n, -(-(d + 1) // 256)), arguments)
            some = panel[:n]
            total += some.T @ some
        sums[group] = total[below[0], below[1]]
    return sums


@functools.lru_cache(maxsize=4)
def triangle(p: int) -> NDArray[np.int64]:
    """Rows and columns of a packed lower triangle, (2, p (p + 1) / 2)."""
    return np.stack(np.tril_indices(p))


def panels(chunks: Any, rows: int) -> list[tuple[int, int]]:
    """Cuts chunks into panels: first row and number of rows. Joins neighbouring chunks."""
    ranges: list[tuple[int, int]] = []
    for chunk in chunks:
        first, left = int(chunk["first"]), int(chunk["rows"])
        if ranges and sum(ranges[-1]) == first and ranges[-1][1] < rows:
            more = min(left, rows - ranges[-1][1])
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + more)
            first, left = first + more, left - more
        while left > 0:
            ranges.append((first, min(left, rows)))
            first, left = first + min(left, rows), left - min(left, rows)
    return ranges
