"""Orders and executions of today, with which plans are compared, in a simulation.

Source: K. Mahajan, PhD thesis, 2021, section 4.6.4. Where an order is said to be helped by an
oracle, the oracle tries numbers of segments on the very simulation that judges it. The
hand-optimised order is the best of all fixed priorities, so no person does better with these
means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np

from tuskml.schedule.exchange.events import Key, Ran, Rules, Streams
from tuskml.schedule.exchange.network import SEGMENTS, Network
from tuskml.schedule.exchange.ordering import (
    DEFAULT,
    Search,
    cyclic,
    opt_sched,
    optimize,
    sequence,
    walk_options,
)
from tuskml.schedule.exchange.plan import Dag, Option, Plan, greedy

Options = Mapping[str, Option]


@dataclass(frozen=True)
class Judge:
    """Runs iterations and drops the first `skipped`. noise: standard deviation of a worker's
    computation, relative; a computation of all lasts as long as its slowest worker's."""

    dag: Dag
    net: Network
    iterations: int = 10
    skipped: int = 3
    noise: float = 0.02
    seed: int = 0

    def ran(self, chosen: Options, rules: Rules) -> Ran:
        """What happened."""
        shape = self.net.workers, self.iterations, len(self.dag.operations)
        draw = np.random.default_rng(self.seed)
        slowest = 1 + np.abs(draw.standard_normal(shape)).max(axis=0) * self.noise
        stretch = slowest.tolist()
        return Streams(self.dag, self.net, chosen, self.iterations, rules, stretch).run()

    def seconds(self, chosen: Options, rules: Rules) -> float:
        """Returns the seconds of an iteration."""
        return self.ran(chosen, rules).period(self.skipped)

    def planned(self, plan: Plan) -> float:
        """Seconds of an iteration where a plan is enforced."""
        order = sequence(self.dag, plan.order, self.iterations)
        return self.seconds(plan.options, Rules(sequence=order, prefetched=True))


@dataclass(frozen=True)
class Reached:
    """seconds: of an iteration; options: with which."""

    seconds: float
    options: Options


def fastest(judge: Judge, patterns: bool = True) -> dict[str, Option]:
    """Each exchange in the way that is fastest alone; patterns: of all-to-all too."""
    made = {}
    for place in judge.dag.exchanges:
        one = judge.dag.operations[place]
        made[one.name] = greedy(judge.net, one.kind, one.size)
        if one.kind == "all_to_all" and not patterns:
            made[one.name] = Option("splined1")
    return made


def oracle(chosen: Options, seconds: Callable[[Options], float]) -> Reached:
    """The best numbers of segments: one exchange after the other until nothing is better."""
    best = Reached(seconds(chosen), chosen)
    while True:
        before = best.seconds
        for name in chosen:
            for count in SEGMENTS:
                tried = dict(best.options)
                tried[name] = replace(tried[name], segments=count)
                took = seconds(tried)
                if took < best.seconds:
                    best = Reached(took, tried)
        if best.seconds >= before:
            return best


def fifo(judge: Judge) -> Reached:
    """In the order in which exchanges are asked for, whole, one at a time."""
    chosen = fastest(judge, patterns=False)
    return Reached(judge.seconds(chosen, Rules(single=True)), chosen)


def _last(ready: float, place: int, iteration: int) -> tuple[float, ...]:
    return -ready, -iteration, -place


def lifo(judge: Judge) -> Reached:
    """The exchange that was asked for last goes first, with the segment oracle."""
    rules = Rules(_last, single=True)
    return oracle(fastest(judge, patterns=False), lambda some: judge.seconds(some, rules))


def _ranked(ranks: Mapping[int, int]) -> Key:
    return lambda ready, place, iteration: (ranks[place], iteration)


def all_to_all_first(judge: Judge) -> Reached:
    """All-to-all before all-reduce, each in the order of asking, with the segment oracle."""
    kinds = [each.kind for each in judge.dag.operations]

    def key(ready: float, place: int, iteration: int) -> tuple[float, ...]:
        return kinds[place] != "all_to_all", ready

    rules = Rules(key, single=True)
    return oracle(fastest(judge), lambda some: judge.seconds(some, rules))


def hand_optimised(judge: Judge, prefetched: bool = False) -> Reached:
    """The best of all fixed priorities, with the segment oracle and greedy execution.

    prefetched: with exchanges of the next iteration asked for early, which today's programs do
    not do.
    """
    best = Reached(float("inf"), {})
    chosen: Options = fastest(judge)
    every = list(permutations(judge.dag.exchanges))
    for _ in range(2):
        rules = [
            Rules(_ranked({p: k for k, p in enumerate(order)}), (), True, prefetched)
            for order in every
        ]
        some = min(rules, key=lambda each: judge.seconds(chosen, each))
        found = oracle(chosen, lambda tried, some=some: judge.seconds(tried, some))  # type: ignore[misc]
        best, chosen = min(best, found, key=lambda each: each.seconds), found.options
    return best


def execution_only(judge: Judge, search: Search = DEFAULT) -> Reached:
    """The options are searched, the order is that of asking."""
    first_come = Rules()

    def cost(some: Options, _: Mapping[str, float]) -> float:
        return Streams(judge.dag, judge.net, some, 6, first_come).run().period(2)

    chosen = walk_options(judge.dag, judge.net, cost, search, ordered=False).options
    return Reached(judge.seconds(chosen, first_come), chosen)


def scheduling_only(judge: Judge) -> Reached:
    """The order is that of opt_sched, the options are the greedy ones with the segment oracle."""

    def seconds(some: Options) -> float:
        order = cyclic(judge.dag, judge.net, some, opt_sched(judge.dag, judge.net, some).ran)
        return judge.planned(Plan(some, order))

    return oracle(fastest(judge, patterns=False), seconds)


def jointly(judge: Judge, search: Search = DEFAULT) -> Reached:
    """Options and order together: the central optimizer's plan, enforced."""
    plan = optimize(judge.dag, judge.net, search).plan
    return Reached(judge.planned(plan), plan.options)
