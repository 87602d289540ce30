"""A net on several workers: pieces of its batches, and the vectors of a worker.

Layers are an array (3, layers) of single precision: the weights in the kernels' layout, and the
two numbers per weight of the algorithm. Source: M. Naumov et al., Deep Learning Recommendation
Model for Personalization and Recommendation Systems, 2019, section 4: layers on all workers,
tables of vectors divided over them.
"""

import ctypes
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import Floats, check_code, library, pointer
from tuskml.kernels.nets.structures import HeldOutRows, Pieces, Read
from tuskml.kernels.nets.training import ByGroup, Rules
from tuskml.kernels.nets.visits import visit_of
from tuskml.kernels.passes import Pass
from tuskml.kernels.structures import WEIGHTS

Single = NDArray[np.float32]
Places = NDArray[np.int64]
Numbers = NDArray[np.int32]
PAD = 16
"""Kernels pad the vectors of a table to a multiple of this number of floats."""


def pad_length(n: int) -> int:
    """Rounds a number of floats up to whole lines."""
    return -(-n // PAD) * PAD


@dataclass(frozen=True)
class RowsInUnits:
    """Rows in the kernels' layout: x (n, stride), labels y (n,), and their weights (n,) or
    None.
    """

    x: Single
    y: Single
    weight: Single | None


def rows_in_units(
    rows: Pass, rules: Rules, given: ByGroup, units: Floats, memory: int = 0
) -> RowsInUnits:
    """The rows of the only group of a pass; memory: address of the account of a copy."""
    net, n = rules.struct(), int(rows.groups["n_rows"][0])
    given.put(net)
    x = np.empty((n, library().tk_net_stride(net, rows.n_features)), np.float32)
    y = np.empty(n, np.float32)
    weighted = rows.groups["extras"][0] & WEIGHTS or given.class_weight is not None
    weight = np.empty(n, np.float32) if weighted else None
    out = pointer(x), pointer(y), pointer(weight)
    visit = visit_of(units)
    check_code(library().tk_net_rows(rows.struct, net, memory, ctypes.byref(visit), *out))
    return RowsInUnits(x, y, weight)


def layers_of(rules: Rules, plain: int) -> int:
    """Number of floats of the layers of a net with `plain` features outside of tables."""
    width = plain + sum(levels for _, levels, _ in rules.tables)
    return int(library().tk_net_layers(rules.struct(), width))


def local(rules: Rules, plain: int, levels: Sequence[int]) -> Rules:
    """Rules of a net whose tables have these numbers of levels, after `plain` other features."""
    tables, first = [], plain
    for (_, _, length), count in zip(rules.tables, levels, strict=True):
        tables.append((first, int(count), length))
        first += int(count)
    return replace(rules, tables=tuple(tables))


def places_of(layers: int, tables: Sequence[tuple[int, int, int]]) -> tuple[Places, Numbers]:
    """Returns offset and length of each vector in the weights of a net, table by table.

    layers: floats before them.
    """
    begin, at, length = layers, [], []
    for _, levels, size in tables:
        at.append(begin + np.arange(levels, dtype=np.int64) * size)
        length.append(np.full(levels, size, np.int32))
        begin += pad_length(levels * size)
    nothing = np.zeros(0, np.int64)
    return np.concatenate([nothing, *at]), np.concatenate([nothing.astype(np.int32), *length])


@dataclass(frozen=True)
class Batch:
    """Pieces of a batch.

    begin: (pieces + 1,), first row of each piece; first: the number of the first piece; total:
    rows of the batch on all workers; epoch, step: of dropout.
    """

    rows: RowsInUnits
    begin: Places
    first: int
    total: int
    epoch: int
    step: int


class Room:
    """Memory for the pieces of a worker.

    plain: features outside of tables; threads: number that may compute; mark: from `cancel_mark`;
    memory: address of the account, 0 for the heap.
    """

    def __init__(
        self, rules: Rules, plain: int, pieces: int, threads: int, mark: int, memory: int = 0
    ) -> None:
        self.rules, self.plain, self.threads, self.mark = rules, plain, threads, mark
        self.pieces, self.layers = pieces, layers_of(rules, plain)
        handle = ctypes.c_void_p()
        width = plain + sum(levels for _, levels, _ in rules.tables)
        net = rules.struct()
        check_code(library().tk_net_room_open(net, width, pieces, memory, ctypes.byref(handle)))
        self.handle = handle
        weakref.finalize(self, library().tk_net_room_close, handle)

    def run_pass(
        self, weights: Single, levels: Sequence[int], batch: Batch, gradients: bool
    ) -> tuple[Floats, Single, Single]:
        """Computes losses and gradients.

        Returns the sums of the losses of each piece (pieces,), the gradient by the layers
        (layers,) and that by the vectors; both empty without `gradients`. weights: of the layers,
        followed by the vectors that these rows read; levels: number of these in each table.
        """
        net_rules = local(self.rules, self.plain, levels)
        net, loss = net_rules.struct(), np.empty(self.pieces)
        gradient = np.empty(self.layers if gradients else 0, np.float32)
        by_vectors = np.empty(len(weights) - self.layers if gradients else 0, np.float32)
        pieces = Pieces(
            pointer(weights),
            pointer(batch.rows.x),
            pointer(batch.rows.y),
            pointer(batch.rows.weight),
            pointer(batch.begin),
            self.pieces,
            batch.first,
            max(batch.total, 1),
            batch.epoch,
            batch.step,
            pointer(gradient) if gradients else None,
            pointer(by_vectors),
            pointer(loss),
        )
        width = self.plain + int(sum(levels))
        about = net, width, self.threads, self.mark
        check_code(library().tk_net_pieces_pass(self.handle, *about, ctypes.byref(pieces)))
        return loss, gradient, by_vectors


def step_layers(
    rules: Rules, plain: int, layers: Single, gradient: Single, epoch: int, steps: int
) -> None:
    """Makes a step of layers (3, layers), in place; steps: count including this one."""
    width = plain + sum(levels for _, levels, _ in rules.tables)
    about = rules.struct(), width, epoch, steps
    check_code(library().tk_net_step_layers(*about, pointer(gradient), pointer(layers)))


class Vectors:
    """The vectors of a worker.

    start: (n + 1,), offset of each; numbers (3, start[-1]): weights, and the two numbers per
    weight of the algorithm.
    """

    def __init__(self, start: Places, numbers: Single) -> None:
        self.start, self.numbers = start, numbers
        self.length = np.diff(start).astype(np.int32)
        self.first = np.full(max(len(start) - 1, 1), -1, np.int32)

    def read(self, which: Numbers) -> Single:
        """Concatenates some of the vectors."""
        return concatenate_runs(self.numbers[0], self.start[which], self.length[which])

    def step(self, rules: Rules, which: Numbers, gradient: Single, epoch: int, steps: int) -> None:
        """Makes a step with gradients of vectors, of which some may be equal; modifies
        `gradient`.
        """
        held = HeldOutRows(
            len(self.start) - 1, pointer(self.start), pointer(self.numbers), pointer(self.first)
        )
        read = Read(pointer(which), len(which), pointer(gradient))
        arguments: Any = ctypes.byref(held), ctypes.byref(read)
        check_code(library().tk_net_step_held(rules.struct(), epoch, steps, *arguments))


def concatenate_runs(numbers: Single, at: Places, length: Numbers) -> Single:
    """Concatenates runs of numbers."""
    out = np.empty(int(length.sum()), np.float32)
    at, length = np.ascontiguousarray(at), np.ascontiguousarray(length)
    library().tk_net_gather(pointer(numbers), pointer(at), pointer(length), len(at), pointer(out))
    return out


def scatter(numbers: Single, at: Places, length: Numbers, given: Single) -> None:
    """Writes concatenated runs back into `numbers`."""
    at, length = np.ascontiguousarray(at), np.ascontiguousarray(length)
    library().tk_net_scatter(
        pointer(numbers), pointer(at), pointer(length), len(at), pointer(given)
    )
