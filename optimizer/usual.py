"""Iterations that the algorithms usually need, where nobody has tried.

By decades of the tolerance below 1: what the data sets of `scripts/bench/planner.py` took, dense
and sparse, of independent and of correlated features, in the middle and at the ends. Where it is
known how far the variances of dense features spread, `spread.py` tells more.
"""

import math

from tuskml.optimizer import spread
from tuskml.optimizer.constants import interpolated
from tuskml.optimizer.costs import Question
from tuskml.optimizer.curves import Interval, decades
from tuskml.optimizer.spread import DECADES
from tuskml.udas.plan import Plan

Rows = tuple[tuple[float, float, float, float], ...]
"""Low, point and high by decade."""

SMOOTH: dict[str, Rows] = {
    "newton": ((1, 1, 3, 4), (1, 2.5, 5, 7), (3, 6, 9, 14)),
    "newton_cg": ((0.5, 2, 3, 5), (1, 2.6, 4, 5.6), (2, 4, 6, 9)),
    "lbfgs": ((1, 2, 3, 8), (1.3, 5.2, 15, 42), (4, 25, 90, 300)),
    "bgd": ((1, 3, 4, 10), (2, 8, 32, 120), (5, 30, 130, 1000)),
    "svrg": ((0.7, 1.5, 2.5, 5), (1.2, 2.8, 5, 12), (4, 20, 80, 300)),
}
SPARSE: dict[tuple[str, str], Rows] = {
    ("lbfgs", "linear"): ((0.7, 7, 14, 30), (2.5, 16, 30, 80), (6, 24, 60, 300)),
    ("lbfgs", "logistic"): ((0.3, 1.5, 7, 20), (0.6, 4.4, 10, 60), (2, 8, 25, 300)),
    ("lbfgs", "svm"): ((0.5, 6, 16, 150), (3, 9, 25, 400), (6, 15, 60, 1500)),
    ("bgd", "linear"): ((1.5, 14, 30, 60), (4, 22, 55, 160), (7, 40, 120, 900)),
    ("bgd", "logistic"): ((0.3, 1.5, 10, 40), (0.6, 3.7, 22, 120), (1.5, 7, 60, 800)),
    ("bgd", "svm"): ((0.5, 9, 50, 200), (5, 17, 110, 800), (9, 32, 400, 8000)),
}
"""Of sparse rows, whose features are not centred and mostly rare."""
CORNERED: dict[str, Rows] = {
    "lbfgs": ((1, 5, 15, 40), (2, 12, 45, 200), (5, 30, 300, 2000)),
    "bgd": ((2, 7, 14, 60), (4, 14, 75, 400), (8, 40, 1000, 10000)),
}
DUAL: Rows = ((0.4, 0.8, 1.2, 3.5), (0.9, 1.7, 2.7, 7), (1.6, 3, 5.5, 21))
INTERIOR, INTERIOR_A_DECADE = 5.0, 2.0
"""Iterations of an interior-point method, before any digit and for each: on all data."""
STRETCHED = {"lbfgs": 0.5, "bgd": 0.7}
"""Where the hinge is smoothed, iterations grow with that power of the condition, beyond 1."""
ROOTS = 2.5
"""Iterations of dual coordinate descent for each of condition + ROOTS sqrt(condition), the
condition being the squared length of a row over l2 times the rows."""
SWEEPS_A_DECADE = 0.6
"""The least of its iterations, for each decade, however well conditioned the problem is."""
STEPS, STEPS_A_DECADE = 3e4, 30.0
"""Steps of stochastic gradient descent to 0.01, and how many times more a decade further takes."""
OF_SGD = {"sgd": 1.0, "hogwild": 1.05, "mgd": 1.15, "hogbatch": 1.2}
"""Epochs of the other stochastic algorithms for one of steps a row by one thread."""
SPARSE_SVRG = 2.5
"""Epochs of svrg are more where features are rare."""
FEW_ROWS, MOST = 20.0, 8.0
"""Where rows are few for their features the last decades take longer: by the third decade features
for a row times the first times more, but at most the second."""
WIDE = 0.15
"""Decades by which that begins sooner for lbfgs at the hinge on sparse rows."""


