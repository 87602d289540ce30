"""Measured slowdown of an app whose workers are on several machines."""

from dataclasses import dataclass, field
from statistics import median

from tuskml.schedule.fair.valuation import Slowdowns

LEAST_SAMPLES = 3
"""Samples of either kind before they are used."""
KEPT = 64


@dataclass
class Profile:
    """Seconds per row of units that ran while the app was on one machine, or on several.

    Source: thesis, section 3.4.3.1, footnote 3: crude estimates at first, replaced by profiles
    of the placements that the app happens to get.
    """

    guess: Slowdowns = field(default_factory=Slowdowns)
    seen: dict[bool, list[float]] = field(default_factory=lambda: {False: [], True: []})

    def note(self, spread: bool, seconds_per_row: float) -> None:
        """Records a finished unit."""
        mine = self.seen[spread]
        mine.append(seconds_per_row)
        del mine[:-KEPT]

    @property
    def pace(self) -> float | None:
        """Seconds per row on one machine, or wherever it ran; None before the first unit."""
        samples = self.seen[False] or self.seen[True]
        return median(samples) if samples else None

    def slowdowns(self) -> Slowdowns:
        """Slowdowns S(G), at least 1."""
        one, several = self.seen[False], self.seen[True]
        if min(len(one), len(several)) < LEAST_SAMPLES:
            return self.guess
        ratio = max(1.0, median(several) / median(one))
        return Slowdowns(1.0, ratio, ratio)
