"""Features without a penalty that explain the labels but for rounding: they have their weights, and nothing is left for
the others.
"""

# ruff: noqa: E501

import json

import numpy as np
import pytest

pytestmark = pytest.mark.native


@pytest.mark.parametrize("task", ["lasso", "elastic_net"])
@pytest.mark.parametrize("third", ["", ", sin(i * i * 0.37)"])
@pytest.mark.parametrize("storage", ["dense", "sparse"])
def test_labels_that_free_features_explain(con, task, third, storage):
    x = f"[sin(i), cos(i){third}]"
    features = x if storage == "dense" else f"sparse(range(len({x})), {x})"
    call = f"train_model('{task}', 2 * sin(i) - cos(i) + 1, {features}, $1)"
    rows = con.execute(
        f"SELECT m.status, m.coef, m.intercept FROM (SELECT {call} AS m FROM range(8, 120, 4) s(n), range(120) r(i) WHERE i < n GROUP BY n)",
        [json.dumps({"unpenalized": [1, 2]})],
    ).fetchall()
    for status, coef, intercept in rows:
        assert status == "ok"
        expected = [2, -1, 0][: len(coef)]
        assert [*coef, intercept] == pytest.approx([*expected, 1], abs=1e-6)


def test_labels_that_they_nearly_explain(con):
    """What is left is another feature's, by the ordinary tolerance."""
    call = "train_model('lasso', 2 * sin(i) + 1 + 1e-3 * cos(i * i), [sin(i), cos(i * i)], $1)"
    status, coef = con.execute(
        f"SELECT m.status, m.coef FROM (SELECT {call} AS m FROM range(100) r(i))",
        [json.dumps({"unpenalized": [1]})],
    ).fetchone()
    assert status == "ok"
    assert coef == pytest.approx([2, 1e-3], rel=1e-2)
    assert not np.isnan(coef).any()
