"""Figure 4: random concurrent updates of a lasso make less progress, the more there are."""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.smpframe.updates import RANDOM, made, progress


def find(scale: float) -> Iterator[Found]:
    """Passes over the data to a thousandth above the least objective."""
    data = made(scale)
    found = {n: progress(data, n, RANDOM)[RANDOM].passes for n in (8, 32, 256)}
    for n, passes in found.items():
        yield Found(f"passes with {n} concurrent updates", "more with more", passes)
    yield Found("256 over 8", "above 1", found[256] / found[8], least=1.1)


if __name__ == "__main__":
    report.main(find)
