"""The arbiter: rounds of auctions among apps that poll it.

It never calls an app. A round opens when leases end, or when workers are free that some app can
use. The selected bidders see the offer when they next poll, and answer with a table. The round
ends when all have answered, or after a time; bidders without an answer get a share of what is left
over. Until then every app keeps its workers. An app that stops polling is forgotten. All state is
in memory: a new arbiter learns from the apps what they hold.

Source: K. Mahajan, PhD thesis, 2021, sections 3.3.3.2 and 3.4.2, pseudocode 3.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tuskml.schedule.fair.auction import (
    STAY,
    Award,
    Bid,
    draw_kept_workers,
    partial_allocation,
    worst_off,
)
from tuskml.schedule.fair.leases import (
    Leases,
    Table,
    Workers,
    distribute_free_workers,
    largest,
    without_zeros,
)
from tuskml.schedule.fair.solving import Uses, exactly, greedily

TOLERANCE = 1.1
"""Tolerated overrun of an estimate."""
OVERRUN = 2.0
"""A claim that was exceeded becomes this multiple of the work that was done."""


@dataclass
class Claim:
    """An app's claim about its work, checked against the service that it received.

    An auction is blind to a common factor of a table, but the selection of bidders is not: the
    thesis asks apps for their rho, and one that overstates it bids in every round. So an app
    claims once how much work it has, and the arbiter computes rho from that, the clock, and the
    work that is done. A claim that turns out too small is doubled, so an app gains nothing by it
    for long; one that is too large ranks the app behind.

    work: worker seconds that an app claims; overruns: number of times it was exceeded.
    """

    work: float
    overruns: int = 0

    def audit(self, done: float) -> None:
        """Updates the claim once `done` seconds of work are finished."""
        while done > self.work * TOLERANCE:
            self.work = OVERRUN * done
            self.overruns += 1

    def rho(self, elapsed: float, done: float, ideal_of_one: float, wait: float) -> float:
        """Finish-time fairness after `wait` more seconds, with the remaining work at its ideal
        pace.

        ideal_of_one: seconds that a second of work takes on a cluster of its own.
        """
        ideal = self.work * ideal_of_one
        left = max(self.work - done, 0.0) * ideal_of_one
        return (elapsed + wait + left) / ideal


MOST_EXACT = 16
"""Number of bidders up to which the optimum is computed; above it, `greedily` is used."""


@dataclass(frozen=True)
class Rules:
    """Parameters of the auctions.

    f: fraction of apps that does not bid; lease, answer, silent: seconds of a lease, for a bid,
    and without a poll until an app is forgotten.
    """

    f: float = 0.8
    lease: float = 600.0
    answer: float = 2.0
    silent: float = 30.0


@dataclass
class AppState:
    """State of an app.

    since: its start by the arbiter's clock; heard: its last poll; demand: workers that it can use;
    service: worker seconds that it held; crowd: integral of the number of apps over time; missed:
    bids in a row that never came; waits: the round before which it gets no offer.
    """

    since: float
    heard: float
    demand: int
    crowd: float
    claim: Claim | None = None
    service: float = 0.0
    missed: int = 0
    waits: int = 0


@dataclass
class Round:
    """An open auction: the offer, its bidders, what they hold meanwhile, and its deadline."""

    number: int
    offer: Workers
    all_leases: bool
    bidders: list[str]
    ends: float
    tables: dict[str, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """The answer to an app.

    The workers that it holds, and for how many seconds; for a bidder the offer, the round's
    number, the workers that it keeps besides, its share of all workers, and its seconds so far.
    """

    held: Workers
    until: float
    offer: Workers | None = None
    round: int = -1
    beside: Workers = field(default_factory=dict)
    share: float = 1.0
    elapsed: float = 0.0


class Arbiter:
    """State of all auctions.

    clock: returns seconds; nodes: returns the current number of workers of each node.
    """

    def __init__(
        self,
        rules: Rules,
        clock: Callable[[], float],
        nodes: Callable[[], Mapping[str, int]],
        seed: int = 0,
    ) -> None:
        self.rules, self.clock, self.nodes = rules, clock, nodes
        self.apps: dict[str, AppState] = {}
        self.leases = Leases()
        self.round: Round | None = None
        self.rounds = 0
        self.draw = np.random.default_rng(seed)
        self.crowd, self.at = 0.0, clock()
        self.unanswered = 0

    def ask(
        self,
        app: str,
        demand: int,
        work: float | None = None,
        holds: Mapping[str, int] | None = None,
        age: float = 0.0,
    ) -> Reply:
        """Handles an app's poll; returns its workers and, for a bidder, the offer.

        demand: workers that it can use now; work: worker seconds that it claims, of which the
        first report counts; holds, age: its workers and its seconds so far, for an arbiter that
        does not know it.
        """
        now = self.move()
        known = self.apps.get(app)
        if known is None:
            mean = age * (len(self.apps) + 1)
            known = self.apps[app] = AppState(now - age, now, demand, self.crowd - mean)
            free = self.leases.free(self.nodes())
            holdings = {node: min(n, free.get(node, 0)) for node, n in (holds or {}).items()}
            if any(holdings.values()):
                self.leases.give(app, without_zeros(holdings))
        known.heard, known.demand = now, demand
        if known.claim is None and work is not None and math.isfinite(work) and work > 0:
            known.claim = Claim(work)
        self.step(now)
        mine, auction = self.leases.of(app), self.round
        reply = Reply(dict(mine), self.leases.until - now)
        if auction is None or app not in auction.bidders or app in auction.tables:
            return reply
        return Reply(
            reply.held,
            reply.until,
            auction.offer,
            auction.number,
            {} if auction.all_leases else dict(mine),
            self.share(app, now),
            now - known.since,
        )

    def bid(self, app: str, number: int, table: Table) -> bool:
        """Accepts a table for an offer; returns False if it came too late."""
        now = self.move()
        auction = self.round
        if auction is None or auction.number != number or app not in auction.bidders:
            return False
        auction.tables[app] = table
        self.step(now)
        return True

    def leave(self, app: str) -> None:
        """Removes an app that has ended."""
        now = self.move()
        self.apps.pop(app, None)
        self.leases.forget(app)
        self.step(now)

    def move(self) -> float:
        """Reads the clock and adds to the service of all apps; returns the time."""
        now = max(self.clock(), self.at)
        for app, known in self.apps.items():
            known.service += (now - self.at) * sum(self.leases.of(app).values())
        self.crowd += (now - self.at) * len(self.apps)
        self.at = now
        return now

    def step(self, now: float) -> None:
        """Ends and opens rounds, and forgets silent apps."""
        last = now - self.rules.silent
        for app in [one for one, known in self.apps.items() if known.heard < last]:
            self.apps.pop(app)
            self.leases.forget(app)
        if self.round is not None:
            waiting = [one for one in self.round.bidders if one in self.apps]
            if now < self.round.ends and any(one not in self.round.tables for one in waiting):
                return
            self.close(now, self.round)
        if not self.apps:
            return
        if now >= self.leases.until:
            self.open(now, all_leases=True)
        elif self.leases.free(self.nodes()) and any(self.unmet(app) for app in self.apps):
            self.open(now, all_leases=False)

    def unmet(self, app: str) -> int:
        """Workers that an app could use in addition to those that it holds."""
        return max(0, self.apps[app].demand - sum(self.leases.of(app).values()))

    def open(self, now: float, all_leases: bool) -> None:
        """Opens an auction of the free workers, or of all workers if leases end."""
        offer = self.leases.free(self.nodes(), self.apps if all_leases else ())
        asking = [app for app in self.apps if all_leases or self.unmet(app)]
        self.rounds += 1
        asking = [
            app
            for app in asking
            if self.apps[app].demand > 0 and self.apps[app].waits <= self.rounds
        ]
        ranks = {app: self.rank(app, now) for app in asking}
        if all_leases:
            ranks = {app: n * (1 + STAY * bool(self.leases.of(app))) for app, n in ranks.items()}
        bidders = worst_off(ranks, self.rules.f)
        self.round = Round(self.rounds, offer, all_leases, bidders, now + self.rules.answer)

    def share(self, app: str, now: float) -> float:
        """An app's equal share of the cluster, in workers."""
        known = self.apps[app]
        elapsed = now - known.since
        mean = (self.crowd - known.crowd) / elapsed if elapsed > 1.0 else len(self.apps)
        return sum(self.nodes().values()) / max(1.0, mean)

    def rank(self, app: str, now: float) -> float:
        """Rho for the selection of bidders, from the app's claim and the service that it received.

        An app without a claim ranks like one with the work of one lease of a worker.
        """
        known = self.apps[app]
        claim = known.claim or Claim(max(self.rules.lease, known.service))
        claim.audit(known.service)
        pace = 1 / max(min(self.share(app, now), known.demand), 1e-9)
        return claim.rho(now - known.since, known.service, pace, self.rules.lease)

    def close(self, now: float, auction: Round) -> None:
        """Applies the awards and gives away the rest; new leases, or workers within the current
        ones.
        """
        self.round = None
        nodes = dict(self.nodes())
        self.note_silence(auction)
        before = {app: dict(self.leases.of(app)) for app in self.apps}
        if auction.all_leases:
            self.leases = Leases(now + self.rules.lease)
        free = self.leases.free(nodes)
        for app, won in self.awards(auction, free).items():
            self.leases.give(app, won)
            free = without_zeros({node: n - won.get(node, 0) for node, n in free.items()})
        answered = [app for app in auction.bidders if app in auction.tables]
        others = [app for app in self.apps if app not in answered]
        for apps in (others, [app for app in answered if app in self.apps]):
            order = sorted(apps, key=lambda app: -self.rank(app, now))
            wanted = {app: self.unmet(app) for app in order}
            for app, more in distribute_free_workers(free, wanted, before).items():
                self.leases.give(app, more)
                free = without_zeros({node: n - more.get(node, 0) for node, n in free.items()})

    def note_silence(self, auction: Round) -> None:
        """Pauses offers to apps that do not answer them, twice as long each time."""
        for app in auction.bidders:
            known = self.apps.get(app)
            if known is None:
                continue
            known.missed = 0 if app in auction.tables else known.missed + 1
            if known.missed:
                self.unanswered += 1
                known.waits = auction.number + 2 ** min(known.missed, 6)

    def awards(self, auction: Round, free: Workers) -> dict[str, Workers]:
        """Workers that each bidder keeps. Invalid tables, and those that exceed the offer, count
        as none.
        """
        order = sorted(free)
        names, tables, bids = [], [], []
        for app, table in auction.tables.items():
            use = np.array(
                [[bundle.get(node, 0) for node in order] for bundle in table.bundles], np.int64
            ).reshape(-1, len(order))
            within = use.sum(axis=1) <= self.unmet(app) if app in self.apps else []
            if app in self.apps and len(use) == len(table.rho) and np.all(within) and len(use):
                names.append(app)
                tables.append(table)
                bids.append(Bid(use, np.array(table.rho, float), table.without))
        workers: dict[str, Workers] = {}
        capacity = np.array([free[node] for node in order], np.int64)
        for app, table, award in zip(names, tables, run_auction(bids, capacity), strict=True):
            if award.bundle >= 0:
                won = table.bundles[award.bundle]
                number = draw_kept_workers(sum(won.values()), award.kept, self.draw)
                workers[app] = largest(won, number)
        return workers


def run_auction(bids: list[Bid], capacity: Uses) -> list[Award]:
    """Runs the auction; a bid with invalid numbers gets nothing and does not affect the others."""
    good = [place for place, bid in enumerate(bids) if is_sound(bid)]
    solver = exactly if len(good) <= MOST_EXACT else greedily
    awards = partial_allocation([bids[place] for place in good], capacity, solver)
    every_award = [Award(-1, 0.0)] * len(bids)
    for place, award in zip(good, awards, strict=True):
        every_award[place] = award
    return every_award


def is_sound(bid: Bid) -> bool:
    """Returns whether each rho is a finite number above 0."""
    numbers = np.append(bid.rho, bid.without)
    return bool(np.isfinite(numbers).all() and (numbers > 0).all() and (bid.use >= 0).all())
