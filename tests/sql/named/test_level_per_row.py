"""Categories and classes that hardly repeat have a status and a note, in both databases."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TASKS = ("linear", "lasso", "logistic", "svm", "gbdt", "random_forest", "mlp", "fm", "quantile")
CLASSIFIERS = ("logistic", "svm")
STATUS = "level per row"
COLUMNS = {
    "decimals": ("CAST(i * 1.37 AS varchar)", "text of numbers"),
    "whole numbers": ("CAST(i * 7 AS varchar)", "text of numbers"),
    "numbers and NA": (
        "CASE WHEN i % 20 = 3 THEN 'NA' ELSE CAST(i * 0.5 AS varchar) END",
        "text of numbers",
    ),
    "ids": ("'user-' || i", "which hardly repeat"),
    "prices": ("CAST(1.25 * (i % 30) AS varchar)", "text of numbers"),
}
"""What hardly repeats among 60 rows, and what its note says."""
GOOD = {
    "codes": "CAST(i % 9 AS varchar)",
    "names": "'shop ' || i % 12",
    "versions": "'1.' || i % 5",
    "half of them": "'user-' || i % 31",
}
"""Categories as they are meant."""


def trained(session: tuple[str, Any], task: str, column: str, rows: int = 60) -> tuple[str, str]:
    """Status and note of a model of a column that is text, and a number."""
    name, db = session
    label = "i % 2" if task in CLASSIFIERS else "i % 7 + i % 5"
    row = "{'c': c, 'x': x}" if name == "duck" else "q"
    values = f"SELECT {label} AS y, {column} AS c, (i * 37) % 11 AS x"
    inner = f"({values} FROM generate_series(1, {rows}) AS s(i)) AS t"
    if name == "post":
        inner = f"(SELECT y, (SELECT q FROM (SELECT c, x) AS q) AS q FROM {inner}) AS u"
    return db.execute(
        f"SELECT (m).status, (m).note FROM (SELECT train_model('{task}', y, {row}) AS m "
        f"FROM {inner}) AS f"
    ).fetchone()


@pytest.mark.parametrize("task", TASKS)
def test_text_that_hardly_repeats(session: tuple[str, Any], task: str) -> None:
    for column, says in COLUMNS.values():
        status, note = trained(session, task, column)
        assert status == STATUS
        assert note.startswith("column 'c' ")
        assert says in note


@pytest.mark.parametrize("column", GOOD.values(), ids=list(GOOD))
def test_categories_that_repeat(session: tuple[str, Any], column: str) -> None:
    for task in ("linear", "gbdt", "logistic"):
        status, note = trained(session, task, column)
        assert status != STATUS
        assert note is None


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.integers(1, 80), levels=st.integers(1, 80))
def test_more_than_half_as_many_numbers_as_rows(con: Any, rows: int, levels: int) -> None:
    there = min(rows, levels)
    status, _ = trained(("duck", con), "lasso", f"CAST(i % {levels} AS varchar)", rows)
    assert (status == STATUS) == (rows >= 10 and there > rows / 2)


@pytest.mark.parametrize("task", ["gbdt", "random_forest", "mlp", "logistic"])
def test_labels_that_are_texts_of_numbers(session: tuple[str, Any], task: str) -> None:
    name, db = session
    x = "[i % 7, i % 5]" if name == "duck" else "ARRAY[i % 7, i % 5]"
    asked = (
        "SELECT (m).status, (m).note FROM (SELECT train_model('{task}', {label}, {x}) AS m "
        "FROM generate_series(1, 30) AS s(i)) AS f"
    )
    label = "CAST(i * 1.5 AS varchar)"
    found = db.execute(asked.format(task=task, label=label, x=x)).fetchone()
    assert found == (STATUS, "label is text of numbers with 30 classes: cast it to DOUBLE")
    label = "CAST(i * 7 % 3 AS varchar)"
    status, note = db.execute(asked.format(task=task, label=label, x=x)).fetchone()
    assert (status == STATUS, note) == (False, None)


def test_the_note_also_has_rows_that_were_skipped(con: Any) -> None:
    ((status, note),) = con.execute(
        "SELECT m.status, m.note FROM (SELECT train_model('linear', i % 7, {'c': 'id' || i, "
        "'x': CASE WHEN i % 6 = 0 THEN NULL ELSE i % 5 END}) AS m FROM range(60) AS s(i)) AS f"
    ).fetchall()
    assert status == STATUS
    assert note == (
        "column 'c' has 50 levels, which hardly repeat: leave it out, or cast dates to DATE; "
        "10 of 60 rows were skipped (16.7%): column 'x' is NULL in 10 (16.7%)"
    )
