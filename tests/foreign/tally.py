"""Counts what agrees with a foreign suite, and what differs and why."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any


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


def printed(
    name: str, theirs: float, ours: float | None, allowed: float = 1e-6, cut: bool = False
) -> Number:
    """Returns a number that a suite has as printed: it is known to half of its last digit.

    cut: to the whole of it, where further digits were cut off.
    """
    exponent = Decimal(repr(float(theirs))).as_tuple().exponent
    known = (1.001 if cut else 0.501) * 10.0 ** int(exponent)
    return Number(name, theirs, ours, max(allowed, known / abs(theirs)) if theirs else known)


@dataclass
class Line:
    """A line of the table: what one part of a suite has in one database."""

    cases: int = 0
    agreed: int = 0
    differing: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass
class Tally:
    """Cases and numbers by suite, its part, and the database."""

    lines: dict[tuple[str, str, str], Line] = field(default_factory=dict)

    def line(self, suite: str, part: str, database: str) -> Line:
        """Returns the line of a part; a new one has no cases."""
        return self.lines.setdefault((suite, part, database), Line())

    def compare(
        self,
        suite: str,
        part: str,
        database: str,
        numbers: Sequence[Number],
        reasons: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Counts a case; returns a sentence for each number that differs without a reason.

        reasons: why a number may differ, by the beginning of its name.
        """
        line = self.line(suite, part, database)
        line.cases += 1
        unexplained = []
        for number in numbers:
            if number.agrees:
                line.agreed += 1
                continue
            known = (reasons or {}).items()
            reason = next((why for name, why in known if number.name.startswith(name)), None)
            if reason is None:
                unexplained.append(
                    f"{number.name}: {number.ours}, {suite} has {number.theirs} "
                    f"({number.distance:.1e} apart, {number.allowed:.0e} allowed)"
                )
            line.differing[reason or "without a reason"] += 1
        return unexplained

    def table(self) -> Iterator[str]:
        """The lines of the table, none where nothing was compared."""
        if self.lines:
            yield ""
            yield f"{'suite':44} {'database':11} {'cases':>6} {'agreed':>8} {'differ':>7}"
        for (suite, part, database), line in sorted(self.lines.items()):
            yield (
                f"{f'{suite}: {part}':44} {database:11} {line.cases:6} {line.agreed:8} "
                f"{line.differing.total():7}"
            )
            for reason, count in line.differing.most_common():
                yield f"    {count:6} differ: {reason}"
            for reason, count in line.left_out.most_common():
                yield f"    {count:6} cases left out: {reason}"

    def write(self, folder: Path) -> None:
        """Writes a file of JSON for each suite."""
        suites: dict[str, list[dict[str, Any]]] = {}
        for (suite, part, database), line in sorted(self.lines.items()):
            suites.setdefault(suite, []).append(
                {"part": part, "database": database, **vars(line)},
            )
        for suite, lines in suites.items():
            folder.mkdir(parents=True, exist_ok=True)
            found = {"suite": suite, "date": date.today().isoformat(), "lines": lines}
            path = folder / f"{suite.lower().replace(' ', '_')}.json"
            path.write_text(json.dumps(found, indent=1) + "\n")
