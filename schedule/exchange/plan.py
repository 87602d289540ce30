"""Plans of exchanges: an option for each operation, its motifs, and their order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from tuskml.schedule.exchange.network import CHOICES, SEGMENTS, Network, splines_of


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
