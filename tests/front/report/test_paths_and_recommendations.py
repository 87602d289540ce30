"""The report's sections on paths of penalties and on recommendations."""

import re
from typing import Any

import duckdb
import pytest
from outline import Outline

from tuskml.report import group_of, page
from tuskml.report.groups import Group
from tuskml.report.paths import drawing

ROWS = """FROM (SELECT i % 2 AS g, sin(i * 1.7) AS a, cos(i * 2.9) AS b, sin(i * 0.37) AS c,
2 * sin(i * 1.7) - cos(i * 2.9) + 0.3 * sin(i * 11.3) AS y, i % 17 AS u, (i * 7) % 23 AS f
FROM range(300) r(i))"""


def test_a_path_is_drawn_and_its_penalties_are_told(con: duckdb.DuckDBPyConnection) -> None:
    options = '{"path": {"length": 20, "folds": 3, "one_standard_error": true}}'
    found = con.execute(
        f"SELECT g, train_model('lasso', y, {{'a': a, 'b': b, 'c': c}}, '{options}') AS m {ROWS} "
        "GROUP BY g ORDER BY g"
    ).fetchall()
    html = page([group_of([g], value) for g, value in found], keys=["g"])
    text = Outline(html).text
    con.execute("CREATE TABLE one AS SELECT ? AS m", [found[1][1]])
    for condition, what in (
        ("chosen", "chosen"),
        (
            "held_out = (SELECT min(held_out) FROM model_path((SELECT m FROM one)))",
            "least held-out loss",
        ),
    ):
        ((penalty, n, held),) = con.execute(
            "SELECT penalty, n_weights, held_out FROM model_path((SELECT m FROM one)) "
            f"WHERE {condition}"
        ).fetchall()
        assert f"{what}{penalty:.5g}{n}{held:.5g}" in text
    assert "Penalties of 1, of 20" in text
    assert len(re.findall(r"<title>a: ", html)) == 2
    assert "Searches" not in text


def test_a_path_of_large_ids_takes_the_memory_of_its_weights() -> None:
    """A column for each id up to 2^62 could not be."""
    steps: list[dict[str, Any]] = [
        {"lambda": 1.0, "feature": [], "weight": []},
        {"lambda": 0.1, "feature": [7, 2**62], "weight": [-1.0, 0.5]},
    ]
    html = drawing(Group((), None), steps, ())
    assert re.findall(r"<title>(x\d+): ([^<]*)<", html) == [(f"x{2**62}", "0.5"), ("x7", "-1")]


def test_models_without_a_path_have_no_section(con: duckdb.DuckDBPyConnection) -> None:
    ((value,),) = con.execute(
        f"SELECT train_model('lasso', y, [a, b], '{{\"lambda\": 0.1}}') {ROWS}"
    ).fetchall()
    assert 'id="paths"' not in page([group_of([], value)])


@pytest.mark.parametrize("options", ['{"feedback": "implicit", "rank": 3}', '{"rank": 3}'])
def test_the_best_items_are_those_of_recommend(
    con: duckdb.DuckDBPyConnection, options: str
) -> None:
    """Users and items without rows are left out: user 3, and items above 22."""
    con.execute(
        f"CREATE TABLE m AS SELECT train_model('matrix_factorization', 1 + f % 3, "
        f"[CASE WHEN u = 3 THEN 4 ELSE u END, CASE WHEN f = 22 THEN 30 ELSE f END], '{options}') "
        f"AS m {ROWS}"
    )
    ((value,),) = con.execute("SELECT m FROM m").fetchall()
    text = Outline(page([group_of([], value)])).text
    for user in (0, 1, 2, 4, 5):
        best = con.execute(
            f"SELECT item, score FROM recommend((SELECT m FROM m), {user}, 5)"
        ).fetchall()
        told = ", ".join(f"{item} ({score:.3g})" for item, score in best)
        assert f"{user}{told}" in text
    assert "16 users, 23 items with rows" in text


@pytest.mark.parametrize("columns", ["{'u': 'user ' || u, 'f': f}", "{'u': u, 'f': 'film ' || f}"])
def test_users_and_items_are_called_by_their_names(
    con: duckdb.DuckDBPyConnection, columns: str
) -> None:
    con.execute(
        f"CREATE TABLE m AS SELECT train_model('matrix_factorization', 1 + f % 3, {columns}) "
        f"AS m {ROWS}"
    )
    ((value,),) = con.execute("SELECT m FROM m").fetchall()
    text = Outline(page([group_of([], value)])).text
    user = "'user 3'" if "user" in columns else "'3'"
    best = con.execute(
        f"SELECT item, score FROM recommend((SELECT m FROM m), {user}, 5)"
    ).fetchall()
    assert ", ".join(f"{item} ({score:.3g})" for item, score in best) in text
