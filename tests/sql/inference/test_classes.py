"""The two labels of a classifier in both databases: named by an option, or those that occur."""

# ruff: noqa: E501, SQL is read better on one line

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from databases import Client, client, here, there

__all__ = ["client", "here", "there"]

NAMED = '{"classes": [1, 2]}'
ROWS = "(SELECT i, i % 3 AS g, ARRAY[sin(i), cos(3.0 * i)] AS x, CASE WHEN i % 3 = 0 THEN 1 WHEN i % 3 = 1 THEN 2 ELSE 1 + (i * 7919 % 13 > 6)::int END AS y FROM generate_series(1, 90) AS s(i)) AS r"
"""Groups 0 and 1 have one class alone, 1 and 2; group 2 has both."""


def rows_of(client: Client, sql: str) -> list[Any]:
    return client.connection.execute(sql).fetchall()


def refused(client: Client, call: str) -> str:
    """What a call over ROWS is answered with."""
    with pytest.raises(Exception, match="train_model") as raised:
        rows_of(client, f"SELECT {call} FROM {ROWS}")
    return " ".join(str(raised.value).split())


@pytest.mark.parametrize("task", ["logistic", "svm"])
@pytest.mark.parametrize("features", ["x", "sparse(ARRAY[0, 1], x)"])
def test_one_class_alone_is_the_one_that_it_is(client: Client, task: str, features: str) -> None:
    """The model is certain of the class, 1 the lower and 2 the higher, as the option says."""
    models = f"(SELECT g, train_model('{task}', y, {features}, '{NAMED}') AS m FROM {ROWS} GROUP BY g) AS t"
    point = features.replace("x", "ARRAY[0.1, 0.2]::double precision[]")
    found = rows_of(
        client,
        f"SELECT (m).status, (m).classes, predict(m, {point}), (m).intercept, (m).loss FROM {models} ORDER BY g",
    )
    (low, high, both) = found
    assert (low[0], high[0]) == ("one class", "one class")
    assert [list(row[1]) for row in found] == [[1, 2]] * 3
    assert (low[2], high[2]) == (1, 2)
    assert (low[3], high[3]) == (-1000, 1000)
    assert both[0] in ("ok", "separable")
    assert low[4] == 0
    if task == "logistic":
        p = rows_of(
            client, f"SELECT predict_proba(m, {point}) FROM {models} WHERE g < 2 ORDER BY g"
        )
        assert [row[0] for row in p] == [0, 1]


def test_the_option_changes_nothing_where_both_occur(client: Client) -> None:
    given, plain = (
        rows_of(
            client,
            f"SELECT (m).coef, (m).intercept, (m).classes, (m).std_err FROM (SELECT train_model('logistic', y, x, '{options}') AS m FROM {ROWS} WHERE g = 2) AS t",
        )
        for options in (NAMED, "{}")
    )
    assert given == plain


def test_booleans_are_classes_too(here: Client) -> None:
    call = """train_model('logistic', y > 5, x, '{"classes": [false, true]}')"""
    found = rows_of(
        here, f"SELECT (m).classes, (m).intercept < 0 FROM (SELECT {call} AS m FROM {ROWS}) AS t"
    )
    assert found == [([0.0, 1.0], True)]


def test_the_options_of_a_model_have_its_classes(here: Client) -> None:
    """So that the same training can be made of them."""
    model = here.fit(
        "logistic",
        [[1.0], [2.0], [2.5]],
        [3, 4, 3],
        classes=[3, 4],
        class_weight={"4": 2, "3": 1},
        l2=1,
    )
    assert model.options["classes"] == [3, 4]
    assert model.options["class_weight"] == {"3": 1, "4": 2}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            """train_model('logistic', y, x, '{"classes": [2, 3], "invalid": "error"}')""",
            "label is 1 in row 2 of the group, expected 2 or 3 as option 'classes' has",
        ),
        (
            """train_model('svm', y, x, '{"class_weight": {"5": 1, "7": 10}, "invalid": "error"}')""",
            "label is 2 in row 1 of the group, expected 5 or 7 as option 'class_weight' has",
        ),
        (
            """train_model('logistic', y, x, '{"classes": [2, 1]}')""",
            "option 'classes' is [2, 1], expected a list of two labels, the lower first, such as [1, 2]",
        ),
        (
            """train_model('logistic', y, x, '{"classes": ["a", "b"]}')""",
            """option 'classes' is ["a", "b"], expected a list of two labels that are numbers""",
        ),
        (
            """train_model('linear', y, x, '{"classes": [1, 2]}')""",
            "option 'classes' is not available with task 'linear', which has no classes",
        ),
        (
            """train_model('logistic', 9007199254740992 + y % 2 * 2, x, '{"invalid": "error"}')""",
            "label is 9007199254740992 in row 1 of the group, 'logistic' needs labels below 2^53 = 9007199254740992 in size, since larger whole numbers are rounded",
        ),
    ],
)
def test_what_is_refused(client: Client, call: str, sentence: str) -> None:
    assert sentence in refused(client, call)


@pytest.mark.parametrize(("step", "status"), [(10**9, "ok"), (1000, "rounded feature")])
def test_large_numbers_are_labels_of_a_regression(client: Client, step: int, status: str) -> None:
    """The status says where they are so large that predictions lose their digits."""
    found = rows_of(
        client,
        f"SELECT (train_model('linear', 9007199254740992 + {step} * y, x)).status FROM {ROWS} WHERE g = 2",
    )
    assert found == [(status,)]


def test_classes_have_names(client: Client) -> None:
    """A label's value as text, and nothing where a model has no classes."""
    named = [
        rows_of(
            client,
            f"SELECT (m).classes, (m).class_names FROM (SELECT {call} AS m FROM {ROWS}) AS t",
        )[0]
        for call in (
            "train_model('logistic', y > 1, x)",
            "train_model('svm', y * 0.5::double precision, x)",
            f"train_model('logistic', y, sparse(ARRAY[0, 1], x), '{NAMED}')",
            "train_model('linear', y, x)",
        )
    ]
    assert named == [
        ([0, 1], ["false", "true"]),
        ([0.5, 1], ["0.5", "1"]),
        ([1, 2], ["1", "2"]),
        (None, None),
    ]
