"""opt_sched: an order of motifs for chosen options, by critical paths over two iterations.

Source: K. Mahajan, PhD thesis, 2021, section 4.4.3, pseudocode 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tuskml.schedule.exchange.dag import Dag
from tuskml.schedule.exchange.events import Ran, Rules, Streams
from tuskml.schedule.exchange.network import Network
from tuskml.schedule.exchange.plan import Option, alone, strands

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
