"""Figure 2.11: what re-planning costs a training whose share of the cores changes.

A real training through SQL on two cores; the share is replayed, two threads and one in turn.
"""

from collections.abc import Iterator

import tuskml
from research import report
from research.qoop.replanned import PROBLEMS, SharesOf, prepared, timed
from research.report import Found
from tuskml.learners.linear.planner import replanning


def find(scale: float) -> Iterator[Found]:
    """Processor seconds with re-planning over those with the first plan, in turns."""
    short = replanning.SHORT
    rows = max(5_000, round(PROBLEMS[2][0] * min(scale, 1.0)))
    with tuskml.connect(threads=2) as con:
        con.execute("SET enable_progress_bar = false")
        statement = prepared(con, (rows, *PROBLEMS[2][1:]))
        alone = min(timed(con, statement)[0] for _ in range(2))

        def train(least: float) -> None:
            replanning.SHORT = least
            con.execute(statement).fetchall()

        with SharesOf(0, alone):
            works = {"first": lambda: train(float("inf")), "replanned": lambda: train(short)}
            took = report.in_turns(works, max(3, round(9 * min(scale, 1.0))))
    replanning.SHORT = short
    more = 100 * (took["replanned"] / took["first"] - 1)
    yield Found(
        "processor seconds more with re-planning", "below 1 %", more, "{:+.1f} %", most=1.0
    )


if __name__ == "__main__":
    report.main(find)
