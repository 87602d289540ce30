"""What an app says of its work, held against what it received.

An auction itself is blind to a factor of a whole table. Who may bid is not: the thesis asks apps
for their rho, and one that overstates it bids in every round. So an app says once how much work it
is, and the arbiter reckons rho from that, the clock, and the work that it saw done. A claim that
turns out too small is doubled, so an app gains nothing by it for long; one that is too large ranks
the app behind.
"""

from dataclasses import dataclass

TOLERANCE = 1.1
"""By how much an honest estimate may be exceeded."""
OVERRUN = 2.0
"""Of the work that was done, what a claim that was exceeded becomes."""


@dataclass
class Claim:
    """work: seconds of one worker that an app says it is; overruns: how often it was more."""

    work: float
    overruns: int = 0

    def audit(self, done: float) -> None:
        """Updates the claim once `done` seconds of work are finished."""
        while done > self.work * TOLERANCE:
            self.work = OVERRUN * done
            self.overruns += 1

    def rho(self, elapsed: float, done: float, ideal_of_one: float, wait: float) -> float:
        """Finish-time fairness if it waits a given number of seconds, and the rest has its ideal
        pace.

        ideal_of_one: seconds that a second of work takes on a cluster of its own.
        """
        ideal = self.work * ideal_of_one
        left = max(self.work - done, 0.0) * ideal_of_one
        return (elapsed + wait + left) / ideal
