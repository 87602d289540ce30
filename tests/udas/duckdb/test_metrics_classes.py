"""Metrics of classes against scikit-learn."""

import duckdb
import numpy as np
import pytest
import sklearn.metrics as reference
from hypothesis import given
from hypothesis import strategies as st
from metric_rows import binary, close, metric, pairs, relaxed, usable

SCORES = ("precision_score", "recall_score", "f1_score")
AVERAGES = ("macro", "weighted", "micro")
WORDS = ["cat", "dog", "", "Äpfel", "catfish", "it's"]
words = st.sampled_from(WORDS)
few = st.sampled_from([-2.5, -1.0, -0.0, 0.0, 3.0, 1e300 / 1e290, 1e-300])
TEXTS = "(SELECT unnest($y::VARCHAR[]) AS y, unnest($p::VARCHAR[]) AS p)"


def of_texts(con, expression, y, p):
    query = f"SELECT {expression} FROM {TEXTS}"
    return con.execute(query, {"y": list(y), "p": list(p)}).fetchone()[0]


def kept(y, p):
    return [(a, b) for a, b in zip(y, p, strict=True) if a is not None and b is not None]


@relaxed
@given(pairs(binary, binary))
def test_two_classes(con, rows):
    y, p = usable(*rows)
    for name in SCORES:
        found = metric(con, f"{name}(y, p)", *rows)
        undefined = {"precision_score": not p.any(), "recall_score": not y.any()}
        if undefined.get(name, not (p.any() or y.any())):
            assert found is None
        else:
            assert close(found, getattr(reference, name)(y, p))
        for other in ("2 * y - 1, 2 * p - 1", "y = 1, p = 1", "y = 1, p", "y, p, 'binary'"):
            assert metric(con, f"{name}({other})", *rows) == found
        assert metric(con, f"{name}(y, p, NULL)", *rows) == found


@relaxed
@given(pairs(few, few), st.sampled_from(SCORES), st.sampled_from(AVERAGES))
def test_numbers(con, rows, name, average):
    y, p = usable(*rows)
    found = metric(con, f"{name}(y, p, '{average}')", *rows)
    if not len(y):
        assert found is None
        return
    classes, places = np.unique(np.concatenate([y, p]) + 0.0, return_inverse=True)
    assert len(classes)
    labels, predicted = places[: len(y)], places[len(y) :]
    expected = getattr(reference, name)(labels, predicted, average=average, zero_division=0)
    assert close(found, expected)


@relaxed
@given(pairs(words, words), st.sampled_from(SCORES), st.sampled_from(AVERAGES))
def test_text(con, rows, name, average):
    both = kept(*rows)
    found = of_texts(con, f"{name}(y, p, '{average}')", *rows)
    accuracy = of_texts(con, "accuracy(y, p)", *rows)
    table = of_texts(con, "confusion(y, p)", *rows)
    if not both:
        assert (found, accuracy, table) == (None, None, None)
        return
    y, p = zip(*both, strict=True)
    assert close(found, getattr(reference, name)(y, p, average=average, zero_division=0))
    assert close(accuracy, reference.accuracy_score(y, p))
    counts = {pair: both.count(pair) for pair in both}
    expected = sorted(counts, key=lambda pair: [word.encode() for word in pair])
    assert [(cell["label"], cell["predicted"]) for cell in table] == expected
    assert [cell["n"] for cell in table] == [counts[pair] for pair in expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("y > 0, p > 0", [("false", "true", 1), ("true", "false", 2)]),
        ("y > 0, (p > 0)::INT", [("0", "1", 1), ("1", "0", 2)]),
        ("y, p", [("-7", "0.1", 1), ("0.30000000000000004", "-1e-05", 1), ("12", "-0.5", 1)]),
        ("y * 0, -0.0", [("0", "0", 3)]),
    ],
)
def test_names_of_classes(con, expression, expected):
    table = metric(con, f"confusion({expression})", [12, -7, 0.1 + 0.2], [-0.5, 0.1, -1e-5])
    assert [tuple(cell.values()) for cell in table] == expected


