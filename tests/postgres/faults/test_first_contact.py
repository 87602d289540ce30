"""Calls that PostgreSQL would answer with "function does not exist": one sentence with a SQLSTATE."""

# ruff: noqa: E501, SQL is read better on one line

import psycopg
import pytest
from sessions import Connect

import tuskml
from tuskml import DataError

ROWS = "CREATE TABLE t AS SELECT i::float8 AS x, i % 7 AS z, i % 2 = 0 AS b, 'w' || i % 3 AS word, 'a' AS late FROM generate_series(0, 99) AS g(i)"
MODEL = "(SELECT train_model('linear', x, ARRAY[z]) FROM t)"
TYPE = "42804"


@pytest.fixture(scope="module", autouse=True)
def table(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)


def refused(pg: psycopg.Connection, sql: str) -> tuple[str, str]:
    with pytest.raises(psycopg.Error) as caught:
        pg.execute(sql)
    return caught.value.diag.sqlstate or "", caught.value.diag.message_primary or ""


FEATURES = "the features a row with names, an array of numbers such as ARRAY[a, b] or sparse(indices, values)"
NO_TEXT = "; text becomes features in a row with names, or by hash_features"
TRAINING = f"(task, label, features [, options [, weight [, offset]]]): the label a number, a boolean or text, {FEATURES}, the options JSON as text, weight and offset numbers{NO_TEXT}"
TRAININGS = {
    "'linear', x, z": "text, double precision, double precision",
    "'linear', x, word": "text, double precision, text",
    "'linear', b, b": "text, boolean, boolean",
    "'linear', x, now()": "text, double precision, timestamp with time zone",
    "'linear', x, z, '{}'": "text, double precision, double precision, text",
    "'linear', x, to_jsonb(ARRAY[z])": "text, double precision, jsonb",
}


@pytest.mark.parametrize("name", ["train_model", "explain_training"])
@pytest.mark.parametrize("given", TRAININGS)
def test_features_that_are_no_array(pg: psycopg.Connection, name: str, given: str) -> None:
    expected = f"{name} got ({TRAININGS[given]}), expected {TRAINING}"
    assert refused(pg, f"SELECT {name}({given}) FROM t") == (TYPE, expected)


def test_features_that_are_no_array_but_null(pg: psycopg.Connection) -> None:
    assert pg.execute("SELECT train_model('linear', x, NULL::int) FROM t").fetchall() == [(None,)]


PREDICTIONS = {
    f"{MODEL}, 1": ("tuskml_model, double precision", "(model, features)"),
    f"{MODEL}, 'a'::text": ("tuskml_model, text", "(model, features)"),
    f"{MODEL}, x, z": ("tuskml_model, double precision, integer", "(model, features)"),
    f"{MODEL}, 1, 2, 'a'": ("tuskml_model, integer, integer, text", "(model, features)"),
    f"{MODEL}, ARRAY[1], ARRAY[2]": ("tuskml_model, integer[], integer[]", "(model, features)"),
    "'late', 1": ("text, double precision", "(name, features) or (name, group as text, features)"),
    "'late', 7, ARRAY[1]": ("text, integer, integer[]", "(name, features) or (name, group as text, features)"),
    "late, x, z": ("text, double precision, integer", "(name, features) or (name, group as text, features)"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["predict", "predict_proba", "decision"])
@pytest.mark.parametrize("given", PREDICTIONS)
def test_predictions(pg: psycopg.Connection, name: str, given: str) -> None:
    types, arguments = PREDICTIONS[given]
    expected = f"{name} got ({types}), expected {arguments}: {FEATURES}{NO_TEXT}"
    assert refused(pg, f"SELECT {name}({given}) FROM t") == (TYPE, expected)


VALID = (
    "predict({m}, ARRAY[z])",
    "predict({m}, ARRAY[z::real])",
    "predict({m}, ARRAY[1.5])",
    "predict({m}, sparse(ARRAY[0], ARRAY[z]))",
    "predict({m}, sparse(ARRAY[0], ARRAY[z::real]))",
)
BY_NAME = (
    "predict('late', ARRAY[z])",
    "predict(late, ARRAY[z])",
    "predict('late', 'a', ARRAY[z])",
    "predict('late', late, ARRAY[z])",
    "predict(late, late, sparse(ARRAY[0], ARRAY[z]))",
)


def test_valid_calls_go_where_they_went(pg: psycopg.Connection) -> None:
    """An overload for anything must not take, nor make ambiguous, what another one takes."""
    for call in VALID:
        ((n,),) = pg.execute(
            f"SELECT count({call.format(m='m')}) FROM t, {MODEL} AS s(m)"
        ).fetchall()
        assert n == 100, call
    for call in BY_NAME:
        assert refused(pg, f"SELECT {call} FROM t")[0] == "42P01", "by name: there is no registry"


def test_why_p_values_are_missing(pg: psycopg.Connection) -> None:
    found = pg.execute(
        f"SELECT term, p_value IS NULL, note FROM model_summary({MODEL})"
    ).fetchall()
    assert found == [("intercept", False, None), ("x1", False, None)]
    query = "SELECT DISTINCT note FROM model_summary((SELECT train_model('linear', x, ARRAY[z], '{\"l2\": 1}') FROM t))"
    assert pg.execute(query).fetchall() == [
        ("no standard errors: the model has a penalty, train it without l1 and l2",)
    ]


def test_who_may_not_train_hears_of_the_role(pg: psycopg.Connection, connect: Connect) -> None:
    pg.execute("CREATE ROLE carol LOGIN; GRANT SELECT ON t TO carol")
    session = connect(user="carol")
    try:
        with pytest.raises(
            DataError,
            match=r"permission denied for .*train_model: training needs the role tuskml_user, GRANT tuskml_user TO the role",
        ):
            tuskml.train(session, "linear", source="t", label="x", features=["z"])
        pg.execute("GRANT tuskml_user TO carol")
        assert tuskml.train(session, "linear", source="t", label="x", features=["z"]).n_rows == 100
    finally:
        session.close()
        pg.execute("DROP OWNED BY carol; DROP ROLE carol")


INTO = """
DO $$
DECLARE
    wrong tuskml_model;
    assigned tuskml_model;
    fields tuskml_model;
BEGIN
    SELECT train_model('linear', x, ARRAY[z]) INTO wrong FROM t;
    assigned := (SELECT train_model('linear', x, ARRAY[z]) FROM t);
    SELECT (train_model('linear', x, ARRAY[z])).* INTO fields FROM t;
    CREATE TEMP TABLE found AS SELECT wrong.n_rows AS w, assigned.n_rows AS a, fields.n_rows AS f;
END
$$
"""


def test_a_model_in_a_variable_of_plpgsql(pg: psycopg.Connection) -> None:
    """PL/pgSQL spreads a row of one column over the variable's fields, of what type it is."""
    try:
        pg.execute(INTO)
    except psycopg.Error as error:
        pytest.fail(f"what the manual shows: {error}")
    assert pg.execute("SELECT a, f, w IS NULL FROM found").fetchall() == [(100, 100, True)]
