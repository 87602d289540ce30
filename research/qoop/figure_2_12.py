"""Figures 2.12 and 2.13: gains with and without backtracking. A simulation.

Without it a switch loses what the other plans did before.
"""

from collections.abc import Iterator

from research import report
from research.qoop.model import Rules
from research.qoop.profiles import world
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Mean gain with what plans did kept over that with it lost."""
    for name in ("low", "high"):
        some = world(name, round(500 * scale))
        kept, lost = (some.gains(Rules(0.2, backtracks=b)).mean() for b in (True, False))
        what = f"{name} volatility: mean gain, kept over lost"
        yield Found(what, "above 1", float(kept / lost), least=1.0)


if __name__ == "__main__":
    report.main(find, simulated=True)
