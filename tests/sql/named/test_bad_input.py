"""What no training by name can use, in both databases: a sentence or a status, and no row is lost."""

# ruff: noqa: E501, SQL is read better on one line

import json
import os
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

pytestmark = pytest.mark.fault(family="bad input by name")

ROWS = """
CREATE {temp} TABLE t AS SELECT CAST(i AS INTEGER) AS i, CAST(i % 7 AS DOUBLE PRECISION) AS a,
CASE i % 3 WHEN 0 THEN 'x' WHEN 1 THEN 'y' ELSE 'z' END AS c, CAST(i % 2 AS INTEGER) AS y
FROM generate_series(0, 199) AS s(i)
"""
ERRORS = (duckdb.Error, psycopg.Error)
MODEL = ("status", "n_rows", "n_skipped", "coef", "features", "class_names", "intercept")
ERROR = '{"invalid": "error"}'
EXPECTED = "expected a number, a date, a timestamp, a time, an interval, text"


class Database:
    """One of both databases with the same rows."""

    def __init__(self, name: str, session: Any) -> None:
        self.name, self.session = name, session
        session.execute(ROWS.format(temp="TEMP" if name == "post" else ""))

    def row(self, **columns: str) -> str:
        """A row with names."""
        if self.name == "duck":
            return "{" + ", ".join(f"'{name}': {sql}" for name, sql in columns.items()) + "}"
        listed = ", ".join(f'{sql} AS "{name}"' for name, sql in columns.items())
        return f"(SELECT q FROM (SELECT {listed}) AS q)"

    def train(
        self, row: str, label: str = "y", weight: str = "", task: str = "logistic", **options: Any
    ) -> Any:
        """Some fields of the model, or None."""
        fields = ", ".join(f"(m).{field}" for field in MODEL)
        more = f", {weight}" if weight else ""
        call = f"train_model('{task}', {label}, {row}, '{json.dumps(options)}'{more})"
        (found,) = self.session.execute(
            f"SELECT m IS NULL, {fields} FROM (SELECT {call} AS m FROM t) AS f"
        ).fetchall()
        return None if found[0] else dict(zip(MODEL, found[1:], strict=True))

    def refusal(self, *given: Any, **more: Any) -> str:
        """The sentence that a training ends with; the session goes on."""
        with pytest.raises(ERRORS) as caught:
            self.train(*given, **{"invalid": "error"} | more)
        assert self.session.execute("SELECT count(*) FROM t").fetchall() == [(200,)]
        message = str(caught.value).splitlines()[0]
        return message[message.index("train_model: ") :]


@pytest.fixture
def db(session: tuple[str, Any]) -> Database:
    return Database(*session)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("CAST('12:00:00+01' AS TIMETZ)", "time with"),
        ("ARRAY[1, 2]", "integer["),
        ({"duck": "'a'::BLOB", "post": "'a'::bytea"}, "b"),
        ({"duck": "{'u': 1}", "post": "'{}'::jsonb"}, ""),
    ],
)
def test_a_type_that_cannot_be_a_feature(db: Database, sql: Any, kind: str) -> None:
    given = sql if isinstance(sql, str) else sql[db.name]
    found = db.refusal(db.row(a="a", c=given))
    assert found.lower().startswith(f"train_model: column 'c' is {kind}")
    assert EXPECTED in found


def test_names_that_differ_in_case_only(db: Database) -> None:
    """DuckDB makes no such row."""
    row = db.row(a="a", A="i")
    if db.name == "duck":
        with pytest.raises(duckdb.BinderException, match='Duplicate named argument "A"'):
            db.train(row)
        return
    assert db.refusal(row) == (
        "train_model: columns 'a' and 'A' have the same name but for case, expected different names"
    )


def test_a_row_whose_names_differ_in_case_only_is_not_guessed_at(post: Any) -> None:
    db = Database("post", post)
    model = f"(SELECT train_model('linear', y, {db.row(ab='a')}) FROM t)"
    both = db.row(AB="1.0", Ab="2.0")
    with pytest.raises(
        psycopg.Error, match="the row has columns 'AB' and 'Ab', expected one that is called 'ab'"
    ):
        db.session.execute(f"SELECT predict({model}, {both})")
    exact = db.row(AB="1.0", ab="2.0")
    alone = db.row(AB="2.0")
    (found,) = db.session.execute(
        f"SELECT predict({model}, {exact}), predict({model}, {alone})"
    ).fetchall()
    assert found[0] == found[1]


@pytest.mark.parametrize("label", ["1", "'yes'", "true"])
def test_a_label_of_one_class_is_a_status(db: Database, label: str) -> None:
    label = label if db.name == "duck" or label != "'yes'" else "'yes'::text"
    model = db.train(db.row(a="a", c="c"), label)
    assert (model["status"], model["n_rows"]) == ("one class", 200)


@pytest.mark.parametrize("label", ["y", "CAST(NULL AS INTEGER)"])
def test_all_null_has_no_model(db: Database, label: str) -> None:
    numbers = "CAST(NULL AS DOUBLE PRECISION)"
    text = {"duck": "NULL::VARCHAR", "post": "NULL::text"}[db.name]
    row = db.row(a="a", c="c") if label != "y" else db.row(a=numbers, c=text)
    assert db.train(row, label) is None


