"""The central optimizer: Metropolis-Hastings over the options of all exchanges.

Source: K. Mahajan, PhD thesis, 2021, section 4.4.3, pseudocode 4.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tuskml.schedule.exchange.dag import Dag
from tuskml.schedule.exchange.events import Rules, Streams
from tuskml.schedule.exchange.network import Network
from tuskml.schedule.exchange.ordering import Order, cyclic, opt_sched, sequence
from tuskml.schedule.exchange.plan import Option, Plan, greedy, options, strands

LEAST = 100
"""Proposals for each exchange before the search may stop for want of a gain."""
REHEARSED, SKIPPED = 5, 2
"""Iterations in which a repeated order is judged, and the first ones that do not count."""
NONE: Mapping[str, float] = {}
Cost = Callable[[Mapping[str, Option], Mapping[str, float]], float]
"""Of options and leads."""
REACH = 0.3
"""Standard deviation of a drawn lead, of an iteration."""


@dataclass(frozen=True)
class Search:
    """budget: seconds; beta: how unlikely worse plans are, per relative loss; proposals: at most
    that many, so that a search can be repeated exactly."""

    budget: float = 2.0
    beta: float = 100.0
    seed: int = 0
    proposals: int = 1_000_000


DEFAULT = Search()


class Walk(NamedTuple):
    """options, leads: the best; cost: theirs; begun: cost of the greedy ones; proposals: tried."""

    options: dict[str, Option]
    leads: dict[str, float]
    cost: float
    begun: float
    proposals: int


@dataclass(frozen=True)
class Found:
    """cost: estimated seconds of an iteration; begun: those of the greedy options; proposals: how
    many were tried; seconds: of the search."""

    plan: Plan
    cost: float
    begun: float
    proposals: int
    seconds: float


def optimized(dag: Dag, net: Network, search: Search = DEFAULT, version: int = 1) -> Found:
    """The best plan that a search finds."""
    began = time.monotonic()
    walk = walked(dag, net, lambda some, leads: rehearsed(dag, net, some, leads)[0], search)
    order = rehearsed(dag, net, walk.options, walk.leads)[1]
    took = time.monotonic() - began
    plan = Plan(walk.options, order, version, spread(dag, net, walk.options))
    return Found(plan, walk.cost, walk.begun, walk.proposals, took)


def spread(dag: Dag, net: Network, chosen: Mapping[str, Option]) -> dict[str, tuple[int, ...]]:
    """The channels of each exchange's motifs."""
    some = [dag.operations[place] for place in dag.exchanges]
    return {
        one.name: tuple(
            each.channel for each in strands(net, one.kind, one.size, chosen[one.name])
        )
        for one in some
    }


def rehearsed(
    dag: Dag, net: Network, chosen: Mapping[str, Option], leads: Mapping[str, float] = NONE
) -> tuple[float, Order]:
    """Seconds of an iteration once the order of opt_sched repeats, and that order.

    The thesis takes the end of the two iterations as their cost. That counts what an iteration
    leaves to its successor, which costs nothing while iterations follow each other.
    """
    order = cyclic(dag, net, chosen, opt_sched(dag, net, chosen, leads).ran)
    rules = Rules(sequence=sequence(dag, order, REHEARSED), prefetched=True)
    return Streams(dag, net, chosen, REHEARSED, rules).run().period(SKIPPED), order


def walked(dag: Dag, net: Network, cost: Cost, search: Search, ordered: bool = True) -> Walk:
    """A walk over options and leads, which begins with the greedy options.

    Each step changes one exchange at random: its option, or, where `ordered`, its lead, by which
    opt_sched takes it for more or less urgent than its critical path says. It stops at the end of
    the budget, or when the last gain is longer ago than half of the time so far.
    """
    draw = random.Random(search.seed)
    some = [dag.operations[place] for place in dag.exchanges]
    state = {one.name: greedy(net, one.kind, one.size, True) for one in some}, dict(NONE)
    began = gained = time.monotonic()
    at = begun = cost(*state)
    best, least = state, at
    count = 0
    while some and count < search.proposals:
        elapsed = time.monotonic() - began
        stale = time.monotonic() - gained > elapsed / 2
        # Time is left for a proposal, and for its caller to rehearse the best one once more.
        spent = elapsed + 3 * elapsed / (count + 1) >= search.budget
        if spent or (stale and count >= LEAST * len(some)):
            break
        count += 1
        one = draw.choice(some)
        chosen, leads = state
        if ordered and draw.random() < 0.5:
            leads = leads | {one.name: draw.gauss(0.0, REACH * begun)}
        else:
            chosen = chosen | {one.name: draw.choice(options(net, one.kind))}
        price = cost(chosen, leads)
        if price <= at or draw.random() < math.exp(search.beta * (at - price) / begun):
            state, at = (chosen, leads), price
            if at < least:
                best, least, gained = state, at, time.monotonic()
    return Walk(*best, least, begun, count)
