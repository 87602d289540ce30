"""Metrics of classes and metrics that are tables: PostgreSQL says what DuckDB says."""

import math

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity import PARALLEL, answer, relaxed, sentence, value

import tuskml

AVERAGES = st.sampled_from(["", ", 'macro'", ", 'weighted'", ", 'micro'", ", 'binary'", ", NULL"])
SCORES = st.sampled_from(["precision_score", "recall_score", "f1_score"])
CURVES = ["roc_curve", "lift", "calibration", "average_precision"]
binary = st.sampled_from([0.0, 1.0])
number = binary | st.sampled_from([-1.0, -0.0, 2.5, 1e-300, 2.0**53])
word = st.sampled_from(["", "a", "b", "ab", "Ä", "it's"])


@pytest.fixture(scope="module")
def duck():
    with tuskml.connect(threads=1) as connection:
        yield connection


def pairs(labels, others):
    row = st.tuples(st.none() | labels, st.none() | others)
    return st.lists(row, max_size=40).map(lambda rows: tuple(zip(*rows, strict=True)) or ((), ()))


def both(pg, duck, call, rows, kind):
    """The answers of both databases, a table as a list of tuples."""
    given = dict(zip(("y", "p"), map(list, rows), strict=True))
    found = answer(
        lambda: pg.execute(
            f"SELECT {call} FROM unnest(%(y)s::{kind}[], %(p)s::{kind}[]) AS t (y, p)", given
        ),
        psycopg.Error,
    )
    source = f"(SELECT unnest($y::{kind}[]) AS y, unnest($p::{kind}[]) AS p)"
    expected = answer(lambda: duck.execute(f"SELECT {call} FROM {source}", given), Exception)
    if isinstance(expected, list):
        expected = [tuple(row.values()) for row in expected]
    if isinstance(found, list):
        found = [tuple(row) for row in found]
    return found, expected


@pytest.fixture(scope="module")
def session(pg):
    """The module's session, which reads rows of the tables as tuples."""
    for name in ("roc_point", "calibration_bin", "lift_decile", "confusion_cell"):
        info = psycopg.types.composite.CompositeInfo.fetch(pg, f"tuskml_{name}")
        psycopg.types.composite.register_composite(info, pg)
    return pg


@relaxed
@given(SCORES, AVERAGES, pairs(binary, binary) | pairs(number, number))
def test_scores_of_numbers(session, duck, name, average, rows):
    found, expected = both(session, duck, f"{name}(y, p{average})", rows, "float8")
    assert found == expected


@relaxed
@given(SCORES, AVERAGES, pairs(word, word))
def test_scores_of_texts(session, duck, name, average, rows):
    for call in (f"{name}(y, p{average})", "accuracy(y, p)", "confusion(y, p)"):
        found, expected = both(session, duck, call, rows, "text")
        assert found == expected


@relaxed
@given(pairs(number, number))
def test_confusion_of_numbers(session, duck, rows):
    for call in ("y, p", "y > 0, p > 0", "y > 0, (p > 0)::int", "y, p > 0"):
        found, expected = both(session, duck, f"confusion({call})", rows, "float8")
        assert found == expected


@relaxed
@given(st.sampled_from(CURVES), pairs(number, st.floats(0, 1) | number | st.just(math.inf)))
def test_curves(session, duck, name, rows):
    calls = [f"{name}(y, p)", f"{name}(y > 0, p)"]
    if name == "calibration":
        calls += ["calibration(y > 0, p, 3)", "calibration(y > 0, p, 0)"]
    for call in calls:
        found, expected = both(session, duck, call, rows, "float8")
        assert found == expected