def test_an_enum_is_text(con):
    con.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    query = "SELECT accuracy('sad'::mood, 'sad'::mood), confusion('sad'::mood, 'happy'::mood)"
    cell = {"label": "sad", "predicted": "happy", "n": 1}
    assert con.execute(query).fetchone() == (1.0, [cell])


def test_many_classes_groups_and_threads(con):
    """120,000 rows of 40 groups with 90 classes each."""
    con.execute(
        "CREATE OR REPLACE TEMP TABLE many AS SELECT i % 40 AS g, 'c' || (i * 7919 % 90) AS y,"
        " 'c' || (i * i % 90) AS p FROM range(120000) t(i)"
    )
    query = (
        "SELECT g, f1_score(y, p, 'macro'), len(confusion(y, p)),"
        " list_sum([c.n FOR c IN confusion(y, p)]) FROM many GROUP BY ROLLUP (g)"
    )
    found = {g: rest for g, *rest in con.execute(query).fetchall()}
    for g in (3, 39, None):
        where = "" if g is None else f"WHERE g = {g}"
        y, p = con.execute(f"SELECT list(y), list(p) FROM many {where}").fetchone()
        expected = reference.f1_score(y, p, average="macro", zero_division=0)
        assert close(found[g][0], expected)
        assert found[g][1:] == [len(set(zip(y, p, strict=True))), len(y)]
    assert (
        con.execute(query + " ORDER BY g").fetchall()
        == con.execute(query + " ORDER BY g").fetchall()
    )


@pytest.mark.parametrize("frame", ["ORDER BY i ROWS 300 PRECEDING", "ROWS UNBOUNDED PRECEDING"])
@pytest.mark.parametrize("call", ["f1_score(y, p, 'macro')", "confusion(y, p)"])
def test_window(con, call, frame):
    con.execute(
        "CREATE OR REPLACE TEMP TABLE w AS SELECT i, 'c' || i % 7 AS y, 'c' || i * i % 7 AS p"
        " FROM range(900) t(i)"
    )
    low = "i >= {0} - 300 AND" if "300" in frame else ""
    query = f"SELECT i, {call} OVER ({frame}) FROM w QUALIFY i % 100 = 7"
    for i, found in con.execute(query).fetchall():
        plain = f"SELECT {call} FROM w WHERE {low.format(i)} i <= {i}"
        assert found == con.execute(plain).fetchone()[0]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("precision_score(i, 1)", "precision_score: label is 2, expected a boolean, 0 or 1"),
        ("recall_score(1, i)", "recall_score: predicted is 2, expected a boolean, 0 or 1"),
        ("f1_score(i % 2, -(i % 2))", "f1_score: classes are both 0 and -1"),
        ("f1_score('a', 'b')", "f1_score: label is text, expected average 'macro', 'weighted'"),
        ("f1_score('a', 'b', 'mean')", "f1_score: average is 'mean', expected 'binary', 'macro'"),
        ("f1_score(1, 1, if(i = 1, 'macro', 'micro'))", "f1_score: average takes two values"),
        ("confusion(i::VARCHAR, i)", "confusion: one of label and predicted is text, expected"),
        ("accuracy(i > 0, i::VARCHAR)", "accuracy: one of label and predicted is text, expected"),
        ("confusion(i, 'inf'::DOUBLE)", r"confusion: predicted is inf, expected a number below 2"),
        ("confusion(i + 2^53, i)", r"confusion: label is 9.0072e\+15, expected a number below 2"),
        ("confusion(repeat('x', 999 + i), '')", "confusion: label has 1001 bytes, expected at"),
    ],
)
def test_bad_input(con, call, sentence):
    with pytest.raises(duckdb.Error, match=sentence):
        con.execute(f"SELECT {call} FROM range(1, 4) t(i)").fetchall()
    assert con.execute("SELECT 1").fetchone() == (1,)


def test_numbers_that_are_no_classes(con):
    with pytest.raises(duckdb.Error, match="label and predicted have more than 10000 values"):
        con.execute("SELECT confusion(i, 0) FROM range(20000) t(i)").fetchall()
