"""What no scheduler can do better, whatever it knows of the future."""

from collections.abc import Sequence

import numpy as np

from research.themis.simulation.apps import Spec
from research.themis.simulation.running import Array

STEPS = 40
"""Of the bisection, from 0 to `MOST`."""
MOST = 64.0


def least_rho(specs: Sequence[Spec], workers: int, restart: float) -> float:
    """The greatest rho of all apps is at least this under any scheduler, with or without leases.

    No app ends before it has loaded once, `restart` seconds, and has then had all workers that it
    can use, all on one machine and from its arrival on. If no rho is above r, each app ends by r
    times its ideal, which is the longer, the more apps there are; and there are no more in its
    life than arrive before it ends and have not surely ended before it arrives. So r is impossible
    where an app cannot end in r times the greatest ideal that this leaves it. No more than `MOST`.
    """
    arrival = np.array([spec.arrival for spec in specs])
    alone = restart + np.array([spec.ideal(workers) for spec in specs])
    low, high = 0.0, MOST
    for _ in range(STEPS):
        r = (low + high) / 2
        if (alone <= r * greatest_ideals(specs, workers, arrival, r)).all():
            high = r
        else:
            low = r
    return low


def greatest_ideals(specs: Sequence[Spec], workers: int, arrival: Array, r: float) -> Array:
    """Seconds of each app alone with its share (N,), at most, if no rho is above r."""
    crowd = np.full(len(specs), float(len(specs)))
    while True:
        shares = (workers / crowd).tolist()
        ideal = np.array([spec.ideal(s) for spec, s in zip(specs, shares, strict=True)])
        ends = arrival + r * ideal
        together = (arrival <= ends[:, None]) & (ends >= arrival[:, None])
        fewer = np.minimum(crowd, np.maximum(together.sum(axis=1), 1))
        if (fewer == crowd).all():
            return ideal
        crowd = fewer


def may_have_incentive(specs: Sequence[Spec], workers: int, restart: float, r: float) -> float:
    """The part of apps that can have a rho of at most 1 under any scheduler whose greatest is at
    most r."""
    arrival = np.array([spec.arrival for spec in specs])
    alone = restart + np.array([spec.ideal(workers) for spec in specs])
    return float((alone <= greatest_ideals(specs, workers, arrival, r)).mean())
