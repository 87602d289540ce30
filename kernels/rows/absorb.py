"""Rows without the effects of some of their categories."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.passes import Floats, cancel_mark
from tuskml.kernels.structures import GROUP, KERNELS

COLUMN = KERNELS.dtype("tk_absorbed_column")
"""Dtype of the C structure `tk_absorbed_column`."""


@KERNELS.structure("tk_absorbing")
class Absorbing(ctypes.Structure):
    """The C structure `tk_absorbing`."""


@dataclass(frozen=True)
class RowsWithoutEffects:
    """The copy of a group (GROUP), (1,), with d other features, freed when the context ends.

    columns: COLUMN of the other features and of the label, (d + 1,); effects: of the L levels of
    all categories on these, (d + 1, L); weights: of the rows of each level, (L,); rank: of the
    levels; rank_apart: of those of categories that are not nested in the clusters.
    """

    groups: NDArray[np.void]
    columns: NDArray[np.void]
    effects: Floats
    weights: Floats
    rank: int
    rank_apart: int

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        library().tk_free_groups(pointer(self.groups), 1)


def remove_effects(
    group: NDArray[np.void],
    categories: Sequence[range],
    cluster: int | None,
    threads: int,
    memory: int,
) -> RowsWithoutEffects:
    """Removes the effects of categories from the label and the other features of a group.

    group: GROUP, (1,); categories: the features of each, one for each level but the first;
    cluster: the index of the category whose levels are the clusters of the rows; memory: address
    of the account that the copy is charged to. Raises MemoryError and Interrupted.
    """
    blocks = np.array([(one.start, len(one)) for one in categories], np.int32)
    levels = int(blocks[:, 1].sum()) + len(blocks)
    width = int(group["dim"][0]) - int(blocks[:, 1].sum())
    copy, columns = np.zeros(1, GROUP), np.zeros(width + 1, COLUMN)
    effects, weights, ranks = np.zeros((width + 1, levels)), np.zeros(levels), np.zeros(2, int)
    group = np.ascontiguousarray(group)
    how = Absorbing(
        pointer(blocks),
        len(blocks),
        -1 if cluster is None else cluster,
        threads,
        cancel_mark(),
    )
    code = library().tk_absorb(
        pointer(group),
        how,
        memory,
        pointer(copy),
        pointer(columns),
        pointer(effects),
        pointer(weights),
        pointer(ranks),
    )
    check_code(code, "the rows without the effects of categories")
    return RowsWithoutEffects(copy, columns, effects, weights, int(ranks[0]), int(ranks[1]))
