"""Figure 7: a store in memory (tmpfs) beside the same training without one.

Processor seconds of an epoch, in turns.
"""

from collections.abc import Iterator

from research import report
from research.hogwild.stores import data_of, epoch_seconds, run, stored
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Seconds of KV-VP and KV over those in memory."""
    for name, rows in (("splice", 1.0), ("movielens", 2.0)):
        data = data_of(name, rows * max(scale, 1.0))
        methods = {"memory": {"threads": 1}, "KV-VP": stored("KV-VP")}
        took = epoch_seconds(data, methods, 30, 3 if scale >= 1 else 1)
        more = took["KV-VP"] / took["memory"]
        yield Found(f"{name}: KV-VP over memory", "at most 1.05", more, most=1.05)
        by_key = run(data, stored("KV"), 1).seconds / 2  # its pass for the objective is the other
        yield Found(f"{name}: KV over memory", "above that", by_key / took["memory"], least=more)


if __name__ == "__main__":
    report.main(find)
