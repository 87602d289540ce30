"""Figures 7 and 8: estimated costs beside those seen, and auto beside the best and worst plans.

Every plan is run to the tolerance, those near the best one in turns with auto.
"""

import statistics
from collections.abc import Iterator

import planner

from research import report
from research.ml4all.plans import CASES, connected, fill
from research.report import Found


def find(scale: float) -> Iterator[Found]:
    """Ratios of seconds, and errors of estimates."""
    cases = []
    with connected() as con:
        for name, task in CASES:
            data = fill(con, name, scale)
            cases += [planner.one_case(con, data, task, epsilon) for epsilon in (0.01, 0.001)]
    found = [case for case in cases if case is not None]
    ratios = [case["auto_seconds"] / case["best_seconds"] for case in found]
    each, total = [], []
    for case in found:
        for one in case["families"].values():
            if one["each"]:
                each.append(one["told"]["each"] / one["each"])
            total.append(one["told"]["total"] / max(one["seconds"], 1e-4))
    each, total = ([max(one, 1 / one) for one in some if one > 0] for some in (each, total))
    yield Found(
        "7a: cost of an iteration off by, median", "1.17", statistics.median(each), most=1.17
    )
    yield Found(
        "7b: cost of a training off by, median", "near 1", statistics.median(total), most=1.5
    )
    yield Found("8: auto over the best plan, median", "1", statistics.median(ratios), most=1.1)
    yield Found("8: at worst", "1", max(ratios), most=1.5)
    worst = statistics.median(case["worst_seconds"] / case["auto_seconds"] for case in found)
    yield Found("8: worst plan over auto, median", "above 1", worst, least=1.5)
    planning = max(case["planning"] or 0.0 for case in found)
    yield Found("8: seconds of planning, at most", "4.6 to 8", planning, most=4.6)


if __name__ == "__main__":
    report.main(find)
