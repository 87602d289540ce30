"""Figure 1: no algorithm of gradient descent is the fastest for all sets."""

import json
from collections.abc import Iterator
from functools import partial

import planner

from research import report
from research.ml4all.plans import connected, fill
from research.report import Found

CASES = (
    ("a9a", "svm", 0.01, "MGD"),
    ("covtype", "svm", 0.01, "BGD"),
    ("rcv1", "logistic", 1e-3, "SGD"),
)
NAMES = ("bgd", "mgd", "sgd")


def find(scale: float) -> Iterator[Found]:
    """How much slower bgd, mgd and sgd are than the fastest of them, in processor seconds."""
    winners, slowest = set(), 0.0
    with connected() as con:
        for name, task, epsilon, paper in CASES:
            data = fill(con, name, scale)
            took = {}
            for algorithm in NAMES:
                options = {"algorithm": algorithm, "epsilon": epsilon, "time": "10s"}
                took[algorithm] = report.processor_seconds(
                    partial(planner.call, con, "train_model", data, task, options)
                )
            best = min(took, key=lambda one: took[one])
            winners.add(best)
            slowest = max(slowest, max(took.values()) / took[best])
            each = json.dumps({one: round(took[one], 2) for one in NAMES}).replace('"', "")
            yield Found(f"{name}, {task}: seconds of the fastest of {each}", paper, took[best])
    yield Found("algorithms that are the fastest of a set", "3", len(winners), "{:.0f}", least=2)
    yield Found("the slowest over the fastest, at most", "above 10", slowest, least=10)


if __name__ == "__main__":
    report.main(find)