@pytest.mark.parametrize("missing", ["level", "impute"])
def test_all_null_that_is_filled_is_constant(db: Database, missing: str) -> None:
    text = {"duck": "NULL::VARCHAR", "post": "NULL::text"}[db.name]
    model = db.train(db.row(a="CAST(NULL AS DOUBLE PRECISION)", c=text), missing=missing)
    assert (model["status"], model["n_rows"], model["n_skipped"]) == ("constant feature", 200, 0)


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("-1", "-1"),
        ("CAST('NaN' AS DOUBLE PRECISION)", "NaN"),
        ("CAST('Infinity' AS DOUBLE PRECISION)", "infinity"),
    ],
)
def test_weights_that_are_none(db: Database, sql: str, shown: str) -> None:
    found = db.refusal(db.row(a="a", c="c"), weight=f"CASE WHEN i = 7 THEN {sql} ELSE 1 END")
    assert found.startswith(
        f"train_model: weight is {shown} in row 8 of the group, expected a finite number of at least 0"
    )


def test_weights_of_0_are_no_rows(db: Database) -> None:
    assert db.train(db.row(a="a", c="c"), weight="0") is None


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_not_finite(db: Database, value: str) -> None:
    found = db.refusal(
        db.row(a=f"CASE WHEN i = 4 THEN CAST('{value}' AS DOUBLE PRECISION) ELSE a END", c="c")
    )
    assert found.startswith("train_model: column 'a' is ")
    assert "in row 5 of the group, expected a finite number" in found


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP"])
@pytest.mark.parametrize("value", ["infinity", "-infinity"])
def test_dates_that_are_not_finite(db: Database, kind: str, value: str) -> None:
    """In DuckDB they are the ends of the type."""
    found = db.refusal(db.row(a="a", d=f"CAST('{value}' AS {kind})"))
    assert (
        found
        == f"train_model: column 'd' is {value} in row 1 of the group, expected a finite number"
    )


def test_a_category_of_a_megabyte(db: Database) -> None:
    long = "CASE WHEN i = 3 THEN repeat('ab', 500000) ELSE c END"
    assert db.refusal(db.row(a="a", c=long)) == (
        "train_model: column 'c' has a text of 1000000 bytes in row 4 of the group, expected at most 65535"
    )
    assert db.refusal(db.row(a="a"), long).startswith(
        "train_model: label has a text of 1000000 bytes in row 4"
    )
    kept = db.train(db.row(a="a", c=long.replace("500000", "32767")), l2=1)
    assert max(map(len, kept["features"])) == 65534 + len("c[]")


@pytest.mark.nightly
@pytest.mark.parametrize("n", [300_000, pytest.param(10_000_000, marks=pytest.mark.nightly)])
def test_too_many_distinct_values(db: Database, n: int) -> None:
    """Their texts alone take 16 bytes each."""
    source = (
        f"(SELECT CAST(i AS INTEGER) AS i, i % 2 AS y FROM generate_series(1, {n}) AS r(i)) AS s"
    )
    row = db.row(a="CAST(i % 7 AS DOUBLE PRECISION)", c="'user-' || CAST(i AS VARCHAR(10))")
    db.train(db.row(a="a", c="c"))  # which imports what a training needs
    before = memory(db)
    with pytest.raises(ERRORS) as caught:
        db.session.execute(f"SELECT train_model('logistic', y, {row}, '{ERROR}') FROM {source}")
    assert (
        f"train_model: column 'c' has {n} distinct values in a group, at most 100000 are allowed: "
        "give option 'max_categories' or 'min_count', or leave it out"
    ) in str(caught.value)
    assert memory(db) - before < 200 * n + (64 << 20)


def memory(db: Database) -> int:
    """The most bytes that the process of the database has had in memory."""
    pid = os.getpid() if db.name == "duck" else db.session.info.backend_pid
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_a_category_of_a_megabyte_is_unseen(db: Database) -> None:
    """Predictions may meet any text."""
    model = f"(SELECT train_model('linear', y, {db.row(a='a', c='c')}) FROM t)"
    rows = [db.row(a="1.0", c=c) for c in ("repeat('ab', 500000)", "'never'", "'x'")]
    asked = ", ".join(f"predict({model}, {row})" for row in rows)
    ((long, unseen, _),) = db.session.execute(f"SELECT {asked}").fetchall()
    assert long == unseen


def test_a_character_of_code_0(con: duckdb.DuckDBPyConnection) -> None:
    """PostgreSQL has no such texts."""
    db = Database("duck", con)
    assert db.refusal(db.row(a="a", c="c || chr(0) || 'b'")) == (
        "train_model: column 'c' has a character of code 0 in row 1 of the group, expected none"
    )
    assert db.refusal(db.row(a="a"), "c || chr(0)") == (
        "train_model: label has a character of code 0 in row 1 of the group, expected none"
    )


def test_a_row_without_columns_or_names(db: Database) -> None:
    if db.name == "duck":
        assert "the features are a row without names" in db.refusal("row(a, c)")
        assert "has no features" in db.refusal("struct_pack()")
        return
    assert db.train("row(a, c)")["features"] == ["f1", "f2[y]", "f2[z]"]
    assert "the features are a row without columns" in db.refusal("row()")
