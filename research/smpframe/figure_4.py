"""Figure 4: random concurrent updates of a lasso make less progress, the more there are.

The last line is the product's training, which halves how many there are where the objective rises.
"""

from collections.abc import Iterator

from research import report
from research.report import Found
from research.smpframe.updates import Unguarded, correlated, train


def find(scale: float) -> Iterator[Found]:
    """Passes over the data to the tolerance."""
    data = correlated(scale)
    found = {n: train(data, "random", n, Unguarded) for n in (8, 32, 256)}
    for n, fit in found.items():
        yield Found(f"passes with {n} concurrent updates", "more with more", fit.passes)
    yield Found("256 over 8", "above 1", found[256].passes / found[8].passes, least=1.1)
    yield Found("256, halved where the objective rises", "", train(data, "random", 256).passes)


if __name__ == "__main__":
    report.main(find)
