"""Coefficients of many models go together by the names of their features."""

from collections.abc import Iterator

import duckdb
import pytest

import tuskml
from tuskml.commands.cli import main
from tuskml.report.coefficients import coefficients, of_many, of_one
from tuskml.report.group_table import details, table_row
from tuskml.report.groups import group_of

ROWS = """
CREATE TABLE given AS SELECT * FROM (
    SELECT i % 3 AS g, (i // 3) % 7 AS x,
           CASE WHEN i % 3 = 2 THEN ['a', 'c'][1 + (i // 3) % 2]
                ELSE ['a', 'b', 'c'][1 + (i // 3) % 3] END AS k
    FROM range(360) t(i));
CREATE TABLE models AS SELECT g, train_model('linear',
    x + CASE k WHEN 'b' THEN 10 WHEN 'c' THEN CASE WHEN g = 2 THEN -10 ELSE 0.5 END ELSE 0 END,
    {'x': x, 'k': k}) AS model FROM given GROUP BY g ORDER BY g;
"""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Three groups, of which one lacks a level."""
    with tuskml.connect() as con:
        con.execute(ROWS)
        yield con


@pytest.fixture(scope="module")
def groups(connection: duckdb.DuckDBPyConnection) -> list:
    """Their models as the report reads them."""
    found = connection.execute("SELECT g, model FROM models ORDER BY g").fetchall()
    return [group_of([g], model) for g, model in found]


@pytest.mark.parametrize("names", [(), ("x", "k"), ("one", "two", "three")])
def test_many_models(groups: list, names: tuple[str, ...]) -> None:
    """Each term has the models that have it, whatever names the caller lists."""
    spans = {span.name: span for span in of_many(groups, names)}
    assert set(spans) == {"x", "k[b]", "k[c]"}
    assert spans["x"].middle == pytest.approx(1)
    assert spans["k[b]"].middle == pytest.approx(10)
    assert spans["k[b]"].title.endswith(", in 2 of 3 models")
    assert spans["k[c]"].middle == pytest.approx(0.5)
    assert spans["k[c]"].low == pytest.approx(-7.9)


def test_one_model(groups: list) -> None:
    """One model's terms have its own names, in all sections."""
    last = groups[2]
    assert {span.name: round(span.middle) for span in of_one(last, ("a", "b"))} == {
        "k[c]": -10,
        "x": 1,
    }
    assert "k[c] -10, x +1" in table_row(last, 0, ("a", "b"))
    told = [sorted(name for name, *_ in one["coef"]) for one in details(groups, ())]
    assert sorted(told) == [
        ["k[b]", "k[c]", "x"],
        ["k[b]", "k[c]", "x"],
        ["k[c]", "x"],
    ]
    assert "k[c]" in coefficients(groups, ())


def test_names_of_lists(connection: duckdb.DuckDBPyConnection) -> None:
    """Models of lists have the names that the caller gives, where they are as many."""
    found = connection.execute(
        "SELECT g, train_model('linear', 3 * x + g, [x]) FROM given GROUP BY g"
    ).fetchall()
    groups = [group_of([g], model) for g, model in found]
    assert [span.name for span in of_many(groups, ("delay",))] == ["delay"]
    assert [span.name for span in of_many(groups, ())] == ["x1"]


def test_command(
    tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tuskml train --group-by` says which coefficient is whose, where the terminal is wide."""
    monkeypatch.setenv("COLUMNS", "200")
    path = f"{tmp_path}/terms.duckdb"
    with tuskml.connect(path) as con:
        con.execute(ROWS)
    given = [
        "--source",
        "given",
        "--task",
        "linear",
        "--label",
        "2 * x + 0 * length(k)",
        "--features",
        "x,k",
    ]
    assert main(["train", path, *given, "--group-by", "g"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("{x: 2, k[b]: ") == 2
    assert shown.count("{x: 2, k[c]: ") == 1
