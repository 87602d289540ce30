"""The report's section on drift: how far columns of new rows are from those of a reference."""

from collections.abc import Sequence

from tuskml.api.drift import Drift
from tuskml.report.pieces import note, number, section, table

SOME, MUCH = 0.1, 0.25
"""Indices from which a column has drifted somewhat, and much: the usual rule of thumb."""
MOST_LINES = 200
LEAST_WIDTH = 1e-9
"""Bounds that are nearer to each other are one number."""


def drift(found: Sequence[Drift]) -> str:
    """A line a column, the furthest first; '' without any."""
    if not found:
        return ""
    rows = [
        [one.name, verdict(one.psi), number(one.psi), distance(one), *map(share, one.missing)]
        for one in found[:MOST_LINES]
    ]
    head = ("column", "", "PSI", "KS", "NULL in the reference", "NULL in the rows")
    text = (
        "The population stability index (PSI) compares shares of rows in the deciles of the "
        f"reference, or of values that are text: below {SOME} little has changed, above {MUCH} "
        "much. KS is the largest distance between two distributions, or its bounds."
    )
    return section("drift", "Drift", table(head, rows, "Columns by their drift"), note(text))


def verdict(psi: float | None) -> str:
    """An index in words."""
    if psi is None:
        return "–"
    return "✓ little" if psi < SOME else "! some" if psi < MUCH else "✕ much"


def distance(one: Drift) -> str:
    """The largest distance of two distributions, or its bounds."""
    if one.ks_high is None or one.ks is None or one.ks_high - one.ks < LEAST_WIDTH:
        return number(one.ks)
    return f"{number(one.ks)} to {number(one.ks_high)}"


def share(missing: float | None) -> str:
    """A share in percent, or a dash."""
    return "–" if missing is None else f"{missing:.1%}"
