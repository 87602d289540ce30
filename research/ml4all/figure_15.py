"""Figures 15 and 16: iterations of bgd by curves that are fitted to trials on a sample.

The option `speculate` with the paper's settings: 1,000 rows, until an error of 0.05. The product's
bgd searches its steps, so the paper's three schedules of steps are one here.
"""

from collections.abc import Iterator

import planner

from research import report
from research.ml4all.plans import connected, fill
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Estimated over actual iterations to an error of 0.001."""
    trials = {"sample": 1000, "time": "10s", "epsilon": 0.05}
    with connected() as con:
        for name in ("a9a", "covtype", "rcv1"):
            data = fill(con, name, scale)
            more = {"epsilon": 1e-3, "speculate": trials}
            told = planner.estimates(planner.call(con, "explain_training", data, "logistic", more))
            asked = {"algorithm": "bgd", "epsilon": 1e-3, "max_iter": 5000, "time": "20s"}
            model = planner.call(con, "train_model", data, "logistic", asked)
            guess = told["bgd"]
            ratio = (guess["iterations"] if guess else 0.0) / max(model["iterations"], 1)
            yield Found(f"{name}: estimated over actual", "about 1", ratio, least=0.5, most=2.0)


if __name__ == "__main__":
    report.main(find)
