"""The central optimizer: Metropolis-Hastings over the options of all exchanges.

opt_sched orders the motifs of chosen options by critical paths over two iterations.

Source: K. Mahajan, PhD thesis, 2021, section 4.4.3, pseudocode 4.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tuskml.schedule.exchange.events import Ran, Rules, Streams
from tuskml.schedule.exchange.network import Network
from tuskml.schedule.exchange.plan import Dag, Option, Plan, alone, greedy, options, strands

ITERATIONS = 2
Order = tuple[tuple[str, int, int], ...]


class Schedule(NamedTuple):
    """An order and its cost: the seconds until both iterations have ended."""

    cost: float
    ran: Ran


def opt_sched(
    dag: Dag, net: Network, chosen: Mapping[str, Option], leads: Mapping[str, float] | None = None
) -> Schedule:
    """Orders motifs: a free channel takes the ready motif with the longest critical path.

    leads: seconds added to the critical path of an exchange.
    """
    path = critical_paths(dag, net, chosen)
    for name, lead in (leads or {}).items():
        for row in path:
            row[dag.at[name]] += lead

    def key(ready: float, place: int, iteration: int) -> tuple[float, ...]:
        return -path[iteration][place], place

    rules = Rules(key, prefetched=True)
    ran = Streams(dag, net, chosen, ITERATIONS, rules).run()
    return Schedule(ran.makespan, ran)


def critical_paths(dag: Dag, net: Network, chosen: Mapping[str, Option]) -> list[list[float]]:
    """Seconds from the start of each operation to the end of all that depends on it, (2, n)."""
    count = len(dag.operations)
    own = [
        alone(net, one.kind, one.size, chosen[one.name]) if one.kind else one.seconds
        for one in dag.operations
    ]
    path = [own[:] for _ in range(ITERATIONS)]
    before = dag.before(True)
    for iteration in reversed(range(ITERATIONS)):
        for place in reversed(range(count)):
            behind = path[iteration][place]
            for need, lag in before[place]:
                if lag <= iteration:
                    row = path[iteration - lag]
                    row[need] = max(row[need], own[need] + behind)
    return path


def cyclic(dag: Dag, net: Network, chosen: Mapping[str, Option], ran: Ran) -> Order:
    """The order to repeat: the motifs of the second iteration by their start times.

    A motif that started before its iteration is requested one iteration ahead (1), and one that
    started after its end is left to the next (-1). Orders that contradict the dependencies are
    replaced by an order of a single iteration.
    """
    begin, end = ran.computed
    period = max(end - begin, 1e-12)
    placed = []
    for (place, motif, iteration), start in ran.starts.items():
        if iteration == 1 and dag.operations[place].kind:
            ahead = -math.floor((start - begin) / period)
            ahead = min(max(ahead, -1), 1)
            placed.append((start - begin + ahead * period, place, motif, ahead))
    placed.sort()
    order = tuple((dag.operations[p].name, m, ahead) for _, p, m, ahead in placed)
    return order if legal(dag, order) else plain(dag, net, chosen)


def legal(dag: Dag, order: Sequence[tuple[str, int, int]]) -> bool:
    """Returns whether no motif precedes one on which it depends, so that no worker waits for
    ever.
    """
    first: dict[int, tuple[int, int]] = {}
    last: dict[int, tuple[int, int]] = {}
    for position, (name, _, ahead) in enumerate(order):
        when, place = (-ahead, position), dag.at[name]
        first[place] = min(first.get(place, when), when)
        last[place] = max(last.get(place, when), when)
    if set(first) != set(dag.exchanges):
        return False
    for place in dag.exchanges:
        for need, lag in dag.exchanges_before(place):
            window, position = last[need]
            if (window - lag, position) > first[place]:
                return False
    return True


def plain(dag: Dag, net: Network, chosen: Mapping[str, Option]) -> Order:
    """The program's order."""
    some = [dag.operations[place] for place in dag.exchanges]
    return tuple(
        (one.name, motif, 0)
        for one in some
        for motif in range(len(strands(net, one.kind, one.size, chosen[one.name])))
    )


def sequence(dag: Dag, order: Order, iterations: int) -> list[tuple[int, int, int]]:
    """Unrolls the order over many iterations as (index, motif, iteration)."""
    return list(_unroll(dag, order, iterations))


def _unroll(dag: Dag, order: Order, iterations: int) -> Iterator[tuple[int, int, int]]:
    for window in range(-1, iterations + 1):
        for name, motif, ahead in order:
            if 0 <= window + ahead < iterations:
                yield dag.at[name], motif, window + ahead


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
