"""Counts what agrees with a foreign suite, and what differs and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Number:
    """A number of a case: what a suite has, what tuskml has, and how far they may be apart.

    `allowed` is relative to the larger of `scale` and the size of the number.
    """

    name: str
    theirs: float
    ours: float | None
    allowed: float = 1e-6
    scale: float = 0.0

    @property
    def distance(self) -> float:
        """The difference, relative; infinite where one of them is no number."""
        if self.ours is None or not math.isfinite(self.ours):
            return math.inf
        size = max(abs(self.theirs), self.scale)
        return abs(self.ours - self.theirs) / size if size else abs(self.ours)

    @property
    def agrees(self) -> bool:
        return self.distance <= self.allowed


@dataclass
class Tally:
    """Cases and numbers of suites, by suite and database."""

    cases: Counter[tuple[str, str]] = field(default_factory=Counter)
    agreed: Counter[tuple[str, str]] = field(default_factory=Counter)
    differing: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    left_out: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def compare(
        self, suite: str, database: str, numbers: Sequence[Number], reasons: Mapping[str, str]
    ) -> list[str]:
        """Counts a case; the sentences of numbers that differ without a reason.

        reasons: why a number may differ, by the beginning of its name.
        """
        key = suite, database
        self.cases[key] += 1
        unexplained = []
        for number in numbers:
            if number.agrees:
                self.agreed[key] += 1
                continue
            reason = next((r for name, r in reasons.items() if number.name.startswith(name)), None)
            if reason is None:
                unexplained.append(
                    f"{number.name}: {number.ours}, {suite} has {number.theirs} "
                    f"({number.distance:.1e} apart, {number.allowed:.0e} allowed)"
                )
            self.differing.setdefault(key, Counter())[reason or "without a reason"] += 1
        return unexplained

    def add(self, suite: str, database: str, agreed: int) -> None:
        """Counts a case of so many numbers that agree."""
        self.cases[suite, database] += 1
        self.agreed[suite, database] += agreed

    def note(self, suite: str, database: str, reason: str) -> None:
        """Counts a number that differs."""
        self.differing.setdefault((suite, database), Counter())[reason] += 1

    def leave_out(self, suite: str, database: str, reason: str) -> None:
        """Counts a case that cannot be compared."""
        self.left_out.setdefault((suite, database), Counter())[reason] += 1

    def table(self) -> Iterator[str]:
        """The lines of the table, none where nothing was compared."""
        keys = sorted({*self.cases, *self.differing, *self.left_out})
        if keys:
            yield ""
            yield f"{'suite':34} {'database':11} {'cases':>6} {'agreed':>8} {'differ':>7}"
        for key in keys:
            different = self.differing.get(key, Counter())
            yield (
                f"{key[0]:34} {key[1]:11} {self.cases[key]:6} {self.agreed[key]:8} "
                f"{sum(different.values()):7}"
            )
            for reason, count in different.most_common():
                yield f"    {count:6} differ: {reason}"
            for reason, count in self.left_out.get(key, Counter()).most_common():
                yield f"    {count:6} cases left out: {reason}"
