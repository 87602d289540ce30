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
"""Proposals per exchange before the search may stop because of too little gain."""
REHEARSED, SKIPPED = 5, 2
"""Iterations that are simulated to judge a repeated order, and how many first ones are ignored."""
NONE: Mapping[str, float] = {}
Cost = Callable[[Mapping[str, Option], Mapping[str, float]], float]
"""Seconds of an iteration by options and leads."""
REACH = 0.3
"""Standard deviation of a drawn lead, as a fraction of an iteration."""


@dataclass(frozen=True)
class Search:
    """Limits of a search.

    budget: seconds; beta: inverse temperature by relative loss; proposals: upper limit, so that a
    search can be repeated exactly.
    """

    budget: float = 2.0
    beta: float = 100.0
    seed: int = 0
    proposals: int = 1_000_000


DEFAULT = Search()


class Walk(NamedTuple):
    """Result of a walk.

    options, leads: the best; cost: theirs; greedy_cost: that of the greedy options; proposals:
    number tried.
    """

    options: dict[str, Option]
    leads: dict[str, float]
    cost: float
    greedy_cost: float
    proposals: int


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    cost: estimated seconds of an iteration; greedy_cost: those of the greedy options; proposals:
    number tried; seconds: duration of the search.
    """

    plan: Plan
    cost: float
    greedy_cost: float
    proposals: int
    seconds: float


def optimize(dag: Dag, net: Network, search: Search = DEFAULT, version: int = 1) -> SearchResult:
    """Searches for the best plan."""
    began = time.monotonic()
    walk = walk_options(dag, net, lambda some, leads: rehearse(dag, net, some, leads)[0], search)
    order = rehearse(dag, net, walk.options, walk.leads)[1]
    took = time.monotonic() - began
    plan = Plan(walk.options, order, version, spread(dag, net, walk.options))
    return SearchResult(plan, walk.cost, walk.greedy_cost, walk.proposals, took)


def spread(dag: Dag, net: Network, chosen: Mapping[str, Option]) -> dict[str, tuple[int, ...]]:
    """The channels of each exchange's motifs."""
    some = [dag.operations[place] for place in dag.exchanges]
    return {
        one.name: tuple(
            each.channel for each in strands(net, one.kind, one.size, chosen[one.name])
        )
        for one in some
    }


def rehearse(
    dag: Dag, net: Network, chosen: Mapping[str, Option], leads: Mapping[str, float] = NONE
) -> tuple[float, Order]:
    """Simulated seconds of an iteration with the order of opt_sched repeated, and that order.

    The thesis uses the end of the two iterations as their cost. That counts the work that an
    iteration leaves to its successor, which costs nothing while iterations follow each other.
    """
    order = cyclic(dag, net, chosen, opt_sched(dag, net, chosen, leads).ran)
    rules = Rules(sequence=sequence(dag, order, REHEARSED), prefetched=True)
    return Streams(dag, net, chosen, REHEARSED, rules).run().period(SKIPPED), order


def walk_options(dag: Dag, net: Network, cost: Cost, search: Search, ordered: bool = True) -> Walk:
    """Metropolis-Hastings walk over options and leads from the greedy options on.

    Each step changes one exchange at random: its option, or, if `ordered`, its lead, by which
    opt_sched takes it for more or less urgent than its critical path says. The walk stops at the
    end of the budget, or when the last gain is longer ago than half of the time so far.
    """
    draw = random.Random(search.seed)
    some = [dag.operations[place] for place in dag.exchanges]
    state = {one.name: greedy(net, one.kind, one.size, True) for one in some}, dict(NONE)
    began = gained = time.monotonic()
    at = initial = cost(*state)
    best, least = state, at
    count = 0
    while some and count < search.proposals:
        elapsed = time.monotonic() - began
        stale = time.monotonic() - gained > elapsed / 2
        # Enough time is left for a proposal, and for the caller to simulate the best one again.
        spent = elapsed + 3 * elapsed / (count + 1) >= search.budget
        if spent or (stale and count >= LEAST * len(some)):
            break
        count += 1
        one = draw.choice(some)
        chosen, leads = state
        if ordered and draw.random() < 0.5:
            leads = leads | {one.name: draw.gauss(0.0, REACH * initial)}
        else:
            chosen = chosen | {one.name: draw.choice(options(net, one.kind))}
        price = cost(chosen, leads)
        if price <= at or draw.random() < math.exp(search.beta * (at - price) / initial):
            state, at = (chosen, leads), price
            if at < least:
                best, least, gained = state, at, time.monotonic()
    return Walk(*best, least, initial, count)
