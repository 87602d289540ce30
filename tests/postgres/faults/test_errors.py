"""Every bad input gives one clear sentence, a fitting SQLSTATE, and a session that works on.

The inputs and the sentences are those of DuckDB (tests/sql/training/test_errors.py and
test_option_errors.py), in PostgreSQL's spelling; here is what only PostgreSQL can say.
"""

# ruff: noqa: E501, SQL is read better on one line

import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg import sql as quoted

pytestmark = pytest.mark.fault(family="bad input by name")

FOLDER = Path(__file__).parents[2] / "sql" / "training"
CASES = runpy.run_path(str(FOLDER / "test_errors.py"))["CASES"]
OPTIONS = runpy.run_path(str(FOLDER / "test_option_errors.py"))
DUCKDB_ONLY = {
    "model of another version": "a struct stands for a model there",
    "something else than a model": "a struct stands for a model there",
    "id beyond 63 bits": "the id is a double there, and has all its digits in PostgreSQL",
}
PARAMETER, ARRAY, NULL, TYPE, RANGE = "22023", "2202E", "22004", "42804", "22003"
STATES = {
    "NULL task": NULL,
    "ragged rows": ARRAY,
    "no features": ARRAY,
    "ids without values": ARRAY,
    "id that is not whole": RANGE,
    "id that is no number": RANGE,
    "id too large": RANGE,
    "id as text": TYPE,
}
"""SQLSTATEs other than 22023, invalid_parameter_value."""

TABLE_SQL = """
CREATE TABLE t AS SELECT * FROM (VALUES
    (1.0::float8, ARRAY[1, 2]::float8[], ARRAY[0, 1], ARRAY[1, 2]::float8[]), (2, '{2,1}', '{1,0}', '{3,1}'),
    (2, '{4,4.5}', '{0,2}', '{2,1}')) AS v(y, x, ids, amounts)
"""
TYPES = {"DOUBLE": "float8", "FLOAT": "float4"}
WORKS = "SELECT (train_model('linear', y, x)).status IS NOT NULL FROM t"


@pytest.fixture(scope="module", autouse=True)
def table(pg: psycopg.Connection) -> None:
    pg.execute(TABLE_SQL)


def spelled(sql: str) -> str:
    """Lists and names of types as PostgreSQL has them; texts stay as they are."""
    parts = re.split(r"('(?:[^']|'')*')", sql)
    for place in range(0, len(parts), 2):
        lists = re.sub(r"(?<![\w\]])\[", "ARRAY[", parts[place])
        parts[place] = re.sub(r"\b(DOUBLE|FLOAT)\b", lambda name: TYPES[name[0]], lists)
    return "".join(parts)


def train(options: str = "", task: str = "'linear'", label: str = "y", features: str = "x") -> str:
    return f"SELECT train_model({task}, {label}, {features}{options and f', {options}'}) FROM t"


ERROR = '\'{"invalid": "error"}\''
"""The option that makes an invalid row an error."""


def refused(pg: psycopg.Connection, sql: str, parameters: tuple = ()) -> tuple[str, str]:
    """SQLSTATE and sentence; afterwards the same session still trains."""
    with pytest.raises(psycopg.Error) as caught:
        pg.execute(sql, parameters or None)
    assert pg.execute(WORKS).fetchall() == [(True,)]
    told = caught.value.diag
    return told.sqlstate or "", told.message_primary or ""


@pytest.mark.parametrize("name", sorted(CASES.keys() - DUCKDB_ONLY))
def test_bad_input(pg: psycopg.Connection, name: str) -> None:
    sql, expected = CASES[name]
    expected = expected.replace("VARCHAR[]", "text[]")
    assert refused(pg, spelled(sql)) == (STATES.get(name, PARAMETER), expected)


def test_an_id_beyond_63_bits(pg: psycopg.Connection) -> None:
    found = refused(pg, "SELECT sparse(ARRAY[9223372036854775808], ARRAY[1.0])")
    assert found == (
        RANGE,
        "sparse: indices[1] is 9223372036854775808, expected a whole feature id from 0 to "
        "9223372036854775807",
    )


