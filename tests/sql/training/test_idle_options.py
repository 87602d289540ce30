"""Options that would change nothing, and groups without rows, in both databases."""

from typing import Any

import duckdb
import psycopg
import pytest

ROWS = """
CREATE TABLE visits AS SELECT i % 4 AS g, i % 7 + 0.0 AS a, i * 5 % 11 + 0.0 AS b,
       'k' || CAST(i % 3 AS text) AS k, (i % 7) * 2 + i % 3 + 0.0 AS y, i % 2 = 0 AS two
"""
SOURCE = {"duck": "FROM range(80) AS t(i)", "post": "FROM generate_series(0, 79) AS t(i)"}
NUMBERS = {"duck": "[a, b]", "post": "ARRAY[a, b]::float8[]"}
NAMED = {"duck": "{'a': a, 'k': k}", "post": "r"}
WORDS = {"duck": "[k, 'w']", "post": "ARRAY[k, 'w']"}
OF_LISTS = "is for categories of rows with names, and these features are lists"

Session = tuple[str, Any]


def asked(session: Session, call: str, more: str = "") -> list[tuple[Any, ...]]:
    """The rows of a call, whose features are NUMBERS, NAMED or WORDS."""
    name, con = session
    for word, texts in (("NUMBERS", NUMBERS), ("NAMED", NAMED), ("WORDS", WORDS)):
        call = call.replace(word, texts[name])
    con.execute("DROP TABLE IF EXISTS visits")
    con.execute(f"{ROWS} {SOURCE[name]}")
    source = "(SELECT visits.*, r FROM visits, LATERAL (SELECT a, k) AS r) AS visits"
    found = con.execute(f"SELECT {call} FROM {'visits' if name == 'duck' else source} {more}")
    rows: list[tuple[Any, ...]] = found.fetchall()
    return rows


def error(session: Session, call: str, more: str = "") -> str:
    """The sentence that it ends with, in PostgreSQL as an invalid parameter."""
    with pytest.raises((duckdb.Error, psycopg.Error)) as caught:
        asked(session, call, more)
    if isinstance(caught.value, psycopg.Error):
        assert caught.value.sqlstate == "22023"
    return str(caught.value)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("'linear', y, NUMBERS, '{\"min_count\": 3}'", f"option 'min_count' {OF_LISTS}"),
        ("'gbdt', y, NUMBERS, '{\"category_encoding\": \"one_hot\"}'", OF_LISTS),
        (
            "'gbdt', y, NUMBERS, '{\"missing\": \"impute\"}'",
            "option 'missing' is 'impute', which is for rows with names, and these features are "
            "lists: expected features such as {'a': a, 'b': b}, or 'skip' or 'keep'",
        ),
        (
            "'linear', y, NAMED, '{\"dates\": \"parts\"}'",
            "option 'dates' is 'parts', which is for dates and timestamps, and these rows "
            "have none",
        ),
        (
            "'gbdt', y, NAMED, '{\"quantile\": 0.9}'",
            "option 'quantile' is for option 'objective': 'quantile', which is 'squared'",
        ),
        ("'mlp', y, NUMBERS, '{\"patience\": 10}'", "option 'patience' needs option 'validation'"),
        (
            '\'linear\', y, NAMED, \'{"feature_names": ["a", "b"]}\'',
            "option 'feature_names' is for features that are lists, sparse features or pairs, and "
            "these rows have names",
        ),
        (
            "'svm', two, NUMBERS, '{\"fit\": true}'",
            "option 'fit' is not available with task 'svm', expected 'linear', 'logistic'",
        ),
        (
            "'linear', y, NUMBERS, '{\"layout\": \"affinity\"}'",
            "option 'layout' needs option 'store' beside it",
        ),
        (
            "'linear', y, NUMBERS, '{\"step\": 0.1}'",
            "option 'step' changes nothing where option 'algorithm' is 'auto', expected another",
        ),
        (
            '\'fm\', y, NUMBERS, \'{"l2": [0.1, 1], "unseen": "error"}\'',
            f"option 'unseen' {OF_LISTS}",
        ),
        (
            '\'auto\', y, NUMBERS, \'{"tasks": ["linear", "gbdt"], "max_categories": 3}\'',
            f"option 'max_categories' {OF_LISTS}",
        ),
    ],
)
def test_an_option_that_changes_nothing_is_refused(
    session: Session, call: str, sentence: str
) -> None:
    assert sentence in error(session, f"train_model({call})")


@pytest.mark.parametrize(
    ("task", "options", "sentence"),
    [
        ("nope", "{}", "task is 'nope', expected 'linear'"),
        ("linear", '{"l3": 1}', "unknown option 'l3'"),
        ("linear", '{"l2": -1}', "option 'l2' is -1, expected a number of at least 0"),
        ("gbdt", '{"patience": 3}', "option 'patience' needs option 'validation' beside it"),
        ("linear", '{"l2": [0.1, 1], "folds": 1}', "option 'folds' is 1"),
        ("auto", '{"tasks": ["nope"]}', "task is 'nope'"),
    ],
)
@pytest.mark.parametrize("function", ["train_model", "explain_training"])
def test_groups_without_rows_are_checked_too(
    session: Session, function: str, task: str, options: str, sentence: str
) -> None:
    call = f"{function}('{task}', CAST(NULL AS double precision), NUMBERS, '{options}')"
    for more in ("", "GROUP BY g"):
        assert sentence in error(session, call, more)


def test_groups_without_rows_are_null(session: Session) -> None:
    call = "train_model('linear', CASE WHEN g = 1 THEN y END, NUMBERS, '{\"l2\": 0.1}') IS NULL"
    found = asked(session, f"g, {call}", "GROUP BY g ORDER BY g")
    assert [(int(g), null) for g, null in found] == [(g, g != 1) for g in range(4)]
    assert asked(session, call, "WHERE g = 0") == [(True,)]
    assert asked(session, call, "WHERE g > 9") == [(True,)]
