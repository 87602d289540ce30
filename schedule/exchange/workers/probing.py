"""Measurements of links and computations on the workers themselves."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tuskml.schedule.exchange.algebra import Motif
from tuskml.schedule.exchange.cells import cells
from tuskml.schedule.exchange.dag import Dag
from tuskml.schedule.exchange.network import Channel, Network
from tuskml.schedule.exchange.sockets import Links
from tuskml.schedule.exchange.workers.windows import Workers

SMALL, LARGE = 1_024, 262_144
"""Bytes of a probe to each other worker."""
ROUNDS = 3


def probe_links(links: Links, workers: Workers) -> list[Channel]:
    """Measures rate and latency of each link before the first iteration; equal on all workers.

    Two all-to-all exchanges of known sizes solve the cost equation of `Network`.
    """
    measurements = []
    for link in range(workers.links):
        small, large = (_slowest(links, workers, link, size) for size in (SMALL, LARGE))
        bytes_ = (LARGE - SMALL) * (workers.count - 1)
        rate = bytes_ / max(large - small, 1e-9)
        rest = max(small - SMALL * (workers.count - 1) / rate, 1e-6)
        measurements.append(Channel(rate, rate, rest / (1 + math.log2(workers.count + 1))))
    return measurements


def _slowest(links: Links, workers: Workers, link: int, size: int) -> float:
    """Least seconds of an all-to-all, of the slowest worker: other load only adds time."""
    everyone = tuple(range(workers.count))
    took = []
    for number in range(ROUNDS + 1):
        sent = [np.zeros(size, np.uint8)] * workers.count
        began = time.monotonic()
        memory = cells("all_to_all", links.rank, sent)
        key = f"probe/{link}/{size}/{number}"
        links.exchange(key, Motif("all_to_all", everyone), memory, link)
        took.append(time.monotonic() - began)
    # The first run is left out: it includes the wait for late workers.
    memory = cells("all_gather", links.rank, np.array([min(took[1:])]))
    links.exchange(f"probe/{link}/{size}", Motif("all_gather", everyone), memory, link)
    return max(float(each[0]) for each in memory.result(workers.count))


def network(channels: Sequence[Channel], count: int, per_host: int = 1) -> Network:
    """The network for a search."""
    return Network(count // per_host, per_host, tuple(channels))


def with_seconds(dag: Dag, seconds: Mapping[str, float]) -> Dag:
    """Copies the DAG with measured seconds of computations."""
    return Dag(
        [
            one if one.kind else replace(one, seconds=seconds.get(one.name, one.seconds))
            for one in dag.operations
        ]
    )
