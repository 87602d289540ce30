"""Stochastic epochs on a device: one launch trains all groups, one block per group.

Rows come in the same runs as in the CPU's kernels (`tk_runs`), so the steps are the same. A group
keeps only one block busy, so the GPU pays off only for many groups.
"""

from typing import Any

import numpy as np

from tuskml.kernels.gpu import source
from tuskml.kernels.gpu.placed_pass import PlacedPass
from tuskml.kernels.passes import Epoch, Floats, raise_if_cancelled
from tuskml.kernels.segments import value_size

PIECE_VALUES = 1 << 23
"""Values of a group's rows per launch: tens of milliseconds for its block between checks for a
cancel.
"""


def run_epoch(
    rows: PlacedPass,
    epoch: Epoch,
    weights: Floats,
    average: Floats | None,
    anchored: tuple[Floats, Floats] | None = None,
) -> Floats:
    """Runs one epoch: updates weights (G, p) and fills average (G, p).

    Returns sums of losses (G,), each taken before its step. anchored: SVRG's anchor and the mean
    gradient there, both (G, p).
    """
    raise_if_cancelled(rows.cancel_mark)
    held, device = rows.on_device, rows.device
    assert held is not None
    assert rows.which is not None
    put, n, d = device.to_device, rows.n_groups, rows.n_features
    (part,) = held.visit()
    kernel = source.epoch(d, value_size(held.kind), epoch.batch_size, anchored is not None)
    place = [put(held.start[:-1][rows.which]), put(held.n_rows[rows.which])]
    runs = [put(a) for a in rows.runs(epoch)]
    moved, loss = put(weights), device.xp.zeros(n, np.float64)
    mean: Any = None if average is None else device.xp.empty((n, d + 1), np.float64)
    arguments = [
        part.values,
        part.labels,
        *place,
        *runs,
        *rows.losses_on_device(),
        np.int32(rows.fit_intercept),
        np.int32(d),
        np.int32(epoch.batch_size),
        np.int32(epoch.power),
        np.float64(epoch.epochs_done),
        np.float64(epoch.l1),
        np.float64(epoch.l2),
        *(put(a) for a in (epoch.step, epoch.shift, epoch.scale)),
        *(put(a) for a in anchored or (np.zeros(1), np.zeros(1))),
    ]
    each = max(epoch.batch_size, PIECE_VALUES // d)
    carried = device.xp.empty((n, 2 * d + 7), np.float64)
    for piece in range(-(-int(held.n_rows[rows.which].max()) // each)):
        if piece:
            device.mark_launches().wait()
            raise_if_cancelled(rows.cancel_mark)
        whole = [*arguments, np.int32(piece > 0), np.int64(each), carried, moved, mean, loss]
        device.launch(kernel, (n, 1), whole)
    weights[:] = device.to_host(moved)
    if average is not None:
        average[:] = device.to_host(mean)
    return device.to_host(loss)
