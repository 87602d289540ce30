"""Figure 10: plans as rows and features grow, without the rivals, which need Spark.

Processor seconds to the tolerance, reading the table included, in turns.
"""

from collections.abc import Iterator

from research import report
from research.ml4all.plans import connected, table, trained
from research.report import Found

EAGER = {"transform": "eager", "sampler": "random-partition"}
LAZY = {"transform": "lazy", "sampler": "shuffled-partition"}


def find(scale: float) -> Iterator[Found]:
    """Growth of seconds where rows or features are eight times as many."""
    rows = max(20_000, round(100_000 * scale))
    with connected() as con:
        took = {}
        for axis, n, d in (("", rows, 10), ("rows", 8 * rows, 10), ("features", rows, 80)):
            table(con, n, d)
            works = {
                name: lambda how=how, d=d: trained(
                    con, d, algorithm="sgd", epsilon=0.01, max_iter=20, **how
                )
                for name, how in (("eager-random", EAGER), ("lazy-shuffle", LAZY))
            }
            took[axis] = report.in_turns(works, 3)
    for axis in ("rows", "features"):
        for name, seconds in took[axis].items():
            growth = seconds / took[""][name]
            what = f"8 times the {axis}, {name}: times the seconds"
            yield Found(what, "at most 8", growth, most=8.0)
    ratio = took["rows"]["eager-random"] / took["rows"]["lazy-shuffle"]
    yield Found("most rows, eager-random over lazy-shuffle", "above 1", ratio, least=1.0)


if __name__ == "__main__":
    report.main(find)
