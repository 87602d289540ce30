"""Figure 6: estimated iterations beside those that plans took."""

import itertools
import statistics
from collections.abc import Iterator

import planner

from research import report
from research.ml4all.plans import connected, fill
from research.report import Found

CASES = (("a9a", "logistic"), ("covtype", "logistic"), ("rcv1", "logistic"))
NAMES = ("bgd", "mgd", "sgd")


def find(scale: float) -> Iterator[Found]:
    """Factors between estimates and truth, and whether estimates order the plans as they end."""
    factors: dict[str, list[float]] = {name: [] for name in NAMES}
    right = []
    with connected() as con:
        for name, task in CASES:
            data = fill(con, name, scale)
            for epsilon in (0.1, 0.01, 0.001):
                text = planner.call(con, "explain_training", data, task, {"epsilon": epsilon})
                told = planner.estimates(text)
                some = {one: told[one] for one in NAMES if told.get(one)}
                seen = planner.truth(con, data, task, epsilon, list(some))
                for one, model in seen.items():
                    ratio = (some[one]["iterations"] + 1) / (model["iterations"] + 1)
                    factors[one].append(max(ratio, 1 / ratio))
                for a, b in itertools.combinations(seen, 2):
                    taken = seen[a]["iterations"] - seen[b]["iterations"]
                    if taken:
                        guess = some[a]["iterations"] - some[b]["iterations"]
                        right.append(taken * guess > 0)
    for one, found in factors.items():
        paper, most = ("very close", 2.0) if one == "bgd" else ("within 10 times", 10.0)
        yield Found(f"{one}: estimate off by, median", paper, statistics.median(found), most=most)
        yield Found(f"{one}: at worst", paper, max(found), most=most)
    yield Found("pairs in the right order", "all", sum(right) / len(right), "{:.0%}", least=1.0)


if __name__ == "__main__":
    report.main(find)