@pytest.fixture(scope="module")
def scored(session):
    """Rows in groups, with ties and NULLs, large enough for parallel workers."""
    session.execute("""
        CREATE TABLE scored AS
        SELECT i, i % 17 AS g, sin(i::float8 * i) > 0.3 AS b, 'c' || i * 7919 % 11 AS l,
               CASE i % 10 WHEN 0 THEN NULL ELSE 'c' || i % 13 END AS k,
               CASE i % 10 WHEN 0 THEN NULL ELSE round(abs(sin(i))::numeric, 2)::float8 END AS p
        FROM generate_series(1, 60000) AS i""")
    session.execute("ANALYZE scored")


ALL = """
    roc_curve(b, p)::text, calibration(b, p, 7)::text, lift(b, p)::text, average_precision(b, p),
    confusion(l, k)::text, confusion(b, p > 0.5)::text, f1_score(b, p > 0.5), accuracy(l, k),
    f1_score(l, k, 'macro'), precision_score(l, k, 'weighted'), recall_score(l, k, 'micro')"""


@pytest.mark.parametrize("grouping", ["", "GROUP BY g"])
def test_parallel_workers_give_the_same_bits(connect, scored, grouping):
    session = connect()
    query = f"SELECT min(g), {ALL} FROM scored {grouping} ORDER BY 1"
    session.execute("SET max_parallel_workers_per_gather = 0")
    serial = session.execute(query).fetchall()
    assert all(part is not None for row in serial for part in row)
    session.execute(PARALLEL)
    plan = "\n".join(line for (line,) in session.execute(f"EXPLAIN {query}"))
    assert "Partial" in plan
    assert session.execute(query).fetchall() == serial


@pytest.mark.parametrize(
    "frame", ["ROWS BETWEEN 300 PRECEDING AND CURRENT ROW", "RANGE UNBOUNDED PRECEDING"]
)
@pytest.mark.parametrize("call", ["lift(b, p)", "roc_curve(b, p)", "confusion(l, k)"])
def test_window(pg, scored, call, frame):
    query = f"""
        SELECT * FROM (
            SELECT i, ({call} OVER (PARTITION BY g ORDER BY i {frame}))::text FROM scored
            WHERE i <= 5000 AND g = 1) t
        WHERE i % 40 = 3"""
    rows = pg.execute(query).fetchall()
    assert len(rows) > 5
    for i, found in rows:
        low = i - 300 * 17 if frame.startswith("ROWS") else 0
        plain = f"SELECT {call}::text FROM scored WHERE i BETWEEN %s AND %s AND g = %s"
        assert found == value(pg, plain, low, i, i % 17)


def test_as_rows_by_group(pg, scored):
    query = """
        SELECT g, (point).threshold, (point).tpr, (point).fpr
        FROM (SELECT g, unnest(roc_curve(b, round(p * 3))) AS point FROM scored GROUP BY g) AS t
        WHERE g < 2 ORDER BY 1, 2 DESC"""
    rows = pg.execute(query).fetchall()
    assert [row[:2] for row in rows] == [(g, t) for g in (0, 1) for t in (math.inf, 3, 2, 1, 0)]
    assert [row[2:] for row in rows[::5]] == [(0, 0)] * 2
    assert [row[2:] for row in rows[4::5]] == [(1, 1)] * 2


@pytest.mark.parametrize("kind", ["varchar", "char(3)", "name"])
def test_kinds_of_text(pg, kind):
    query = f"SELECT accuracy('a'::{kind}, 'a'::text), f1_score('a'::{kind}, 'a'::text, 'macro')"
    assert pg.execute(query).fetchone() == (1, 1)


TEXTS = ["text", "varchar(3)", "char(3)", "name", "letter", "other_letter", "letter_domain"]


@pytest.fixture(scope="module")
def letters(pg):
    for name in ("letter", "other_letter"):
        pg.execute(f"CREATE TYPE {name} AS ENUM ('b', 'a')")
    pg.execute("CREATE DOMAIN letter_domain AS letter")


