"""What a running plan has done, in estimated seconds.

Passes over the rows are counted as they are made: those of line searches, of looks at a duality
gap and of conjugate gradients too, whatever was expected of an iteration. Other work on the
machine changes none of it.
"""

from dataclasses import dataclass, field

from tuskml.kernels.rows.meter import Meter
from tuskml.learners.linear.estimates.costs import LOSS_ALONE, Cost


@dataclass
class Work:
    """Of one plan; own: seconds of its iterations, beside their passes where these are counted."""

    cost: Cost
    own: float = 0.0
    meter: Meter = field(default_factory=Meter)

    def iterated(self, on_sample: bool) -> None:
        """Counts an iteration."""
        parts = self.cost.parts
        if parts is not None:
            self.own += parts.own
        else:
            self.own += self.cost.sampled if on_sample else self.cost.iteration

    @property
    def seconds(self) -> float:
        """Of all that was done."""
        parts, made = self.cost.parts, self.meter
        if parts is None:
            return self.cost.setup + self.own
        gradients = made.gradients + LOSS_ALONE * made.losses
        solved = parts.curvature * made.curvatures + self.cost.product * made.products
        return self.own + parts.gradient * gradients + solved
