"""Claims of apps about their work, checked against the service that they received.

An auction itself is blind to a common factor of a table. The selection of bidders is not: the
thesis asks apps for their rho, and one that overstates it bids in every round. So an app claims
once how much work it has, and the arbiter computes rho from that, the clock, and the work that it
saw done. A claim that turns out too small is doubled, so an app gains nothing by it for long; one
that is too large ranks the app behind.
"""

from dataclasses import dataclass

TOLERANCE = 1.1
"""Tolerated overrun of an estimate."""
OVERRUN = 2.0
"""A claim that was exceeded becomes this multiple of the work that was done."""


@dataclass
class Claim:
    """A claim.

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
