"""The report's section on searches: the candidates that won, and those of each group."""

import json

import duckdb
import pytest
from outline import Outline

from tuskml.report import group_of, page
from tuskml.report.searches import CANDIDATES, GROUPS, searches

SOURCE = """SELECT i % 3 AS g, 1.0 * (i % 17) AS x, (i % 17) > 8 + 9 * sin(i) AS y
            FROM range(300) AS r(i)"""


def groups(con: duckdb.DuckDBPyConnection, sql: str) -> list:
    """The groups of a query of models."""
    cursor = con.execute(sql)
    return [group_of([key], value) for key, value in cursor.fetchall()]


QUERY = f"""SELECT g, train_model('logistic', y, [x], '{{"l2": [10, 0.1, 0.001], "folds": 3}}')
            FROM ({SOURCE}) GROUP BY g ORDER BY g"""


def test_each_group_has_its_candidates_and_the_winner_is_first(
    con: duckdb.DuckDBPyConnection,
) -> None:
    found = groups(con, QUERY)
    text = searches(found)
    assert text.count("<details>") == 3
    for group in found:
        trials = group.model.trials
        best = trials["trials"][trials["chosen"]]
        own = text.split(f"<summary>{group.name}: ")[1].split("</details>")[0]
        assert own.startswith(f"l2 {best['configuration']['l2']}, log_loss {best['metric']:.5g}")
        assert own.count("<tr>") == 4
        assert own.index("chosen") < own.index("</tr>", own.index("<tbody>"))
        assert own.count('class="whisker"') == 3
    whole = page(found, keys=["g"])
    assert '<a href="#searches">' in whole
    Outline(whole)


def test_a_report_without_searches_has_no_such_section(con: duckdb.DuckDBPyConnection) -> None:
    found = groups(con, QUERY.replace("[10, 0.1, 0.001]", "1").replace(', "folds": 3', ""))
    assert searches(found) == ""
    assert "searches" not in page(found, keys=["g"])


def test_candidates_that_nobody_could_judge_are_said(con: duckdb.DuckDBPyConnection) -> None:
    sql = QUERY.replace('"folds": 3', '"search": {"time": "0.000001s"}')
    text = searches(groups(con, sql))
    assert text.count("No candidate could be judged.") == 3
    assert "not tried" in text


@pytest.mark.parametrize("name", ["<b>x</b>", "<script>alert(1)</script>"])
def test_keys_stay_text(con: duckdb.DuckDBPyConnection, name: str) -> None:
    value = con.execute(QUERY).fetchall()[0][1]
    text = searches([group_of([name], value)])
    assert name not in text


def test_a_page_of_many_searches_stays_small(con: duckdb.DuckDBPyConnection) -> None:
    value = con.execute(QUERY).fetchall()[0][1]
    trials = json.loads(value["trials"])
    trials["trials"] += 50 * trials["trials"][:1]
    many = value | {"trials": json.dumps(trials)}
    text = searches([group_of([str(k)], many) for k in range(GROUPS + 20)])
    assert text.count("<details>") == GROUPS
    assert text.count('class="whisker"') == GROUPS * CANDIDATES
    assert len(text) < 3_000_000


def test_candidates_that_train_by_epochs_have_curves(con: duckdb.DuckDBPyConnection) -> None:
    """The winner's is drawn last, in front of the others."""
    options = (
        '{"objective": "logistic", "trees": [4, 12], "learning_rate": [0.1, 0.3], "folds": 3}'
    )
    sql = f"SELECT g, train_model('gbdt', y, [x], '{options}') FROM ({SOURCE}) GROUP BY g"
    found = groups(con, sql)
    text = searches(found)
    assert text.count('class="curve ') == 3 * 2
    winners = [g for g in found if g.model.trials["trials"][g.model.trials["chosen"]].get("curve")]
    assert text.count('class="curve series-1') == len(winners)
    assert "<td>12" in text
    Outline(page(found, keys=["g"]))
