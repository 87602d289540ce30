"""What watches a running plan: the guard over its estimate, and re-planning by its share."""

from dataclasses import dataclass

from tuskml.kernels.rows.meter import Meter
from tuskml.learners.linear.guard.behind import Guard
from tuskml.learners.linear.guard.replanning import Replanning
from tuskml.learners.linear.operators import Operators


@dataclass
class Watching:
    """Either may be missing."""

    guard: Guard | None
    replanning: Replanning | None

    @property
    def meter(self) -> Meter:
        """What counts the plan's passes: all of them where the guard compares them."""
        return Meter(whole=False) if self.guard is None else self.guard.work.meter

    @property
    def given_up(self) -> bool:
        """Whether another plan is to go on."""
        behind = self.guard is not None and self.guard.given_up
        return behind or (self.replanning is not None and self.replanning.next is not None)

    def watching(self, operators: Operators, on_sample: bool, last: bool) -> Operators:
        """The same operators, watched; last: whether the stage ends at the tolerance."""
        if self.guard is not None:
            operators = self.guard.watching(operators, on_sample, last)
        if self.replanning is not None and last and not on_sample:
            operators = self.replanning.watching(operators)
        return operators
