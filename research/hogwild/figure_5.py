"""Figure 5: requests that partitioning saves, by the number K of frequent features.

Counted in one pass of one thread; other features have a key each, as in the paper. Ratings have no
K: a factorization in a store has no option `partition`.
"""

from collections.abc import Iterator

from research import report
from research.hogwild.stores import data_of, run, stored
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """The part of the requests of KV that is saved with K = 100 and 10,000."""
    for name in ("skewed", "splice"):
        data = data_of(name, scale)
        every = run(data, stored("KV"), 1).model.asked
        for top in (100, 10_000):
            asked = run(data, stored("KV-VP", top=top), 1).model.asked
            saved = 100 * (1 - asked / every)
            yield Found(f"{name}, K = {top:,}: requests saved", "most", saved, "{:.2f} %", 75.0)


if __name__ == "__main__":
    report.main(find)
