"""Cost model of exchanges on a network of hosts.

A channel is a route between workers that shares nothing with other channels: NVLink inside a host
and RDMA between hosts is one, PCIe and TCP over the host's own network another. All workers take
part in each exchange and are alike, so the time of a part is that of any one of them.

Source: K. Mahajan, PhD thesis, 2021, sections 4.2.3, 4.4.3 and 4.6.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

SPLINES = (1, 2, 4)
SEGMENTS = (1, 2, 4, 8, 16)
"""Numbers of segments that oracles try; searches leave out the last: too many motifs for the
gain.
"""


@dataclass(frozen=True)
class Channel:
    """Rates of a channel.

    inside, outside: bytes per second of one worker, within and between hosts; latency: seconds of
    a transfer besides its bytes; incast: relative extra time of a transfer with all others at once
    over one with few.
    """

    inside: float
    outside: float
    latency: float
    incast: float = 0.0


@dataclass(frozen=True)
class Network:
    """Workers and the channels between them.

    launch: seconds of each motif besides its transfers.
    """

    hosts: int
    per_host: int
    channels: tuple[Channel, ...]
    launch: float = 0.0

    def __post_init__(self) -> None:
        if self.hosts < 1 or self.per_host < 1 or not self.channels:
            raise ValueError(
                "a network has at least one host, one worker per host and one channel"
            )

    @cached_property
    def workers(self) -> int:
        """Number of workers on all hosts."""
        return self.hosts * self.per_host

    def seconds(self, kind: str, size: float, pattern: str, channel: int) -> float:
        """Seconds of a motif.

        size: bytes that each worker contributes, for an all-gather and a broadcast those that each
        has at the end; pattern: a name in PATTERNS.
        """
        return self.launch + PATTERNS[pattern](self, size, self.channels[channel])

    def links(self, inside: float, outside: float, channel: Channel) -> float:
        """Seconds until a worker has sent these bytes inside its host and to other hosts."""
        return max(inside / channel.inside, outside / channel.outside)


def _scatter_seconds(net: Network, size: float, channel: Channel) -> float:
    """Seconds of a reduce-scatter and an all-gather of all workers."""
    n, h = net.workers, net.per_host
    sent = 2 * size / n
    return net.links(sent * (h - 1), sent * (n - h), channel) + 2 * (n - 1) * channel.latency


def _host_seconds(net: Network, size: float, channel: Channel) -> float:
    """Seconds of a reduce-scatter per host, an all-reduce between hosts, and an all-gather per
    host.
    """
    hosts, h = net.hosts, net.per_host
    inside = 2 * size * (h - 1) / h
    outside = 2 * size / h * (hosts - 1) / hosts
    rounds = 2 * (h - 1) + 2 * (hosts - 1)
    return inside / channel.inside + outside / channel.outside + rounds * channel.latency


def _treed(net: Network, size: float, channel: Channel) -> float:
    """Seconds of reduces and broadcasts along a binary tree of hosts and inside them."""
    inside, outside = _levels(net.per_host), _levels(net.hosts)
    bytes_ = 2 * size * (inside / channel.inside + outside / channel.outside)
    return bytes_ + 2 * (inside + outside) * channel.latency


def _levels(count: int) -> int:
    return math.ceil(math.log2(count))


def _alltoall(splines: int) -> Callable[[Network, float, Channel], float]:
    """Cost function of one of `splines` patterns of an all-to-all; size: bytes in one pattern."""

    def seconds(net: Network, size: float, channel: Channel) -> float:
        n, h = net.workers, net.per_host
        partners = max(n // splines, 1)
        each = size / partners
        inside, outside = partners * (h - 1) / n, partners * (n - h) / n
        sent = net.links(each * inside, each * outside, channel)
        crowd = channel.incast * (partners - 1) / max(n - 1, 1)
        return sent * (1 + crowd) + (1 + math.log2(partners + 1)) * channel.latency

    return seconds


def _circle_seconds(net: Network, size: float, channel: Channel) -> float:
    """Seconds of an all-gather around a circle of workers."""
    n = net.workers
    return size * (n - 1) / n / channel.outside + (n - 1) * channel.latency


def _tree_seconds(net: Network, size: float, channel: Channel) -> float:
    """Seconds of a broadcast along a binary tree."""
    return _treed(net, size, channel) / 2


PATTERNS: dict[str, Callable[[Network, float, Channel], float]] = {
    "scattered": _scatter_seconds,
    "hosted": _host_seconds,
    "treed": _treed,
    "circled": _circle_seconds,
    "branched": _tree_seconds,
} | {f"splined{count}": _alltoall(count) for count in SPLINES}

CHOICES = {
    "all_reduce": ("scattered", "hosted", "treed"),
    "all_to_all": tuple(f"splined{count}" for count in SPLINES),
    "all_gather": ("circled",),
    "broadcast": ("branched",),
}
"""The patterns of each operation."""


def splines_of(pattern: str) -> int:
    """Returns the number of motifs per segment of a pattern."""
    return int(pattern.removeprefix("splined")) if pattern.startswith("splined") else 1
