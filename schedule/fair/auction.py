"""One auction of workers: partial allocation, filtering, and what is left over.

Bidders name rho for bundles of the offer. The allocation with the greatest product of values, 1 /
rho, is proportionally fair. Each winner keeps only a fraction of it, by which its presence lowers
the product of the others; the rest is its hidden payment. So a bidder's kept value is the product
of all values over what the others could have without it, and the truth maximises it.

Source: K. Mahajan, PhD thesis, 2021, section 3.3.3, pseudocode 3; the mechanism is that of R.
Cole, V. Gkatzelis, G. Goel, Mechanism design for fair division, EC 2013.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tuskml.schedule.fair.solving import Bundles, Solver, Uses, Values, exactly

Name = TypeVar("Name", bound=Hashable)
STAY = 0.03
"""Relative difference by which the rho of an app whose leases end may be smaller than another's
and still precede it, as a change costs a restart. Chosen on simulated apps of seeds 100 to 115,
among 0, 0.01, 0.02, 0.03, 0.05 and 0.1.
"""


@dataclass(frozen=True)
class Bid:
    """A valuation table.

    use: amount of each good in each bundle (B, K), such as workers by machine; rho: with the
    bundle until the end (B,); without: rho with none of them, at least as large as all others;
    size: workers of each bundle (B,), the sum of `use` if None.
    """

    use: Uses
    rho: Values
    without: float
    size: Uses | None = None

    def bundles(self) -> Bundles:
        """The bundles in the form of the solver."""
        gain = math.log(self.without) - np.log(self.rho)
        return Bundles(self.use, gain, self.use.sum(axis=1) if self.size is None else self.size)


@dataclass(frozen=True)
class Award:
    """An award.

    bundle: index of the proportionally fair one in the bid, -1 for none; kept: the fraction of it
    that remains after the hidden payment.
    """

    bundle: int
    kept: float


def partial_allocation(
    bids: Sequence[Bid], capacity: Uses, solver: Solver = exactly
) -> list[Award]:
    """Computes the award of each bid.

    capacity: of each good (K,). Raises ValueError for an invalid bid.
    """
    for bid in bids:
        refuse_wrong(bid, len(capacity))
    won = solver([bid.bundles() for bid in bids], capacity)
    return [
        Award(bundle, math.exp(-others)) if bundle >= 0 else Award(-1, 0.0)
        for bundle, others in zip(won.chosen, won.others, strict=True)
    ]


def refuse_wrong(bid: Bid, goods: int) -> None:
    """Raises ValueError if numbers are not finite and positive, or shapes disagree."""
    if bid.use.ndim != 2 or bid.use.shape[1] != goods or len(bid.rho) != len(bid.use):
        raise ValueError(f"a bid has bundles of shape {bid.use.shape}, expected (B, {goods})")
    rhos = [*bid.rho.tolist(), bid.without]
    if not all(math.isfinite(one) and one > 0 for one in rhos) or (bid.use < 0).any():
        raise ValueError("a bid has a rho that is not above 0 and finite, or a negative use")


def worst_off(rhos: Mapping[Name, float], f: float) -> list[Name]:
    """Selects the bidders: the share 1 - f with the greatest rho, at least one."""
    several = max(1, math.ceil((1 - f) * len(rhos) - 1e-9))
    ordered = sorted(rhos, key=lambda name: -rhos[name])  # stable: equal ones keep their order
    return ordered[:several]


def draw_kept_workers(workers: int, kept: float, draw: np.random.Generator) -> int:
    """Draws how many workers stay with a winner: the fraction in expectation, at least one.

    A payment of the only worker would be all that a winner has.
    """
    exact = max(workers * kept, 1.0)
    whole = math.floor(exact + 1e-9)
    return whole + int(draw.random() < exact - whole)
