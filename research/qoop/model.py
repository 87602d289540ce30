"""The abstract model of re-planning, to be simulated (Mahajan 2021, section 2.4.1).

Plan i of a query needs a_i units of a resource to run and takes work w_i. In a step a scheduler
gives a units, and the plan that runs then does a units of its work, if it can run. An adversary
chooses what to give by what the policy did. Many queries are simulated at once: k queries of n
plans, each in increasing order of need.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import Floats
from tuskml.learners.linear.planner.replanning import choices, worth_considering

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Queries:
    """need, work: (k, n), need rising along a row; work is infinite of plans that do not exist."""

    need: Floats
    work: Floats

    def considered(self) -> "Queries":
        """Without the plans that the policy drops."""
        kept = [worth_considering(*one) for one in zip(self.need, self.work, strict=True)]
        return replace(self, work=np.where(kept, self.work, np.inf))


@dataclass(frozen=True)
class Rules:
    """The rules of a policy: hysteresis; whether it keeps what plans did, and switches at all;
    estimates: (k, n), times the truth, None: 1."""

    hysteresis: float = 0.0
    backtracks: bool = True
    switches: bool = True
    estimates: Floats | None = None


@dataclass
class Standing:
    """Where the queries are: left (k, n) of each plan; running (k,), -1: none; given (k,): units
    of the last step; eligible (k, n): units that were given in steps in which a plan could run,
    as if it always had; done (k,)."""

    left: Floats
    running: Counts
    given: Floats
    eligible: Floats
    done: NDArray[np.bool_]


Adversary = Callable[[Queries, Standing, int], Floats]
"""What each query is given in a step, (k,), by where they are."""


def simulate(
    queries: Queries, adversary: Adversary, steps: int, rules: Rules | None = None
) -> tuple[Counts, Floats]:
    """The steps that each query took (k,), `steps` where it did not end, and its ratio (k,).

    The ratio says how many copies of the best single plan an offline optimum had run, one after
    another, before the query's last step (definition 2.1). The optimum may take plans that the
    policy has dropped: `queries` are all of them.
    """
    rules = rules or Rules()
    mine, rows = queries.considered(), np.arange(len(queries.need))
    none = np.full(len(rows), -1)
    zero = np.zeros_like(queries.need)
    now = Standing(mine.work.copy(), none, zero[:, 0], zero, np.zeros(len(rows), bool))
    took, ratio = np.full(len(rows), steps), np.zeros(len(rows))
    for step in range(steps):
        given = np.where(now.done, 0.0, adversary(mine, now, step))
        chosen = chosen_plans(mine, now, given, rules)
        runs = chosen >= 0
        if not rules.backtracks:
            lost = runs & (now.running >= 0) & (chosen != now.running)
            now.left[lost] = mine.work[lost]
        now.left[rows[runs], chosen[runs]] -= given[runs]
        now.running = np.where(runs, chosen, now.running)
        ended = ~now.done & (now.left.min(axis=1) <= 1e-9)
        took[ended] = step + 1
        now.done |= ended
        still = ~now.done[:, None] & (queries.need <= given[:, None])
        now.eligible = now.eligible + np.where(still, given[:, None], 0.0)
        now.given = given
        if now.done.all():
            break
    exists = np.isfinite(queries.work)
    ratio = np.where(exists, now.eligible / np.where(exists, queries.work, 1.0), 0.0).max(axis=1)
    return took, ratio


def chosen_plans(queries: Queries, now: Standing, given: Floats, rules: Rules) -> Counts:
    """The plans that run in a step, -1 where none can."""
    can = queries.need <= given[:, None]
    left = now.left if rules.estimates is None else now.left * rules.estimates
    seconds = np.where(can, left / np.maximum(given, 1e-12)[:, None], np.inf)
    if rules.switches:
        return choices(seconds, now.running, rules.hysteresis)
    first = choices(seconds, now.running, 0.0)
    fixed = np.where(now.running < 0, first, now.running)
    rows = np.arange(len(fixed))
    return np.where((fixed >= 0) & can[rows, fixed], fixed, -1)
