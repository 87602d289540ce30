"""Figures 10 and 11: the lasso by priority and dependencies, by priority, and at random.

Progress is by data touched, and by processor seconds. 32 features are updated at once. The
product halves this where the objective rises, and the paper does not (10c).
"""

from collections.abc import Iterator
from typing import Any

from research import report
from research.report import Found
from research.smpframe.updates import Fit, Unguarded, correlated, train

AT_ONCE = 32


def find(scale: float, off: bool = False) -> Iterator[Found]:
    """Passes and seconds over those of the schedule. off: random instead of the schedule."""
    data = correlated(scale)
    found = {name: train(data, name, AT_ONCE) for name in ("random", "priority", "dynamic")}
    ours = found["random" if off else "dynamic"]
    yield Found("passes over the data", "", ours.passes)
    ratio = found["random"].passes / ours.passes
    yield Found("10a, 10b: passes at random over these", "above 10", ratio, least=10)
    for how, kind in (("halved", Fit), ("not halved", Unguarded)):
        alone, both = (train(data, name, AT_ONCE, kind).passes for name in ("priority", "dynamic"))
        what = f"10c: by priority alone over these, updates at once {how}"
        yield Found(what, "about 2", alone / both, least=1.5)
    more: dict[str, Any] = {"task": "sparse_logistic", "lambda": 0.1 / len(data.y)}
    logistic = {
        name: train(data, name, AT_ONCE, **more)
        for name in ("random", "random" if off else "dynamic")
    }
    ratio = logistic["random"].passes / list(logistic.values())[-1].passes
    yield Found("10d: sparse logistic, at random over these", "above 10", ratio, least=10)
    seconds = found["random"].seconds / ours.seconds
    yield Found("11a: seconds at random over these", "5", seconds, least=5)


if __name__ == "__main__":
    report.main(find)
