"""The algebra of motifs: an exchange between workers as a composition of smaller ones.

Source: K. Mahajan, Scheduler-driven Strategies for Fair and Efficient Data Analytics Systems, PhD
thesis, 2021, section 4.4.2 and appendix C.0.1. `Beside` is the thesis's parallel execution and
`Then` its sequence. Segmentation divides payloads, splining divides patterns of transfers.

Payloads are divided at fractions of their length, so one composition is right for payloads of
every length, empty ones too: neighbours have the same bound, which is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

Kind = Literal[
    "all_reduce",
    "all_to_all",
    "all_gather",
    "broadcast",
    "reduce",
    "reduce_scatter",
    "piece_gather",
]
OPERATIONS: tuple[Kind, ...] = ("all_reduce", "all_to_all", "all_gather", "broadcast")
"""Operations of programs; the other kinds occur inside an all-reduce only."""
ADDING: tuple[Kind, ...] = ("all_reduce", "reduce", "reduce_scatter")


@dataclass(frozen=True)
class Motif:
    """Transfers that are started together and not interrupted.

    members: the participating workers, ascending; low, high: fractions of the payload; root: of
    `reduce` and `broadcast`; first, stop: each member sends to the members at these distances
    after it in the circle.
    """

    kind: Kind
    members: tuple[int, ...]
    low: Fraction = Fraction(0)
    high: Fraction = Fraction(1)
    root: int = 0
    first: int = 0
    stop: int = -1

    def distances(self) -> range:
        """Distances in the circle of members from a member to its partners."""
        return range(self.first, len(self.members) if self.stop < 0 else self.stop)

    def piece(self, place: int) -> tuple[Fraction, Fraction]:
        """The part of the payload that the member at an index owns, as two fractions."""
        return part(self.low, self.high, place, len(self.members))


@dataclass(frozen=True)
class Then:
    """Sequential execution."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True)
class Beside:
    """Execution in any order, or at the same time."""

    parts: tuple[Expression, ...]


Expression = Motif | Then | Beside


def part(low: Fraction, high: Fraction, place: int, count: int) -> tuple[Fraction, Fraction]:
    """Bounds of part `place` of `count` equal parts of [low, high)."""
    size = high - low
    return low + size * place / count, low + size * (place + 1) / count


def map_motifs(expression: Expression, change: Callable[[Motif], Expression]) -> Expression:
    """Copies the expression with `change` applied to each motif."""
    if isinstance(expression, Motif):
        return change(expression)
    return type(expression)(tuple(map_motifs(each, change) for each in expression.parts))


def leaves(expression: Expression) -> Iterator[Motif]:
    """Motifs of the expression, in an order in which they may be executed one by one."""
    if isinstance(expression, Motif):
        yield expression
    else:
        for each in expression.parts:
            yield from leaves(each)


def _check_count(count: int, what: str) -> None:
    if count < 1:
        raise ValueError(f"{what} is {count}, expected at least 1")


def segment(expression: Expression, count: int) -> Expression:
    """Divides the payload into `count` equal parts that are exchanged separately.

    The bounds of all motifs are scaled together into each part, so a sequence is segmented as a
    whole: each motif starts from the pieces that the one before it produced.
    """
    _check_count(count, "the number of segments")
    if count == 1:
        return expression
    low = min(motif.low for motif in leaves(expression))
    high = max(motif.high for motif in leaves(expression))

    def one(place: int) -> Expression:
        begin, _ = part(low, high, place, count)

        def move(motif: Motif) -> Motif:
            return replace(
                motif,
                low=begin + (motif.low - low) / count,
                high=begin + (motif.high - low) / count,
            )

        return map_motifs(expression, move)

    return Beside(tuple(one(place) for place in range(count)))


def spline(expression: Expression, count: int) -> Expression:
    """Divides each motif into `count` motifs with fewer partners.

    Motifs that add stay whole, as a sum needs all its terms: `scatter`, `treed` and
    `split_by_host` divide their patterns.
    """
    _check_count(count, "the number of splines")

    def cut(motif: Motif) -> Expression:
        if motif.kind in ADDING or count == 1:
            return motif
        at = motif.distances()
        bounds = [at.start + len(at) * k // count for k in range(count + 1)]
        pairs = pairwise(bounds)
        return Beside(tuple(replace(motif, first=low, stop=high) for low, high in pairs))

    return map_motifs(expression, cut)


def scatter(motif: Motif) -> Expression:
    """Composes an all-reduce of a reduce-scatter and an all-gather."""
    return Then((replace(motif, kind="reduce_scatter"), replace(motif, kind="piece_gather")))


def treed(motif: Motif, arity: int = 2, per_host: int = 1) -> Expression:
    """Composes an all-reduce of reduces to the first worker of each block, all-reduces and
    broadcasts.

    arity: workers per block, a power of two. The first blocks are the hosts if these have another
    number of workers, so additions happen in the order of `add_arrays`.
    """
    if arity < 2 or arity & (arity - 1):
        raise ValueError(f"the arity is {arity}, expected a power of two")
    members = motif.members
    if len(members) == 1:
        return motif
    whole = len({each // per_host for each in members}) < len(members)
    size = per_host if whole and per_host & (per_host - 1) else arity
    blocks = [members[k : k + size] for k in range(0, len(members), size)]
    some = [block for block in blocks if len(block) > 1]
    up = Beside(tuple(_with_root(motif, "reduce", block) for block in some))
    down = Beside(tuple(_with_root(motif, "broadcast", block) for block in some))
    roots = tuple(block[0] for block in blocks)
    if len(roots) == 1:
        return Then((up, down))
    return Then((up, treed(replace(motif, members=roots), arity, per_host), down))


def _with_root(motif: Motif, kind: Kind, members: tuple[int, ...]) -> Motif:
    return replace(motif, kind=kind, members=members, root=members[0])


def split_by_host(motif: Motif, per_host: int) -> Expression:
    """Composes an all-reduce of a reduce-scatter per host, all-reduces between hosts, and an
    all-gather.

    Workers with the same index in their hosts all-reduce with each other. Each host must have
    `per_host` members.
    """
    members = motif.members
    if len(members) % per_host:
        raise ValueError(f"{len(members)} workers are not hosts of {per_host} workers each")
    hosts = [members[k : k + per_host] for k in range(0, len(members), per_host)]
    inside = tuple(replace(motif, kind="reduce_scatter", members=host) for host in hosts)
    back = tuple(replace(motif, kind="piece_gather", members=host) for host in hosts)
    between = []
    for place, peers in enumerate(zip(*hosts, strict=True)):
        low, high = part(motif.low, motif.high, place, per_host)
        between.append(scatter(replace(motif, members=peers, low=low, high=high)))
    return Then((Beside(inside), Beside(tuple(between)), Beside(back)))
