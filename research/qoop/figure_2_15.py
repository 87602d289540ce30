"""Figure 2.15: gains by the hysteresis of switches. A simulation."""

from collections.abc import Iterator

from research import report
from research.qoop.model import Rules
from research.qoop.profiles import world
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Mean gains at high volatility: flat from 10 to 25 %, less with more."""
    some = world("high", round(500 * scale))
    gain = {h: float(some.gains(Rules(h)).mean()) for h in (0.1, 0.25, 2.0)}
    flat = gain[0.25] / gain[0.1]
    yield Found("mean gain, hysteresis of 25 % over 10 %", "about 1", flat, least=0.95, most=1.05)
    much = gain[2.0] / gain[0.1]
    yield Found("200 % over 10 %", "below 1", much, most=0.98)


if __name__ == "__main__":
    report.main(find, simulated=True)