def usual(question: Question, plan: Plan) -> Interval:
    """Iterations to the plan's tolerance."""
    k, task, name = decades(plan.epsilon), question.task, plan.family
    seen = question.seen
    if name in ("newton", "newton_cg") and task.quadratic:
        return Interval(1, 1, 2)
    if name == "dcd":
        return dual(question, k)
    if name == "newton" and not task.smooth:
        point = INTERIOR + INTERIOR_A_DECADE * k
        return Interval.around(point / 2, point, 2 * point)
    if name in OF_SGD:
        return epochs(question, k).scaled(OF_SGD[name])
    found = tabled(question, name, k)
    if name == "svrg" and seen.sparse:
        return found.scaled(SPARSE_SVRG)
    slow = not task.smooth and (name == "lbfgs" or (name == "bgd" and not seen.sparse))
    sooner = WIDE if seen.sparse else 0.0
    if slow or name == "svrg":
        found = found.scaled(few_rows(question, k + sooner))
    return found if task.smooth else stretched(found, question, name)


def tabled(question: Question, name: str, k: float) -> Interval:
    """By the table that knows most of such rows and tasks."""
    task, seen = question.task, question.seen
    if question.spread is not None:
        found = spread.iterations(name, task.name, question.spread, k)
        if found is not None:
            return found
    if seen.sparse and (name, task.name) in SPARSE:
        return by_decade(SPARSE[name, task.name], k)
    tables = CORNERED if not task.smooth and name in CORNERED else SMOOTH
    return by_decade(tables[name], k)


def by_decade(rows: Rows, k: float) -> Interval:
    """The table's low, point and high for so many decades."""
    low, point, high = (interpolated(tuple(zip(DECADES, row, strict=True)), k) for row in rows)
    return Interval.around(low, point, high)


def dual(question: Question, k: float) -> Interval:
    """Of dual coordinate descent, by the problem's condition."""
    seen, l2 = question.seen, question.options.l2
    known = question.length is not None
    length = question.length or (1.0 if seen.sparse else float(seen.n_features))
    condition = length / max(l2 * rows_of_one(question), 1e-300)
    found = by_decade(DUAL, k).scaled(condition + ROOTS * math.sqrt(condition))
    unsure = 1.0 if known else 4.0
    point = max(found.point, 1.0 + SWEEPS_A_DECADE * k)
    return Interval.around(found.low / unsure, point, found.high * unsure + 1.0 + k)


def stretched(found: Interval, question: Question, name: str) -> Interval:
    """Iterations at the hinge, more where the penalty is small beside the length of the rows."""
    l2 = question.options.l2
    if name not in STRETCHED or not l2 or question.length is None:
        return found
    condition = max(question.length / (l2 * rows_of_one(question)), 1.0)
    by = condition ** STRETCHED[name]
    return Interval.around(math.sqrt(by) * found.low, by * found.point, 4 * by * found.high)


def rows_of_one(question: Question) -> float:
    """Of a group, in the mean."""
    return max(question.seen.rows / max(question.seen.groups, 1), 1.0)


def epochs(question: Question, k: float) -> Interval:
    """Of stochastic steps: as many as it takes, whatever the rows; one epoch at least."""
    point = STEPS * STEPS_A_DECADE ** (k - 2) / rows_of_one(question)
    return Interval.around(max(1.0, 0.15 * point), max(1.0, point), max(3.0, 10 * point))


def few_rows(question: Question, k: float) -> float:
    """How many times longer than where there are many rows for each feature."""
    few = FEW_ROWS * question.seen.n_features / rows_of_one(question)
    return 1 + min(few, MOST) * min(max(k - 2, 0.0), 1.0)
