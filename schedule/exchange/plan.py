"""Plans of exchanges: an option for each operation, its motifs, and their order.

A DAG has the computations and exchanges of an iteration, and the dependencies between them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from tuskml.schedule.exchange.network import CHOICES, SEGMENTS, Network, splines_of


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


@dataclass(frozen=True)
class Option:
    """How one operation is exchanged.

    channels: those over which its motifs are spread.
    """

    pattern: str
    segments: int = 1
    channels: tuple[int, ...] = (0,)


class Strand(NamedTuple):
    """A motif with its channel.

    seconds: estimate of the cost model.
    """

    segment: int
    spline: int
    channel: int
    seconds: float


@lru_cache(65_536)
def strands(net: Network, kind: str, size: float, option: Option) -> tuple[Strand, ...]:
    """Assigns each motif of an operation to the channel where it ends first."""
    splines = splines_of(option.pattern)
    count = option.segments * splines
    took = {c: net.seconds(kind, size / count, option.pattern, c) for c in option.channels}
    ends = dict.fromkeys(option.channels, 0.0)
    chains = []
    for place in range(count):
        channel = min(ends, key=lambda c: ends[c] + took[c])
        ends[channel] += took[channel]
        chains.append(Strand(place // splines, place % splines, channel, took[channel]))
    return tuple(chains)


def alone(net: Network, kind: str, size: float, option: Option) -> float:
    """Seconds of an operation without others on its channels."""
    totals = dict.fromkeys(option.channels, 0.0)
    for each in strands(net, kind, size, option):
        totals[each.channel] += each.seconds
    return max(totals.values())


@lru_cache(256)
def options(net: Network, kind: str, together: bool = True) -> tuple[Option, ...]:
    """Options that a search tries.

    together: include those that use several channels at once.
    """
    every = range(len(net.channels))
    most = len(every) if together else 1
    sets = [some for count in range(1, most + 1) for some in combinations(every, count)]
    return tuple(
        Option(pattern, segments, channels)
        for pattern in CHOICES[kind]
        for segments in SEGMENTS[:-1]
        for channels in sets
    )


def greedy(net: Network, kind: str, size: float, together: bool = False) -> Option:
    """The option that is fastest alone: whole and on one channel if there is one."""
    some = [each for each in options(net, kind, together) if together or each.segments == 1]
    return min(some, key=lambda each: alone(net, kind, size, each))


@dataclass(frozen=True)
class Plan:
    """A plan of all operations.

    options: by operation; order: (operation, motif, iterations ahead) in the sequence in which
    every worker starts them; version: 0 is the plain order; channels: of each motif of an
    operation.
    """

    options: Mapping[str, Option] = field(default_factory=dict)
    order: tuple[tuple[str, int, int], ...] = ()
    version: int = 0
    channels: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def text(self) -> str:
        """Serialises the plan as JSON; equal plans have equal texts."""
        chosen = {name: asdict(option) for name, option in sorted(self.options.items())}
        return json.dumps([self.version, chosen, self.order, dict(self.channels)], sort_keys=True)


def read(text: str) -> Plan:
    """Parses a plan. Raises ValueError if the text is not one."""
    try:
        version, chosen, order, spread = json.loads(text)
        options_by_name = {name: _option(each) for name, each in chosen.items()}
        channels = {name: tuple(map(int, some)) for name, some in spread.items()}
        steps = tuple((str(n), int(m), int(i)) for n, m, i in order)
        return Plan(options_by_name, steps, int(version), channels)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"the text is not a plan: {error}") from None


def _option(each: Mapping[str, Any]) -> Option:
    return Option(each["pattern"], int(each["segments"]), tuple(map(int, each["channels"])))
