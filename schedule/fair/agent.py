"""The agent of an app: its reports and its bids."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tuskml.schedule.fair.leases import Workers, largest
from tuskml.schedule.fair.valuation import App, Slowdowns

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
