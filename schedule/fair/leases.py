"""Leases of workers on the nodes of a cluster, and the agent of an app: reports and bids."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from tuskml.schedule.fair.auction import App, Slowdowns

LEAST_SAMPLES = 3
"""Samples of either kind before they are used."""
KEPT = 64


@dataclass
class Profile:
    """Seconds per row of units that ran while the app was on one machine, or on several.

    Source: thesis, section 3.4.3.1, footnote 3: crude estimates at first, replaced by profiles
    of the placements that the app happens to get.
    """

    guess: Slowdowns = field(default_factory=Slowdowns)
    seen: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})

    def note(self, spread: bool, seconds_per_row: float) -> None:
        """Records a finished unit."""
        mine = self.seen[spread]
        mine.append(seconds_per_row)
        del mine[:-KEPT]

    @property
    def pace(self) -> float | None:
        """Seconds per row on one machine, or wherever it ran; None before the first unit."""
        samples = self.seen[False] or self.seen[True]
        return median(samples) if samples else None

    def slowdowns(self) -> Slowdowns:
        """Slowdowns S(G), at least 1."""
        one, several = self.seen[False], self.seen[True]
        if min(len(one), len(several)) < LEAST_SAMPLES:
            return self.guess
        ratio = max(1.0, median(several) / median(one))
        return Slowdowns(1.0, ratio, ratio)


Workers = dict[str, int]
"""Number of workers by node."""


def without_zeros(workers: Mapping[str, int]) -> Workers:
    """Copies without the nodes that have no workers."""
    return {node: n for node, n in workers.items() if n > 0}


@dataclass
class Leases:
    """Leases of all apps.

    held: workers by app; until: common end by the caller's clock.
    """

    until: float = 0.0
    held: dict[str, Workers] = field(default_factory=dict)

    def of(self, app: str) -> Workers:
        """Workers of an app."""
        return self.held.get(app, {})

    def free(self, nodes: Mapping[str, int], but: Iterable[str] = ()) -> Workers:
        """Workers that no app but those in `but` holds."""
        left, ignored = dict(nodes), set(but)
        for app, workers in self.held.items():
            for node, n in workers.items() if app not in ignored else ():
                left[node] = left.get(node, 0) - n
        return without_zeros(left)

    def give(self, app: str, more: Mapping[str, int]) -> None:
        """Adds workers to those of an app."""
        mine = self.held.setdefault(app, {})
        for node, n in more.items():
            mine[node] = mine.get(node, 0) + n

    def forget(self, app: str) -> None:
        """Removes an app."""
        self.held.pop(app, None)


def largest(workers: Mapping[str, int], most: int) -> Workers:
    """At most `most` of the workers, from the nodes with the most."""
    chosen: Workers = {}
    for node, n in sorted(workers.items(), key=lambda pair: (-pair[1], pair[0])):
        chosen[node] = min(n, most)
        most -= chosen[node]
    return without_zeros(chosen)


def distribute_free_workers(
    free: Workers, wanted: Mapping[str, int], before: Mapping[str, Mapping[str, int]]
) -> dict[str, Workers]:
    """Distributes free workers one by one among apps, the first ones first.

    A worker goes first to apps that had workers on its node before, which run on there, then to
    those that have some there now, then to any; among these to the one that has got the least.
    wanted: workers that each app can still use, in order.
    """
    unmet, shares = dict(wanted), {app: Workers() for app in wanted}
    for node in sorted(free):
        for _ in range(free[node]):
            open_ = [app for app in unmet if unmet[app] > 0]
            if not open_:
                break
            there = [app for app in open_ if shares[app].get(node, 0) < before[app].get(node, 0)]
            there = there or [app for app in open_ if shares[app].get(node)] or open_
            app = min(there, key=lambda one: sum(shares[one].values()))
            shares[app][node] = shares[app].get(node, 0) + 1
            unmet[app] -= 1
    return shares


MOST_BUNDLES = 48
NOTHING = 100.0
"""Factor on the rho of the least bundle, for an app that would have no workers."""


@dataclass(frozen=True)
class Table:
    """A bid over nodes.

    bundles: each the workers by node; rho: of each bundle; without: with none of them.
    """

    bundles: list[Workers]
    rho: list[float]
    without: float


def table_of(
    app: App,
    slowdowns: Slowdowns,
    elapsed: float,
    ideal: float,
    offer: Mapping[str, int],
    held: Mapping[str, int],
) -> Table:
    """Rho of the app for subsets of the offer with what it holds (equations 3.1 and 3.2)."""
    bundles, rhos = [], []
    for bundle in subsets(offer, app.demand - sum(held.values())):
        both = {node: held.get(node, 0) + bundle.get(node, 0) for node in {*held, *bundle}}
        rhos.append((elapsed + remaining_seconds(app, slowdowns, both)) / ideal)
        bundles.append(bundle)
    if not bundles:
        return Table([], [], 1.0)
    without = NOTHING * max(rhos)
    if held:
        without = max(*rhos, (elapsed + remaining_seconds(app, slowdowns, held)) / ideal)
    return Table(bundles, rhos, without)


def remaining_seconds(app: App, slowdowns: Slowdowns, workers: Mapping[str, int]) -> float:
    """Seconds until the app ends, with workers by node or with the best single node."""
    used = [n for n in workers.values() if n]
    alone = app.seconds_left(max(used), slowdowns.of(1, 1))
    return min(alone, app.seconds_left(sum(used), slowdowns.of(len(used), 1)))


def subsets(offer: Mapping[str, int], most: int) -> Iterable[Workers]:
    """Subsets for several numbers of workers, on consecutive nodes or on the fullest ones."""
    total = min(most, sum(offer.values()))
    if total < 1:
        return
    sizes = np.unique(np.round(np.geomspace(1, total, 8)).astype(int)).tolist()
    seen: set[tuple[tuple[str, int], ...]] = set()
    for size in sizes[::-1]:
        starts = [node for node in sorted(offer) if offer[node] > 0]
        for start in ["", *starts]:
            first = {start: min(offer[start], size)} if start else {}
            others = {node: n for node, n in offer.items() if node != start}
            bundle = first | largest(others, size - sum(first.values()))
            key = tuple(sorted(bundle.items()))
            if key not in seen and len(seen) < MOST_BUNDLES:
                seen.add(key)
                yield bundle
