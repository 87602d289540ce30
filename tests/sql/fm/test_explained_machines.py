"""explain_prediction of factorization machines in both databases: Shapley values by their definition, from
the model's own margins of rows in which features are 0."""

# ruff: noqa: E501, SQL is read better on one line

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pytest

from tuskml import Model

ROWS = """SELECT i, CAST((i * 7919) % 31 AS DOUBLE PRECISION) / 10 AS a, CAST((i * 10473) % 47 AS DOUBLE PRECISION) / 20 AS b,
    CAST((i * 31) % 5 AS DOUBLE PRECISION) - 2 AS c, CAST((i * 577) % 11 AS DOUBLE PRECISION) / 5 AS d,
    CASE WHEN i % 3 = 0 THEN 'sun' ELSE 'rain' END AS sky FROM generate_series(1, 300) AS r(i)"""
LABELS = {
    "numbers": ("a * b - 2 * c * d + a", "{}"),
    "classes": ("CASE WHEN a * b > c + 1 THEN 1 ELSE 0 END", '{"objective": "logistic"}'),
}
ROW = np.array([1.3, -0.7, 2.0, 0.4])


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Answers of a database to SQL, with a table of rows."""
    name, connection = session
    temporary = "TEMP " if name == "post" else ""
    connection.execute(f"CREATE {temporary}TABLE t AS {ROWS}")
    for kind, (label, options) in LABELS.items():
        connection.execute(
            f"CREATE {temporary}TABLE {kind} AS SELECT train_model('fm', {label}, ARRAY[a, b, c, d], '{options}') AS m FROM t"
        )
    return lambda sql: connection.execute(sql).fetchall()


def literal(row: Any) -> str:
    return f"ARRAY[{', '.join(repr(float(x)) for x in row)}]::double precision[]"


def shapley(margin: Any, d: int) -> list[float]:
    """Shapley 1953: the mean over orders of features of what each adds; margin: of a mask, (d,)."""
    found = []
    for j in range(d):
        others = [k for k in range(d) if k != j]
        total = 0.0
        for size in range(d):
            for some in combinations(others, size):
                mask = np.isin(np.arange(d), some)
                more = mask | (np.arange(d) == j)
                total += (margin(more) - margin(mask)) / (d * comb(d - 1, size))
        found.append(total)
    return found


@pytest.mark.parametrize("kind", LABELS)
def test_contributions_are_shapley_values(ask: Any, kind: str) -> None:
    found = ask(
        f"SELECT value, contribution FROM explain_prediction((SELECT m FROM {kind}), {literal(ROW)})"
    )
    masks = [np.array(list(f"{k:04b}"), int).astype(bool) for k in range(16)]
    columns = ", ".join(f"decision(m, {literal(ROW * mask)})" for mask in masks)
    (answers,) = ask(f"SELECT {columns} FROM {kind}")
    margins = {mask.tobytes(): value for mask, value in zip(masks, answers, strict=True)}
    expected = shapley(lambda mask: margins[mask.tobytes()], 4)
    assert [value for value, _ in found] == [None, *ROW]
    assert found[0][1] == pytest.approx(answers[0], rel=1e-12)
    assert [one for _, one in found[1:]] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert sum(one for _, one in found) == pytest.approx(answers[15], rel=1e-12)
    assert np.ptp(expected) > 0.01


def test_rows_with_names_and_sparse_ones(ask: Any) -> None:
    names = "(SELECT train_model('fm', t.a * t.b, x) AS m FROM t, LATERAL (SELECT t.a, t.b, t.sky) AS x) AS n"
    row = "LATERAL (SELECT 1.5 AS a, 'sun' AS sky, 2.0 AS b) AS x"
    found = ask(
        f"SELECT e.feature, e.contribution FROM {names}, {row}, LATERAL explain_prediction(m, x) AS e"
    )
    assert {feature for feature, _ in found} == {"base value", "a", "b", "sky[rain]", "sky[sun]"}
    ((margin,),) = ask(f"SELECT decision(m, x) FROM {names}, {row}")
    assert sum(one for _, one in found) == pytest.approx(margin, rel=1e-12)
    sparse = "sparse(ARRAY[2, 0], ARRAY[2.0, 1.3])"
    dense = literal([1.3, 0, 2.0, 0])
    told = (
        "SELECT feature, value, contribution FROM explain_prediction((SELECT m FROM numbers), {})"
    )
    assert ask(told.format(sparse)) == ask(told.format(dense))


def test_python_says_the_same(ask: Any, session: tuple[str, Any]) -> None:
    given = "m" if session[0] == "duck" else "to_jsonb(m)"
    ((model,),) = ask(f"SELECT {given} FROM numbers")
    told = Model.of(model).explain(ROW[None])
    found = ask(
        f"SELECT contribution FROM explain_prediction((SELECT m FROM numbers), {literal(ROW)})"
    )
    np.testing.assert_allclose([told.base[0], *told.contributions[0]], np.ravel(found), rtol=1e-12)
