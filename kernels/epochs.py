"""Stochastic epochs on the CPU (`kernels/native/epochs/api.h`)."""

import ctypes
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import structures
from tuskml.kernels.library import Floats, pointer

Counts = NDArray[np.int64]


class DrawnStructure(ctypes.Structure):
    """The C structure `tk_drawn`."""

    _fields_ = [(name, structures.ADDRESS) for name in ("rows", "begin", "sizes", "first")]


@dataclass(frozen=True)
class EpochSample:
    """Rows that a sampler drew for an epoch of G groups, in its order.

    rows: numbers of rows from 0, those of group g from begin[g] to begin[g + 1]; sizes: of the
    batches (int32), those of group g from first[g] on; None: as the epoch says. begin and first
    are (G + 1,).
    """

    rows: Counts
    begin: Counts
    sizes: NDArray[np.int32] | None = None
    first: Counts | None = None

    @classmethod
    def of(cls, rows: list[Counts], sizes: list[NDArray[np.int32]] | None = None) -> "EpochSample":
        """The rows, and the sizes of batches, of each group."""
        begin = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        if sizes is None:
            return cls(np.concatenate(rows), begin)
        first = np.cumsum([0, *map(len, sizes)], dtype=np.int64)
        return cls(np.concatenate(rows), begin, np.concatenate(sizes), first)

    @cached_property
    def struct(self) -> DrawnStructure:
        """The structure that kernels read."""
        return DrawnStructure(
            pointer(self.rows), pointer(self.begin), pointer(self.sizes), pointer(self.first)
        )


@dataclass(frozen=True)
class Epoch:
    """The parameters of a stochastic epoch. step is (G,), the other arrays are (G, d).

    rows_before, rows_of_all, mean_weight: for rows that are a part of a group, the number of rows
    before them in the epoch, the number of rows of all parts, and their mean weight; 0 rows of
    all: there are no other parts.
    """

    batch_size: int
    power: int
    epochs_done: float
    l1: float
    l2: float
    step: Floats
    shift: Floats
    scale: Floats
    frequency: Floats | None = None
    seed: int = 0
    shuffle: bool = False
    drawn: EpochSample | None = None
    rows_before: int = 0
    rows_of_all: int = 0
    mean_weight: float = 1.0

    @cached_property
    def struct(self) -> structures.Epoch:
        """The structure that kernels read. It is made once, because the arrays do not move."""
        return structures.Epoch(
            self.batch_size,
            self.power,
            self.epochs_done,
            self.l1,
            self.l2,
            pointer(self.step),
            pointer(self.shift),
            pointer(self.scale),
            pointer(self.frequency),
            self.seed,
            self.shuffle,
            None if self.drawn is None else ctypes.addressof(self.drawn.struct),
            self.rows_before,
            self.rows_of_all,
            self.mean_weight,
        )
