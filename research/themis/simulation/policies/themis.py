"""Themis: auctions among the worst-off, and what is left over to the others, the worst-off first.

In two points it is not as in the thesis, which gives what is left over at random, and where an app
that has workers bids like one that has none. Here claims are held against what apps received, so
they may say who is first; and an app keeps its workers where the others are hardly worse off, as
each change costs a restart.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from research.themis.pieces import SIZES, split, use
from research.themis.simulation.apps import Stage, speed_of
from research.themis.simulation.running import Array, Running, Shares, View
from tuskml.schedule.fair.arbiter import Claim
from tuskml.schedule.fair.auction import (
    STAY,
    Bid,
    Slowdowns,
    draw_kept_workers,
    partial_allocation,
    worst_off,
)
from tuskml.schedule.fair.solving import Solver, Uses, greedily

MOST_BUNDLES = 12
NOTHING = 100.0
"""Times rho with the least bundle, for an app that would have no workers at all: it would never
end. The same for all, so that nobody has none as long as there are enough."""


@dataclass
class Themis:
    """f: the part of apps that does not bid; solver: of each auction.

    said: by the number of an app, by which factor it overstates its rho, all other apps tell the
    truth; audited: whether claims are held against what apps received; errors: by number, the
    factor by which an app is wrong about its work; stay: as `STAY`; random: what is left over goes
    to the others at random; key: of the draws, -1 before the first auction.
    """

    f: float = 0.8
    stay: float = STAY
    random: bool = False
    solver: Solver = greedily
    said: Mapping[int, float] = field(default_factory=dict)
    errors: Mapping[int, float] = field(default_factory=dict)
    audited: bool = True
    claims: dict[int, Claim] = field(default_factory=dict)
    auctions: int = 0
    key: int = -1

    def __call__(self, view: View) -> Shares:
        """One round of pseudocode 3."""
        wanting = view.wanting
        rhos = {app: self.rank(view, app) * (1 + self.stay * bool(app.before)) for app in wanting}
        bidders = worst_off(rhos, self.f)
        bids = [bid_of(view, app, self.claimed(app).work) for app in bidders]
        capacity = np.array(view.capacity, np.int64)
        awards = partial_allocation(bids, capacity, self.solver)
        self.auctions += 1
        shares: dict[Running, int] = {}
        for app, bid, award in zip(bidders, bids, awards, strict=True):
            if award.bundle >= 0 and bid.size is not None:
                workers = int(bid.size[award.bundle])
                shares[app] = draw_kept_workers(workers, award.kept, self.coin(view, app))
        left = view.free - sum(shares.values())
        if left:
            won = set(bidders)
            others = [app for app in wanting if app not in won]
            left = dealt(self.ordered(view, others, rhos), shares, left)
            dealt(self.ordered(view, bidders, rhos), shares, left)
        return [(app, n) for app, n in shares.items() if n]

    def coin(self, view: View, app: Running) -> np.random.Generator:
        """Draws of an app at this time, the same whatever others do and whatever it has said."""
        if self.key < 0:
            self.key = int(view.draw.integers(1 << 62))
        return np.random.default_rng([self.key, app.number, round(view.now)])

    def ordered(
        self, view: View, apps: list[Running], rhos: Mapping[Running, float]
    ) -> list[Running]:
        """In which order apps get what is left over."""
        if self.random:
            return [apps[place] for place in view.draw.permutation(len(apps)).tolist()]
        return sorted(apps, key=lambda app: -rhos[app])

    def claimed(self, app: Running) -> Claim:
        """What the app says of its work, held against what it received."""
        claim = self.claims.get(app.number)
        if claim is None:
            factor = self.errors.get(app.number, 1.0)
            if self.audited:
                factor /= self.said.get(app.number, 1.0)
            claim = self.claims[app.number] = Claim(app.spec.work * factor)
        return claim

    def rank(self, view: View, app: Running) -> float:
        """The rho by which bidders are chosen: what it comes to without workers in this lease."""
        claim, share = self.claimed(app), view.share(app)
        elapsed = view.now - app.spec.arrival
        if self.audited:
            claim.audit(app.service)
            pace = app.spec.ideal(share) / app.spec.work
            return claim.rho(elapsed, app.service, pace, view.lease)
        left = app.seconds_left(share)
        truth = (elapsed + view.lease + left) / app.spec.ideal(share)
        return truth * self.said.get(app.number, 1.0) / self.errors.get(app.number, 1.0)


def dealt(order: list[Running], shares: dict[Running, int], left: int) -> int:
    """Gives what is left over to apps that can use it, in order; how many workers nobody can.

    First as many as an app held before, as these run on without a restart, then the workers of one
    job after another.
    """
    for app in order:
        more = min(left, app.unmet - shares.get(app, 0), sum(app.before.values()))
        if more > 0:
            shares[app] = shares.get(app, 0) + more
            left -= more
    while left and order:
        again = []
        for app in order:
            more = min(left, app.unmet - shares.get(app, 0), app.now_in.most)
            if more > 0:
                shares[app] = shares.get(app, 0) + more
                left -= more
                again.append(app)
        order = again
    return left


def bid_of(view: View, app: Running, work: float) -> Bid:
    """The app's table: several numbers of workers, on whole machines or wherever there are
    some."""
    elapsed, held = view.now - app.spec.arrival, app.workers
    known = work / app.spec.work
    ideal = app.spec.ideal(view.share(app)) * known
    sizes, pieces, speeds = bundles(app.now_in, held, app.unmet, app.spec.slowdowns)
    later = app.spec.stages[app.stage + 1 :]
    left = max(known * app.remaining + (known - 1) * app.service, 1.0)
    scale = left / app.remaining
    seconds = app.left / speeds
    for stage in later:
        seconds = seconds + stage.work / np.minimum(held + sizes, stage.demand)
    rho = (elapsed + seconds * scale) / ideal
    without = NOTHING * float(rho.max())
    if held:
        goes_on = app.left / app.rate + sum(one.work / min(held, one.demand) for one in later)
        without = max((elapsed + goes_on * scale) / ideal, float(rho.max()))
    return Bid(pieces, rho, without, sizes)


@lru_cache(maxsize=50_000)
def bundles(stage: Stage, held: int, unmet: int, by: Slowdowns) -> tuple[Uses, Uses, Array]:
    """Returns each bundle's workers (B,), its use of pieces (B, 4), work per second with those
    held.
    """
    numbers = np.unique(np.round(np.geomspace(1, unmet, MOST_BUNDLES)).astype(np.int64)).tolist()
    whole = [n * stage.most for n in range(1, 5) if n * stage.most <= unmet]
    sizes: list[int] = []
    rows: list[list[int]] = []
    speeds: list[float] = []
    for n in sorted({*numbers, *whole}):
        loose = speed_of(stage.jobs, stage.most, (1,) * (held + n), by.machine, by.cluster)
        packed = chunks(stage, n)
        inside = by.rack if stage.most > SIZES[0] else by.machine
        fast = speed_of(stage.jobs, stage.most, tuple(packed) + (1,) * held, inside, by.cluster)
        for pieces, each in (([1] * n, loose), (packed, fast)):
            if each > (speeds[-1] if speeds else 0.0) * (1 + 1e-9):
                small = [size for piece in pieces for size in split(piece)]
                sizes.append(n)
                rows.append([small.count(size) for size in SIZES])
                speeds.append(each)
    return np.array(sizes, np.int64), use(np.array(rows, np.int64)), np.array(speeds)


def chunks(stage: Stage, workers: int) -> list[int]:
    """Workers of each job, if as many jobs as can have all that they can use."""
    whole, part = divmod(workers, stage.most)
    return [stage.most] * whole + [part] * (part > 0)
