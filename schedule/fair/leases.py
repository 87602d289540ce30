"""Leases of workers on the nodes of a cluster."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