@pytest.mark.parametrize(("task", "name"), OPTIONS["EACH"])
def test_every_option_refuses_a_bad_value(pg: psycopg.Connection, task: str, name: str) -> None:
    invalid = OPTIONS["INVALID"] | OPTIONS["OF_OTHERS"].get(task, {})
    given, allowed = invalid[name]
    expected = f"train_model: option '{name}' is {json.dumps(given)}, expected {allowed}"
    rows = map(spelled, OPTIONS["ROWS_OF"].get(task, ()))
    found = refused(pg, train("%s::text", f"'{task}'", *rows), (json.dumps({name: given}),))
    assert found == (PARAMETER, expected)


def test_long_options_give_a_short_sentence(pg: psycopg.Connection) -> None:
    for options in (
        json.dumps({"algorithm": "x" * 5000}),
        json.dumps({"日" * 5000: 1}),
        " " * 70000 + "{}",
        "[" * 50000,
    ):
        state, sentence = refused(pg, train("%s::text"), (options,))
        assert state == PARAMETER
        assert sentence.startswith("train_model: ")
        assert len(sentence) < 800
        assert "\n" not in sentence


ONLY_HERE = {
    "text features": (
        train(features="ARRAY['a', 'b']"), TYPE,
        "train_model: features is text[], expected an array of real, double precision, integer or numeric",
    ),
    "boolean features": (
        train(features="ARRAY[true, false]"), TYPE,
        "train_model: features is boolean[], expected an array of real, double precision, integer or numeric",
    ),
    "dates as features": (
        train(features="ARRAY[current_date]"), TYPE,
        "train_model: features is date[], expected an array of real, double precision, integer or numeric",
    ),
    "a table of features": (
        train(features="ARRAY[x, x]"), ARRAY,
        "train_model: features has 2 dimensions, expected a list of numbers",
    ),
    "date label": (
        train(label="current_date"), TYPE,
        "train_model: label is date, expected a number, a boolean or text",
    ),
    "NaN numeric feature": (
        train(ERROR, features="ARRAY[1, 'nan'::numeric]"), PARAMETER,
        "train_model: feature 2 is NaN in row 1 of the group, expected a finite number (NULL skips a row)",
    ),
    "NaN numeric label": (
        train(ERROR, label="'nan'::numeric"), PARAMETER,
        "train_model: label is NaN in row 1 of the group, expected a finite number (NULL skips a row)",
    ),
    "numeric beyond a double": (
        train(features="ARRAY[1, ('1' || repeat('0', 400))::numeric]"), "22003",
        '"1' + "0" * 400 + '" is out of range for type double precision',
    ),
    "too wide": (
        train(ERROR, features="array_fill(1::float8, ARRAY[1000001])"), "54000",
        "train_model: row 1 of the group has 1000001 features, at most 1000000 are allowed",
    ),
    "a number as options": (
        train("5"), TYPE,
        "train_model: options is integer, expected an object of JSON as text, json or jsonb",
    ),
    "NULL task to explain": (
        "SELECT explain_training(NULL, y, x) FROM t", NULL,
        "explain_training: task is NULL, expected the name of one, such as 'linear' or 'logistic'",
    ),
    "a table of ids": (
        train(features="sparse(ARRAY[ids, ids], amounts)"), ARRAY,
        "sparse: indices has 2 dimensions, expected a list of numbers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONLY_HERE)
def test_bad_input_of_postgres(pg: psycopg.Connection, name: str) -> None:
    sql, state, expected = ONLY_HERE[name]
    assert refused(pg, sql) == (state, expected)


@pytest.mark.parametrize("expression", [
    "train_model('linear', y)", "train_model(1, y, x)", "predict(y, x)", "train_model()",
])  # fmt: skip
def test_wrong_types_are_refused_when_the_query_is_analysed(
    pg: psycopg.Connection, expression: str
) -> None:
    state, sentence = refused(pg, f"SELECT {expression} FROM t")
    assert state == "42883"
    assert sentence.startswith("function ")


def test_null_options_are_no_options(pg: psycopg.Connection) -> None:
    assert pg.execute(f"SELECT (m).n_rows FROM ({train('NULL')}) AS s(m)").fetchall() == [(3,)]


def test_the_group_with_the_error_is_counted_alone(pg: psycopg.Connection) -> None:
    rows = "SELECT i % 10 AS g, i / 10 AS i FROM generate_series(0, 999) AS i"
    sql = f"SELECT g, train_model('linear', i, ARRAY[i, CASE WHEN g = 3 AND i = 42 THEN 'nan' ELSE 1.0 END], {ERROR}) FROM ({rows}) AS r GROUP BY g"
    assert "feature 2 is NaN in row 43 of the group" in refused(pg, sql)[1]


BAD = {
    "transition": (train(ERROR, features="ARRAY['nan'::float8]"), "feature 1 is NaN"),
    "training": (train("'{\"l2\": -1}'"), "option 'l2' is -1"),
    "explanation": ("SELECT explain_training('svn', y, x) FROM t", "did you mean 'svm'"),
}


@pytest.mark.parametrize("where", BAD)
def test_rollback_to_savepoint(pg: psycopg.Connection, where: str) -> None:
    sql, expected = BAD[where]
    with pg.transaction():
        pg.execute("CREATE TEMP TABLE kept AS SELECT train_model('linear', y, x) AS m FROM t")
        for _ in range(3):
            pg.execute("SAVEPOINT s")
            with pytest.raises(psycopg.Error, match=expected):
                pg.execute(sql)
            with pytest.raises(psycopg.errors.InFailedSqlTransaction):
                pg.execute(WORKS)
            pg.execute("ROLLBACK TO SAVEPOINT s")
            pg.execute(WORKS)
        pg.execute("INSERT INTO kept SELECT train_model('linear', y, x) FROM t")
    assert pg.execute("SELECT (m).n_rows FROM kept").fetchall() == [(3,), (3,)]
    pg.execute("DROP TABLE kept")


@pytest.mark.parametrize("where", BAD)
def test_exception_block(pg: psycopg.Connection, where: str) -> None:
    sql, expected = BAD[where]
    pg.execute(f"""CREATE FUNCTION attempt() RETURNS text LANGUAGE plpgsql AS $$
        DECLARE told text; state text; good integer := 0;
        BEGIN
            FOR k IN 1..20 LOOP
                BEGIN
                    EXECUTE {quoted.Literal(sql).as_string(pg)};
                EXCEPTION WHEN invalid_parameter_value THEN
                    GET STACKED DIAGNOSTICS told = MESSAGE_TEXT, state = RETURNED_SQLSTATE;
                END;
                good := good + (SELECT (train_model('linear', y, x)).n_rows FROM t);
            END LOOP;
            RETURN good || ' ' || state || ' ' || told;
        END $$""")
    found = pg.execute("SELECT attempt()").fetchone()
    assert found is not None
    assert found[0].startswith("60 22023 ")
    assert expected in found[0]
    pg.execute("DROP FUNCTION attempt")


def test_an_error_leaves_the_transaction_to_the_caller(pg: psycopg.Connection) -> None:
    pg.execute("BEGIN; CREATE TABLE gone AS SELECT 1")
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        pg.execute(train("'{\"l2\": -1}'"))
    pg.execute("ROLLBACK")
    assert pg.execute("SELECT to_regclass('gone')").fetchone() == (None,)


def test_an_error_in_a_parallel_worker(pg: psycopg.Connection) -> None:
    pg.execute(
        "CREATE TABLE many AS SELECT i AS y, ARRAY[i, CASE WHEN i = 4000 THEN 'nan' ELSE 1.0 END]::float8[] AS x FROM generate_series(1, 5000) AS i"
    )
    for name in ("min_parallel_table_scan_size", "parallel_setup_cost", "parallel_tuple_cost"):
        pg.execute(f"SET {name} = 0")
    pg.execute("SET parallel_leader_participation = off")
    state, sentence = refused(pg, f"SELECT train_model('linear', y, x, {ERROR}) FROM many")
    assert state == PARAMETER
    assert sentence.startswith("train_model: feature 2 is NaN in row ")
    pg.execute("RESET ALL; DROP TABLE many")


def test_the_first_statement_of_a_session_may_fail(
    connect: Callable[..., psycopg.Connection],
) -> None:
    assert refused(connect(), train(task="'nothing'"))[0] == PARAMETER


def test_context_is_short(pg: psycopg.Connection) -> None:
    """No traceback of Python, nothing about the helper."""
    with pytest.raises(psycopg.Error) as caught:
        pg.execute(train("'{\"l2\": -1}'"))
    assert caught.value.diag.context is None
    assert caught.value.diag.message_detail is None
