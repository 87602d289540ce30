"""Computations and exchanges of an iteration, and the dependencies between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Operation:
    """A computation that takes given seconds, or an exchange if it has a kind.

    size: bytes that each worker contributes to an exchange; after, after_previous: operations of
    the same iteration and of the previous one whose results it needs; submitted: operations of the
    previous iteration after which a program in its own order submits it.
    """

    name: str
    seconds: float = 0.0
    kind: str = ""
    size: float = 0.0
    after: tuple[str, ...] = ()
    after_previous: tuple[str, ...] = ()
    submitted: tuple[str, ...] = ()


class Dag:
    """Operations of one iteration, in the order in which the program names them."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self.operations = tuple(operations)
        self.at = {each.name: place for place, each in enumerate(self.operations)}
        if len(self.at) < len(self.operations):
            raise ValueError("two operations have the same name")
        self.needs = [self._places(each, each.after) for each in self.operations]
        self.lagged = [self._places(each, each.after_previous) for each in self.operations]
        self.asked = [self._places(each, each.submitted) for each in self.operations]
        for place, needs in enumerate(self.needs):
            if any(need >= place for need in needs):
                name = self.operations[place].name
                raise ValueError(f"operation {name} needs one that the program names later")

    def _places(self, one: Operation, names: Sequence[str]) -> tuple[int, ...]:
        for name in names:
            if name not in self.at:
                known = ", ".join(self.at)
                raise ValueError(
                    f"operation {one.name} waits for {name}, which is none of {known}"
                )
        return tuple(self.at[name] for name in names)

    @cached_property
    def exchanges(self) -> tuple[int, ...]:
        """Indices of the exchanges."""
        return tuple(k for k, each in enumerate(self.operations) if each.kind)

    @cached_property
    def compute_seconds(self) -> float:
        """Seconds of all computations of an iteration."""
        return sum(each.seconds for each in self.operations if not each.kind)

    def before(self, prefetched: bool) -> list[list[tuple[int, int]]]:
        """Dependencies of each operation as (index, iterations back)."""
        return [
            [(need, 0) for need in self.needs[k]]
            + [(need, 1) for need in self.lagged[k]]
            + [(need, 1) for need in (() if prefetched else self.asked[k])]
            for k in range(len(self.operations))
        ]

    def exchanges_before(self, place: int) -> list[tuple[int, int]]:
        """Exchanges on which an operation depends, directly or through computations, as in
        `before`.

        Those more than two iterations back have ended: an exchange starts at most one iteration
        early, and another at most one late.
        """
        pairs: set[tuple[int, int]] = set()
        waits, open_ = self.before(True), [(place, 0)]
        seen = set(open_)
        while open_:
            at, lag = open_.pop()
            for need, back in waits[at]:
                one = need, lag + back
                if one[1] > 2 or one in seen:
                    continue
                seen.add(one)
                if self.operations[need].kind:
                    pairs.add(one)
                open_.append(one)
        return sorted(pairs)