@pytest.mark.parametrize("predicted", [*TEXTS, "uuid"])
@pytest.mark.parametrize("label", TEXTS)
def test_a_named_class_is_one_text_in_every_type(pg, letters, label, predicted):
    """Types of label and prediction are read by themselves: an enum's bytes are no address."""
    other = "6ccd780c-baba-1026-9564-5b8c656024db"
    same = predicted != "uuid"
    rows = f"(VALUES ('a'::{label}, '{'a' if same else other}'::{predicted})) AS t (y, p)"
    for call in ("f1_score(y, p, 'binary', 'a')", "f1_score(p, y, 'binary', 'a')"):
        assert value(pg, f"SELECT {call} FROM {rows}") == same


@pytest.mark.parametrize(
    ("kind", "text"),
    [("date", "2020-01-01"), ("bytea", "a"), ("money", "1"), ("json", "1"), ("int[]", "{1}")],
)
def test_a_named_class_is_of_a_type_that_trains(pg, kind, text):
    """As in DuckDB, and not by a text that depends on settings, such as money's."""
    shown = "integer[]" if kind == "int[]" else kind
    for call in ("auc(y, 0.5, 'a')", "f1_score('a'::text::varchar, y, 'binary', 'a')"):
        with pytest.raises(psycopg.Error) as refused:
            pg.execute(f"SELECT {call} FROM (VALUES ('{text}'::{kind})) AS t (y)")
        what = "label" if call.startswith("auc") else "predicted"
        expected = f"{what} is {shown}, expected a number, a boolean or text"
        assert sentence(refused.value).endswith(expected)


@pytest.mark.parametrize("kind", ["smallint", "bigint", "real", "numeric", "float8"])
def test_kinds_of_numbers(pg, kind):
    query = f"""SELECT f1_score(i::{kind}, 1), (confusion(i::{kind}, i))[2].label,
                       (lift(i::{kind}, 0.5))[1].n,
                       (calibration(i::{kind}, 0.5, 3::smallint))[1].bin
                FROM generate_series(0, 1) AS i"""
    assert pg.execute(query).fetchone() == (pytest.approx(2 / 3), "1", 2, 2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("lift(i, i)", "lift: label is 2, expected a boolean, 0 or 1, or -1 or +1"),
        ("calibration(1, 0.5, i)",
         "calibration: bins is both 1 and 2, expected one number for all rows of a group"),
        ("calibration(1, 0.5, 0)", "calibration: bins is 0, expected 1 to 1000"),
        ("pinball(i, i, i)", "pinball: quantile is 2, expected a number between 0 and 1"),
        ("f1_score('a', 'b')",
         "f1_score: label is text, expected average 'macro', 'weighted' or 'micro', or the "
         "positive class as the fourth argument, such as 'binary', 'yes'"),
        ("f1_score(1, 1, 'mean')",
         "f1_score: average is 'mean', expected 'binary', 'macro', 'weighted' or 'micro'"),
        ("confusion(repeat('x', 999 + i), '')",
         "confusion: label has 1001 bytes, expected at most 1000"),
    ],
)  # fmt: skip
def test_bad_rows(pg, call, text):
    with pytest.raises(psycopg.Error) as raised:
        pg.execute(f"SELECT {call} FROM generate_series(1, 3) AS i")
    assert (raised.value.sqlstate, sentence(raised.value)) == ("22023", text)


def test_what_only_the_workers_together_refuse(connect):
    session = connect()
    session.execute(
        "CREATE TABLE halves AS SELECT -(i / 50000) AS y, (i / 50000) + 1 AS b"
        " FROM generate_series(0, 99999) AS i"
    )
    session.execute(PARALLEL)
    for call, text in (
        ("lift(y, 0.5)", "label holds both 0 and -1"),
        ("f1_score(y, y)", "classes are both 0 and -1"),
        ("calibration(1, 0.5, b)", "bins is both"),
    ):
        with pytest.raises(psycopg.Error, match=text):
            session.execute(f"SELECT {call} FROM halves")
