"""Memory of motifs: what a worker sends, and what it does with the parts that it receives.

The same functions serve workers in memory and workers on sockets. The bits of a sum do not depend
on the plan: `add_arrays` has one order of additions, and each composition of an all-reduce follows
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.exchange.algebra import Expression, Kind, Motif, leaves

Array = NDArray[Any]
SUM = -1
"""Index of the only cell of an all-reduce; other cells have the index of the worker that wrote
them.
"""


class Message(NamedTuple):
    """data: (n,), a part of a payload; shape: of the whole payload."""

    data: Array
    shape: tuple[int, ...]


@dataclass
class Cells:
    """A worker's memory of one operation.

    mine: payloads to send, by destination, or one for all under SUM; held: flat payloads that it
    has or receives, and their shapes.
    """

    kind: Kind
    rank: int
    per_host: int = 1
    mine: dict[int, Array] = field(default_factory=dict)
    held: dict[int, Array] = field(default_factory=dict)
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def place(self, cell: int, message: Message, low: Fraction, high: Fraction) -> None:
        """Stores a received part."""
        if cell not in self.held:
            size = int(np.prod(message.shape, dtype=np.int64))
            self.shapes[cell] = message.shape
            # The threads of two links may arrive together; both then fill the first one's memory.
            self.held.setdefault(cell, np.empty(size, message.data.dtype))
        flat = self.held[cell]
        flat[slice_of(flat, low, high)] = message.data

    def result(self, workers: int) -> Any:
        """The result: an array for all-reduce and broadcast, else a list with an array per
        worker.
        """
        if self.kind in ("all_reduce", "broadcast"):
            return self.held[SUM].reshape(self.shapes[SUM])
        return [self.held[one].reshape(self.shapes[one]) for one in range(workers)]


def cells(kind: Kind, rank: int, payload: Any, per_host: int = 1, root: int = 0) -> Cells:
    """Allocates the memory of an operation.

    payload: an array, or for `all_to_all` a list with an array for each worker; None if another
    worker is the root of a broadcast. An all-reduce adds into a copy.
    """
    new = Cells(kind, rank, per_host)
    if kind == "all_to_all":
        flat = [np.ascontiguousarray(each) for each in payload]
        new.mine = {to: each.reshape(-1) for to, each in enumerate(flat)}
        new.shapes = {-2 - to: np.shape(each) for to, each in enumerate(payload)}
    elif kind == "broadcast" and rank != root:
        return new
    else:
        cell = rank if kind == "all_gather" else SUM
        new.held[cell] = np.array(payload, order="C").reshape(-1)
        new.shapes[cell] = np.shape(payload)
    return new


def slice_of(flat: Array, low: Fraction, high: Fraction) -> slice:
    """Slice of a flat array for a part of the payload."""
    return slice(int(low * flat.size), int(high * flat.size))


def add_arrays(terms: Mapping[int, Array], per_host: int) -> Array:
    """Adds the workers' arrays: those of a host by pairs, then those of hosts by pairs."""
    order = sorted(terms)
    hosts = groupby(order, key=lambda rank: rank // per_host)
    return _add_pairs([_add_pairs([terms[rank] for rank in ranks]) for _, ranks in hosts])


def _add_pairs(terms: Sequence[Array]) -> Array:
    """Adds neighbours until one array is left."""
    while len(terms) > 1:
        pairs = [terms[k : k + 2] for k in range(0, len(terms), 2)]
        terms = [np.add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return terms[0]


def destinations(motif: Motif, rank: int) -> list[int]:
    """Workers to which this worker sends in a motif."""
    members = motif.members
    if rank not in members:
        return []
    if motif.kind == "reduce":
        return [] if rank == motif.root else [motif.root]
    if motif.kind == "broadcast" and rank != motif.root:
        return []
    at = members.index(rank)
    partners = [members[(at + distance) % len(members)] for distance in motif.distances()]
    return [each for each in partners if each != rank]


def sources(motif: Motif, rank: int) -> list[int]:
    """Workers from which this worker receives in a motif."""
    return [each for each in motif.members if rank in destinations(motif, each)]


def bounds(motif: Motif, source: int, to: int) -> tuple[Fraction, Fraction]:
    """The part of the payload that a motif sends from one worker to another, as two fractions."""
    if motif.kind == "reduce_scatter":
        return motif.piece(motif.members.index(to))
    if motif.kind == "piece_gather":
        return motif.piece(motif.members.index(source))
    return motif.low, motif.high


def outgoing(motif: Motif, memory: Cells, to: int) -> Message:
    """The message of this worker to another one; its data is a view of the memory."""
    low, high = bounds(motif, memory.rank, to)
    if memory.kind == "all_to_all":
        flat, shape = memory.mine[to], memory.shapes[-2 - to]
    else:
        cell = memory.rank if memory.kind == "all_gather" else SUM
        flat, shape = memory.held[cell], memory.shapes[cell]
    return Message(flat[slice_of(flat, low, high)], shape)


def absorb(motif: Motif, memory: Cells, got: Mapping[int, Message]) -> None:
    """Applies a motif to this worker's memory once all of its messages have arrived."""
    rank = memory.rank
    if rank not in motif.members:
        return
    if motif.kind in ("all_reduce", "reduce", "reduce_scatter"):
        if motif.kind == "reduce" and rank != motif.root:
            return
        low, high = bounds(motif, rank, rank)
        flat = memory.held[SUM]
        own = slice_of(flat, low, high)
        terms = {source: message.data for source, message in got.items()}
        flat[own] = add_arrays(terms | {rank: flat[own]}, memory.per_host)
        return
    for source, message in got.items():
        cell = source if memory.kind in ("all_to_all", "all_gather") else SUM
        memory.place(cell, message, *bounds(motif, source, rank))
    if memory.kind == "all_to_all" and 0 in motif.distances():
        memory.place(rank, outgoing(motif, memory, rank), motif.low, motif.high)


def in_memory(expression: Expression, memories: Sequence[Cells]) -> list[Any]:
    """Executes each motif in turn without a network; returns the results of all workers."""
    for motif in leaves(expression):
        sent = {
            # Copied as on a network: later changes of the sender must not change the message.
            (memory.rank, to): Message(one.data.copy(), one.shape)
            for memory in memories
            for to in destinations(motif, memory.rank)
            for one in [outgoing(motif, memory, to)]
        }
        for memory in memories:
            rank = memory.rank
            got = {source: sent[source, rank] for source in sources(motif, rank)}
            absorb(motif, memory, got)
    return [memory.result(len(memories)) for memory in memories]
