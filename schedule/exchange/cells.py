"""What motifs do with memory: what a worker sends, and what it does with what it receives.

The same functions serve workers in memory and workers behind sockets. Sums are exact in the sense
that their bits do not depend on the plan: `added` has one order of additions, and each composition
of an all-reduce follows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tuskml.schedule.exchange.algebra import Expression, Kind, Motif, leaves

Array = NDArray[Any]
SUM = -1
"""The number of the one cell of an all-reduce; other cells have the number of the worker that
wrote them."""


class Message(NamedTuple):
    """data: (n,), a part of a payload; shape: of the whole payload."""

    data: Array
    shape: tuple[int, ...]


@dataclass
class Cells:
    """A worker's memory of one operation. mine: payloads that it sends, by destination, or alike
    for all under SUM; held: flat payloads that it has or receives, and their shapes."""

    kind: Kind
    rank: int
    per_host: int = 1
    mine: dict[int, Array] = field(default_factory=dict)
    held: dict[int, Array] = field(default_factory=dict)
    shapes: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def place(self, cell: int, message: Message, low: Fraction, high: Fraction) -> None:
        """Keeps a received part."""
        if cell not in self.held:
            size = int(np.prod(message.shape, dtype=np.int64))
            self.shapes[cell] = message.shape
            # Of two links' threads that come at once, both fill the memory of the first.
            self.held.setdefault(cell, np.empty(size, message.data.dtype))
        flat = self.held[cell]
        flat[slice_of(flat, low, high)] = message.data

    def result(self, workers: int) -> Any:
        """An array of all-reduce and broadcast, a list by worker of the others."""
        if self.kind in ("all_reduce", "broadcast"):
            return self.held[SUM].reshape(self.shapes[SUM])
        return [self.held[one].reshape(self.shapes[one]) for one in range(workers)]


def cells(kind: Kind, rank: int, payload: Any, per_host: int = 1, root: int = 0) -> Cells:
    """The memory of an operation that begins.

    payload: an array, or of `all_to_all` a list with an array for each worker; None where another
    worker is the root of a broadcast. An all-reduce is added in a copy.
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
    """The places of a part."""
    return slice(int(low * flat.size), int(high * flat.size))


def added(terms: Mapping[int, Array], per_host: int) -> Array:
    """The sum of what workers have: of a host's workers by pairs, then of hosts by pairs."""
    order = sorted(terms)
    hosts = groupby(order, key=lambda rank: rank // per_host)
    return _paired([_paired([terms[rank] for rank in ranks]) for _, ranks in hosts])


def _paired(terms: Sequence[Array]) -> Array:
    """Neighbours are added until one is left."""
    while len(terms) > 1:
        pairs = [terms[k : k + 2] for k in range(0, len(terms), 2)]
        terms = [np.add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return terms[0]


def destinations(motif: Motif, rank: int) -> list[int]:
    """The workers to which a motif sends from this one."""
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
    """The workers from which a motif receives."""
    return [each for each in motif.members if rank in destinations(motif, each)]


def bounds(motif: Motif, source: int, to: int) -> tuple[Fraction, Fraction]:
    """The part of the payload that a motif sends from one worker to another."""
    if motif.kind == "reduce_scatter":
        return motif.piece(motif.members.index(to))
    if motif.kind == "piece_gather":
        return motif.piece(motif.members.index(source))
    return motif.low, motif.high


def outgoing(motif: Motif, memory: Cells, to: int) -> Message:
    """What this worker sends; the data is a view of its memory."""
    low, high = bounds(motif, memory.rank, to)
    if memory.kind == "all_to_all":
        flat, shape = memory.mine[to], memory.shapes[-2 - to]
    else:
        cell = memory.rank if memory.kind == "all_gather" else SUM
        flat, shape = memory.held[cell], memory.shapes[cell]
    return Message(flat[slice_of(flat, low, high)], shape)


def absorb(motif: Motif, memory: Cells, got: Mapping[int, Message]) -> None:
    """What this worker does once all messages of a motif are there."""
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
        flat[own] = added(terms | {rank: flat[own]}, memory.per_host)
        return
    for source, message in got.items():
        cell = source if memory.kind in ("all_to_all", "all_gather") else SUM
        memory.place(cell, message, *bounds(motif, source, rank))
    if memory.kind == "all_to_all" and 0 in motif.distances():
        memory.place(rank, outgoing(motif, memory, rank), motif.low, motif.high)


def in_memory(expression: Expression, memories: Sequence[Cells]) -> list[Any]:
    """The results of all workers, each motif after the other, without a network."""
    for motif in leaves(expression):
        sent = {
            (memory.rank, to): _copied(outgoing(motif, memory, to))
            for memory in memories
            for to in destinations(motif, memory.rank)
        }
        for memory in memories:
            rank = memory.rank
            got = {source: sent[source, rank] for source in sources(motif, rank)}
            absorb(motif, memory, got)
    return [memory.result(len(memories)) for memory in memories]


def _copied(message: Message) -> Message:
    # As on a network: what the sender does later must not change what was sent.
    return Message(message.data.copy(), message.shape)


def bytes_of(payload: Array | Iterable[Array]) -> int:
    """Returns the bytes that a worker brings to an operation."""
    arrays = [payload] if isinstance(payload, np.ndarray) else list(payload)
    return sum(each.nbytes for each in arrays)
