"""A stochastic epoch over parts: the model hops from one part to the next, with all of its state.

Steps depend on each other, so one part works at a time, on the weights that the previous part has
left. With the weights travel the number of rows that the epoch has visited, which determines the
next step size, and the mean of the iterates. If rows are visited in random order, so are the
parts, by the same seed. The bits depend on how the rows are cut, and not on the location of the
parts.

Source: S. Li and A. Kumar, Towards an Optimized GROUP BY Abstraction for Large-Scale Machine
Learning, PVLDB 2021, section 4.2: gradient accumulation parallelism (GAP), sequential.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.epochs import Epoch
from tuskml.kernels.library import Floats
from tuskml.kernels.parts.message import Array
from tuskml.kernels.structures import WEIGHTS

SCALARS = (
    "batch_size",
    "power",
    "epochs_done",
    "l1",
    "l2",
    "seed",
    "shuffle",
    "rows_before",
    "rows_of_all",
    "mean_weight",
)
ARRAYS = ("step", "shift", "scale", "frequency")


class CountedParts(Protocol):
    """Parts whose usable rows have been counted."""

    counts: NDArray[np.int64]


class Hops(Protocol):
    """A group whose rows lie in parts (`sharded.ShardedPass`), of which one works at a time.

    groups: kernels.GROUP (1,); stride: rows that a pass counts as one; sparse: whether rows are.
    """

    @property
    def groups(self) -> NDArray[np.void]: ...

    @property
    def parts(self) -> CountedParts | None: ...

    @property
    def stride(self) -> int: ...

    @property
    def sparse(self) -> bool: ...

    def labels(self) -> NDArray[np.void]:
        """Statistics of the labels of all parts, LABELS (1,)."""

    def ask_part(self, place: int, method: str, *arrays: Array | None, **given: Any) -> list[Any]:
        """Reply of one part."""


def hop(
    rows: Hops,
    method: str,
    beside: Sequence[Array | None],
    epoch: Epoch,
    weights: Floats,
    average: Floats | None,
    **given: Any,
) -> Floats:
    """Runs one epoch of one group: updates weights, fills average, returns the summed losses (1,).

    method: that parts execute; beside, given: its further arguments.
    """
    if epoch.drawn is not None:
        raise RuntimeError("rows that lie in parts cannot be drawn")
    assert rows.parts is not None
    counts = rows.parts.counts
    epoch = replace(epoch, rows_of_all=int(counts.sum()), mean_weight=mean_weight(rows))
    v, loss, visited = weights.copy(), np.zeros(1), 0
    mean, more = np.zeros_like(v), np.zeros_like(v)
    order = order_of(epoch.seed, int(epoch.epochs_done), len(counts), bool(epoch.shuffle))
    for place in order:
        here = replace(epoch, rows_before=visited // rows.stride)
        scalars = {name: getattr(here, name) for name in SCALARS}
        arrays = [*beside, v, *(getattr(here, name) for name in ARRAYS)]
        fields = {"epoch": scalars, "averaged": average is not None, **given}
        v, its_mean, its_loss = rows.ask_part(place, method, *arrays, **fields)
        loss += its_loss
        visited += int(counts[place])
        if its_mean is not None:
            mean += its_mean * counts[place]
            more += its_mean - v
    weights[...] = v
    if average is not None:
        # For sparse rows a mean is the last iterate plus corrections of earlier ones.
        average[...] = v + more if rows.sparse else mean / epoch.rows_of_all
    return loss


def order_of(seed: int, epoch: int, n_parts: int, shuffle: bool) -> NDArray[np.intp]:
    """Order of the parts in an epoch."""
    if not shuffle:
        return np.arange(n_parts)
    return np.random.default_rng((seed & (2**64 - 1), epoch)).permutation(n_parts)


def mean_weight(rows: Hops) -> float:
    """Returns the mean weight of the rows of all parts."""
    if not (rows.groups["extras"] & WEIGHTS).any():
        return 1.0
    labels = rows.labels()
    return float(labels["weight"][0] / labels["n_rows"][0])


def epoch_of(scalars: dict[str, Any], arrays: Sequence[Any]) -> Epoch:
    """Parses the epoch of a part from its message."""
    return Epoch(**scalars, **dict(zip(ARRAYS, arrays, strict=True)))
