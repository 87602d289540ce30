"""Labels that are numbers of many digits: metrics tell classes apart as training does, or refuse
what a double cannot tell apart."""

from typing import Any

import pytest

DECIMAL = "numeric(38, 20)"
WHOLE = {"here": "hugeint", "there": "numeric"}
POSITIVE, NEGATIVE = "0.12345678901234567891", "0.12345678901234567890"
CALLS = {
    "accuracy": "accuracy(y, z)",
    "confusion": "confusion(y, z)",
    "precision_score": "precision_score(y, z, 'macro')",
    "recall_score": "recall_score(y, z, 'micro')",
    "f1_score": "f1_score(y, z, 'binary', '1')",
    "log_loss": "log_loss(y, p)",
    "log_loss of a class": "log_loss(y, p, '1')",
    "log_loss of shares": "log_loss(y, shares)",
    "brier": "brier(y, p)",
    "brier of shares": "brier(y, shares)",
    "auc": "auc(y, p)",
    "auc of a class": "auc(y, p, '1')",
    "average_precision": "average_precision(y, p)",
    "ks": "ks(y, p)",
    "psi": "psi(y, p)",
    "roc_curve": "roc_curve(y, p)",
    "precision_recall_curve": "precision_recall_curve(y, p)",
    "calibration": "calibration(y, p)",
    "lift": "lift(y, p)",
    "precision_at_k": "precision_at_k(y, p, 1)",
    "recall_at_k": "recall_at_k(y, p, 1)",
    "average_precision_at_k": "average_precision_at_k(y, p, 1)",
}
"""A call of each metric whose labels are names of classes."""


def rows(asked: Any, kind: str, *labels: str) -> str:
    """Rows of labels of that type, which are also the predictions, with a score and shares."""
    shares = '{"1": 0.5, "0": 0.5}'
    of_shares = f"'{shares}'::jsonb" if asked.postgres else "map(['1', '0'], [0.5, 0.5])"
    lines = " UNION ALL ".join(
        f"SELECT {label}::{kind} AS y, {label}::{kind} AS z, {k / 8}::float8 AS p, "
        f"{of_shares} AS shares"
        for k, label in enumerate(labels)
    )
    return f"({lines}) AS given"


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_a_double_cannot_tell_apart_is_refused(asked: Any, call: str) -> None:
    near_one = "0.99999999999999999999", "0.99999999999999999998"
    for kind, labels in ((DECIMAL, near_one), ("bigint", ("9007199254740993",) * 2)):
        found = asked.sentence(f"SELECT {call} FROM {rows(asked, kind, *labels)}")
        assert "digits than a double keeps" in found or "label is" in found
        assert "text" in found or "0 or 1" in found or "one of the 2 classes" in found


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_decimals_are_the_classes_of_doubles(asked: Any, call: str) -> None:
    found, same = (
        asked.all(f"SELECT {call} FROM {rows(asked, kind, '0', '1', '1', '0.0')}")
        for kind in (DECIMAL, "float8")
    )
    assert found == same


@pytest.mark.parametrize("kind", ["float8", DECIMAL, "numeric(18, 3)", "whole", "bigint"])
def test_fifteen_digits_stay_apart(asked: Any, kind: str) -> None:
    a, b = {
        "bigint": ("9007199254740991", "9007199254740990"),
        "whole": ("9007199254740991", "9007199254740990"),
        DECIMAL: ("0.123456789012345", "0.123456789012346"),
    }.get(kind, ("123456789012.345", "123456789012.346"))
    name = WHOLE["there" if asked.postgres else "here"] if kind == "whole" else kind
    given = f"(SELECT {a}::{name} AS y, {b}::{name} AS z) AS given"
    assert asked.all(f"SELECT accuracy(y, y), accuracy(y, z) FROM {given}") == [(1.0, 0.0)]
    scores = f"precision_score(y, z, 'binary', '{a}'), recall_score(y, y, 'binary', '{a}')"
    assert asked.all(f"SELECT {scores} FROM {given}") == [(None, 1.0)]


def test_a_named_class_beyond_doubles_is_refused(asked: Any) -> None:
    kind = "numeric" if asked.postgres else "hugeint"
    for label in ("9007199254740992", "-9007199254740993"):
        given = f"(SELECT {label}::{kind} AS y, 0.5::float8 AS p) AS given"
        for call in (f"auc(y, p, '{label}')", f"f1_score(y, y, 'binary', '{label}')"):
            found = asked.sentence(f"SELECT {call} FROM {given}")
            assert "2^53" in found or "digits than a double keeps" in found


def test_labels_of_no_class_are_named(here: Any) -> None:
    """In DuckDB; PostgreSQL itself says which functions it has."""
    found = here.sentence("SELECT auc(DATE '2020-01-01', 0.5)")
    assert "auc: label is DATE, expected a number, a boolean or text" in found
    assert "predicted is INTEGER[]" in here.sentence("SELECT accuracy(1, [1])")
    text_at_k = here.sentence("SELECT recall_at_k('yes', 0.5, 3)")
    assert "label is text, expected a boolean" in text_at_k
    uuids = "(SELECT uuid() AS a, uuid() AS b) AS given"
    assert here.all(f"SELECT accuracy(a, a), accuracy(a, b) FROM {uuids}") == [(1.0, 0.0)]
