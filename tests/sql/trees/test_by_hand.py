"""Trees of a few rows, worked out by hand with the formulas of XGBoost, in both databases.

T. Chen, C. Guestrin, XGBoost: a scalable tree boosting system, KDD 2016: a leaf with the sums G
and H of first and second derivatives says -G / (H + l2) (equation 5), a split gains
GL^2 / (HL + l2) + GR^2 / (HR + l2) - G^2 / (H + l2) (equation 7, twice and without gamma), and
missing values go where that is larger (algorithm 3). Margins begin at the best constant. Bins
have a few rows at least, so the rows come TIMES times; l2 and the limits of sums are as many times
those of the calculation, which leaves the same numbers.
"""

# ruff: noqa: E501, SQL is read better on one line
import json
import math
from typing import Any

import pytest

TIMES = 5
SUMS = ("l1", "l2", "min_gain", "min_child_hessian")
"""Options that are compared with or added to sums over rows."""
Row = tuple[float | None, float, float]
"""x, y and the weight."""

STEP: list[Row] = [(1, 0, 1), (2, 0, 1), (3, 6, 1), (4, 10, 1)]
"""The mean is 4, so the derivatives are 4, 4, -2, -6, and each split with l2 = 1 gives
16/2 + 16/4 = 12, 64/3 + 64/3 = 42.67 and 36/4 + 36/2 = 27."""
ONE_OF_FOUR: list[Row] = [(1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 1, 1)]
"""p = 1/4, so the derivatives are 1/4, 1/4, 1/4, -3/4, and the second ones 3/16. The last split
with l2 = 1 gives 0.36 + 9/19, more than the others' 0.093 and 0.364."""
GAP_RIGHT: list[Row] = [(1, 0, 1), (2, 6, 1), (None, 6, 1)]
"""The derivatives are 4, -2, -2. With the gap on the right the split gives 16 + 16/2, on the left
4/2 + 4."""
GAP_LEFT: list[Row] = [(1, 6, 1), (2, 0, 1), (None, 6, 1)]
WEIGHTED: list[Row] = [(1, 0, 2), (2, 8, 1), (3, 8, 1)]
"""The mean is 4, so the weighted derivatives are 8, -4, -4, and the first split with l2 = 2 gives
64/4 + 64/4."""

CASES: dict[str, tuple[list[Row], dict[str, Any], float, list[tuple[float | None, float]]]] = {
    "one split, shrunk by l2": (
        STEP, {"l2": 1}, 4, [(1, -8 / 3), (2, -8 / 3), (3, 8 / 3), (4, 8 / 3)]
    ),
    "a learning rate": (STEP, {"l2": 1, "learning_rate": 0.5}, 4, [(2.4, -4 / 3), (2.6, 4 / 3)]),
    "no l2, a second split": (STEP, {"l2": 0}, 4, [(1, -4), (2, -4), (3, 2), (4, 6)]),
    "l1 is taken off the sums": (STEP, {"l2": 1, "l1": 2, "max_depth": 1}, 4, [(1, -2), (4, 2)]),
    "a gain that is enough": (STEP, {"l2": 1, "min_gain": 42.6}, 4, [(1, -8 / 3), (4, 8 / 3)]),
    "a gain that is too small": (STEP, {"l2": 1, "min_gain": 42.7}, 4, [(1, 0), (4, 0)]),
    "three rows on each side": (STEP, {"l2": 1, "min_child_hessian": 3}, 4, [(1, 0), (4, 0)]),
    "two classes": (
        ONE_OF_FOUR, {"l2": 1, "objective": "logistic"}, -math.log(3),
        [(1, -0.48), (3, -0.48), (4, 12 / 19)],
    ),
    "a hessian that is too small": (
        ONE_OF_FOUR, {"l2": 1, "objective": "logistic", "min_child_hessian": 0.2}, -math.log(3),
        [(1, -0.5 / 1.375), (3, 0.5 / 1.375), (4, 0.5 / 1.375)],
    ),
    "a gap that goes right": (GAP_RIGHT, {}, 4, [(1, -4), (2, 2), (None, 2)]),
    "a gap that goes left": (GAP_LEFT, {}, 4, [(1, 2), (2, -4), (None, 2)]),
    "weights": (WEIGHTED, {"l2": 2}, 4, [(1, -2), (2, 2), (3, 2)]),
}  # fmt: skip


def margins(session: tuple[str, Any], rows: list[Row], asked: str, at: list[float | None]) -> Any:
    """What a model of one tree says of rows of one number."""
    name, con = session
    temp = "TEMP" if name == "post" else ""
    cells = ", ".join(f"({'NULL' if x is None else x}::float8, {y}, {w})" for x, y, w in rows)
    con.execute(
        f"CREATE {temp} TABLE t AS SELECT x, y, w FROM (VALUES {cells}) AS r(x, y, w), generate_series(1, {TIMES}) AS s(k)"
    )
    array = "ARRAY[{}]" if name == "post" else "[{}]"
    con.execute(
        f"CREATE {temp} TABLE f AS SELECT train_model('gbdt', y, {array.format('x')}, '{asked}', w) AS m FROM t"
    )
    values = ", ".join(f"({i}, {'NULL' if x is None else x}::float8)" for i, x in enumerate(at))
    told = con.execute(
        f"SELECT decision(m, {array.format('r.x')}) FROM f, (VALUES {values}) AS r(i, x) ORDER BY i"
    ).fetchall()
    return [value for (value,) in told]


@pytest.mark.parametrize("case", CASES)
def test_trees_are_those_of_the_formulas(session: tuple[str, Any], case: str) -> None:
    rows, options, base, expected = CASES[case]
    asked = {"trees": 1, "learning_rate": 1, "min_child_rows": 1, "min_child_hessian": 0}
    asked |= {"l2": 0, "row_fraction": 1, "feature_fraction": 1}
    asked |= {name: value * (TIMES if name in SUMS else 1) for name, value in options.items()}
    told = margins(session, rows, json.dumps(asked), [x for x, _ in expected])
    assert told == pytest.approx([base + value for _, value in expected], abs=1e-6)
