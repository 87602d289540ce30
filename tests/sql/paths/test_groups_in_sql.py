"""Features that enter a model together, in both databases: categories, names and places."""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
from typing import Any

import numpy as np
import pytest

ROWS = """SELECT i, i % 2 AS g, sin(i * 1.7) AS a, cos(i * 2.9) AS b, cos(i * 0.37) AS c,
    CASE i % 4 WHEN 0 THEN 'low' WHEN 1 THEN 'mid' ELSE 'top' END AS k, 'x' || (i % 5) AS r,
    2 * sin(i * 1.7) - cos(i * 2.9) + 0.3 * sin(i * 11.3) + (i % 4) AS y FROM generate_series(1, 120) AS r(i)"""
LIST = {"duck": "[a, b, c]", "post": "ARRAY[a, b, c]"}
SPARSE = {"duck": "sparse([0, 1, 2], [a, b, c])", "post": "sparse(ARRAY[0, 1, 2], ARRAY[a, b, c])"}
NAMED = {"duck": "{'a': a, 'k': k, 'r': r}", "post": "q"}


@pytest.fixture
def ask(session: tuple[str, Any]) -> Any:
    """Answers of a database to SQL in which {x}, {sparse} and {named} are features."""
    name, connection = session
    temporary = "TEMP " if name == "post" else ""
    row = ", LATERAL (SELECT t.a, t.k, t.r) AS q" if name == "post" else ""
    connection.execute(f"CREATE {temporary}TABLE t AS {ROWS}")
    kinds = {"{x}": LIST[name], "{sparse}": SPARSE[name], "{named}": NAMED[name]}

    def asked(sql: str) -> list[tuple[Any, ...]]:
        given = sql.replace("FROM t", f"FROM t{row}") if "{named}" in sql else sql
        for kind, text in kinds.items():
            given = given.replace(kind, text)
        found: list[tuple[Any, ...]] = connection.execute(given).fetchall()
        return found

    return asked


def model(features: str, options: str, task: str = "lasso", label: str = "y") -> str:
    """SQL of a training."""
    return f"SELECT train_model('{task}', {label}, {features}, '{options}') AS m FROM t"


@pytest.mark.parametrize("features", ["{x}", "{sparse}"])
def test_the_optimum_of_two_columns_that_enter_together(ask: Any, features: str) -> None:
    """By coordinate-free conditions of an optimum: of the block a, c and of b alone."""
    options = '{"lambda": 0.1, "tol": 1e-13, "groups": [[1, 3]]}'
    found = np.array(ask("SELECT a, b, c, y FROM t ORDER BY i"), float)
    x, y = found[:, :3], found[:, 3]
    ((coef, intercept, loss, status),) = ask(
        f"SELECT (m).coef, (m).intercept, (m).loss, (m).status FROM ({model(features, options)}) AS f"
    )
    w = np.array(coef)
    residual = y - x @ w - intercept
    pull, together = x.T @ residual / len(y), w[[0, 2]]
    assert status == "ok"
    assert (w != 0).all()
    root = np.sqrt(2)
    expected = 0.1 * root * together / np.linalg.norm(together)
    assert pull[[0, 2]] == pytest.approx(expected, abs=1e-6)
    assert pull[1] == pytest.approx(0.1 * np.sign(w[1]), abs=1e-6)
    penalty = 0.1 * (root * np.linalg.norm(together) + abs(w[1]))
    assert loss == pytest.approx(residual @ residual / 240 + penalty, rel=1e-10)


def test_all_levels_of_a_category_enter_together(ask: Any) -> None:
    path = '"path": {"length": 30, "folds": 0}'
    table = "SELECT features FROM model_path(({m}))"
    together = ask(table.format(m=model("{named}", f'{{{path}, "groups": "categories"}}')))
    alone = ask(table.format(m=model("{named}", f"{{{path}}}")))
    names = [
        "a",
        *(f"k[{level}]" for level in ("low", "mid", "top")),
        *(f"r[x{i}]" for i in range(5)),
    ]
    ((found,),) = ask(f"SELECT (m).features FROM ({model('{named}', '{}')}) AS f")
    assert list(found) == names
    entered = [set(one[0]) for one in together]
    assert any(len(one) > 1 for one in entered)
    for one in entered:
        for levels in ({2, 3, 4}, {5, 6, 7, 8, 9}):
            assert not one & levels or levels <= one
    assert any(0 < len({2, 3, 4} & set(one[0])) < 3 for one in alone)
    named = ask(table.format(m=model("{named}", f'{{{path}, "groups": [["k"], ["r"]]}}')))
    assert [set(one[0]) for one in named] == entered


def test_a_level_may_have_a_bracket(ask: Any) -> None:
    ask("UPDATE t SET k = '[low' WHERE k = 'low' RETURNING k")
    found = [
        ask(f"SELECT (m).features, (m).coef FROM ({model('{named}', options)}) AS f")
        for options in (
            '{"lambda": 0.1, "groups": [["k"], ["r"]]}',
            '{"lambda": 0.1, "groups": "categories"}',
        )
    ]
    assert found[0][0][0][1] == "k[[low]"
    assert found[0] == found[1]


def test_classes_folds_and_the_options_of_a_model(ask: Any) -> None:
    options = (
        '{"groups": [[2, 3]], "path": {"length": 20, "folds": 3, "one_standard_error": true}}'
    )
    sql = f"SELECT g, (m).status, (m).coef, (m).options FROM (SELECT g, train_model('sparse_logistic', y > 2, {{x}}, '{options}') AS m FROM t GROUP BY g) AS f ORDER BY g"
    found = ask(sql)
    assert [one[:2] for one in found] == [(0, "ok"), (1, "ok")]
    for _, _, coef, given in found:
        assert (coef[1] == 0) == (coef[2] == 0)
        assert json.loads(given)["groups"] == [[2, 3]]


@pytest.mark.parametrize(("features", "options", "sentence"), [
    ("{x}", '{"groups": "categories"}', "option 'groups' is 'categories', and the rows have none: expected rows with names of which some are categories, or lists of features"),
    ("{x}", '{"groups": [[1, 4]]}', "option 'groups' has 4, expected places from 1 to 3, the number of features"),
    ("{named}", '{"groups": [["a", "kk"]]}', "option 'groups' has 'kk', expected one of k, r, a, k[low], "),
    ("{named}", '{"groups": [["k", "k[low]"]]}', "option 'groups' has feature 'k[low]' twice, expected it once"),
    ("{x}", '{"groups": [[1, 2]], "unpenalized": [2]}', "feature 2 is in both options 'groups' and 'unpenalized', expected it in one of them"),
    ("{x}", '{"groups": [[1, 2]], "positive": true}', "option 'positive' is true, and option 'groups' is given: expected one of them"),
    ("{x}", '{"groups": [[1, 2], [2, 3]]}', "option 'groups' is"),
])  # fmt: skip
def test_sentences(ask: Any, features: str, options: str, sentence: str) -> None:
    with pytest.raises(Exception, match=re.escape(sentence)):
        ask(f"SELECT (m).coef FROM ({model(features, options)}) AS f")
