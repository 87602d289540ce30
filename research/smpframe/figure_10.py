"""Figures 10 and 11: the lasso by priority and dependencies, by priority, and at random.

Concurrent updates are simulated on one worker; progress is by data touched, and by seconds.
"""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.smpframe.updates import BOTH, PRIORITY, RANDOM, made, progress


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """Passes and seconds over those of the schedule. off: random instead of the schedule."""
    data = made(scale)
    found = progress(data, 32, RANDOM, PRIORITY, BOTH)
    ours = found[RANDOM if off else BOTH]
    yield Found("passes over the data", "", ours.passes)
    ratio = found[RANDOM].passes / ours.passes
    yield Found("10a, 10b: passes at random over these", "above 10", ratio, least=10)
    checked = found[PRIORITY].passes / ours.passes
    yield Found("10c: by priority alone over these", "about 2", checked, least=1.5)
    seconds = found[RANDOM].seconds / ours.seconds
    yield Found("11a: seconds at random over these", "5", seconds, least=5)


if __name__ == "__main__":
    report.main(find)
