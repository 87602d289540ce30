"""Queries of the thesis' abstract model under profiles of resources: what figures 2.6 to 2.15 use.

Simulated: plans that need up to 16 times more units take less work, as bushier joins do.
"""

from dataclasses import dataclass

import numpy as np

from research.qoop.adversaries import Profile
from research.qoop.model import Queries, Rules, simulate
from research.qoop.replanned import CORES, PROFILES, STEPS, profile
from tuskml.kernels.passes import Floats


@dataclass(frozen=True)
class World:
    """Queries, the units that each is given in each step, (k, steps), and the steps that each
    takes with the plan that it began with, (k,).
    """

    queries: Queries
    given: Floats
    fixed: Floats

    def gains(self, rules: Rules) -> Floats:
        """By which factor each query ends earlier under these rules, (k,)."""
        took, _ = simulate(self.queries, Profile(self.given), STEPS, rules)
        return self.fixed / took


def world(volatility: str, k: int, plans: int = 6, work: float = 3000.0) -> World:
    """k queries of so many plans, the first of which takes so much work."""
    draws = np.random.default_rng(2)
    need = np.sort(np.exp(draws.uniform(0, np.log(CORES), (k, plans))), axis=1)
    need[:, 0] = 1.0
    queries = Queries(need, work * np.cumprod(draws.uniform(0.3, 0.9, (k, plans)), axis=1))
    change = PROFILES[volatility]
    given = np.array([profile(draws, change, CORES, STEPS) for _ in range(k)])
    fixed, _ = simulate(queries, Profile(given), STEPS, Rules(switches=False))
    return World(queries, given, fixed.astype(float))
