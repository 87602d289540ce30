"""Predictions from rows whose columns the planner sees, as functions of the columns."""

# ruff: noqa: E501, SQL is read better on one line

import psycopg
import pytest
from psycopg import sql

ANSWERS = [
    "predict(m, {})",
    "predict_proba(m, {})",
    "decision(m, {})",
    "predict_class(m, {})",
    "predict_probas(m, {})",
    "predict_proba(m, {}, 'no')",
    "predict_proba(m, {}, i % 2)",
]
COLUMNS = "o.a, o.b, o.c, o.d, o.e, o.f, o.g, o.h"
HIDDEN = f", LATERAL (SELECT {COLUMNS} OFFSET 0) AS r"  # a row that is formed
SHOWN = {
    "lateral": ("r", f", LATERAL (SELECT {COLUMNS}) AS r"),
    "subquery": (f"(SELECT r FROM (SELECT {COLUMNS}) AS r)", ""),
    "table": ("o", ""),
}


@pytest.fixture(scope="module")
def db(pg: psycopg.Connection) -> psycopg.Connection:
    """Columns of all types of features, with NULLs, and one that is none."""
    pg.execute(
        """CREATE TYPE mood AS ENUM ('sad', 'so so', 'glad'); CREATE DOMAIN short AS text;
        CREATE TABLE o AS SELECT i, sin(i)::real AS a, CASE WHEN i % 7 > 0 THEN i % 11 END AS b, nullif('é' || i % 5, 'é3') AS c,
        (ARRAY['sad', 'so so', 'glad'])[1 + i % 3]::mood AS d, DATE '2024-01-01' + i AS e, i % 4 = 0 AS f, ('s' || i % 2)::short AS g,
        rpad('p' || i % 3, 6)::char(6) AS h, jsonb_build_object('i', i) AS extra,
        CASE WHEN sin(i) + cos(7 * i) > 0.2 THEN 'yes' ELSE 'no' END AS y, i % 2 AS z FROM generate_series(1, 400) AS t(i);
        ALTER TABLE o ADD dropped integer; ALTER TABLE o DROP dropped"""
    )
    row = f"(SELECT q FROM (SELECT {COLUMNS}) AS q)"
    trained = f'train_model(\'logistic\', y, {row}, \'{{"l2": 0.01, "missing": "impute"}}\')'
    numbered = f'train_model(\'logistic\', z, {row}, \'{{"l2": 0.01, "missing": "skip"}}\')'
    pg.execute(f"CREATE TABLE named AS SELECT {trained} AS m FROM o")
    pg.execute(f"CREATE TABLE numbered AS SELECT {numbered} AS m FROM o")
    return pg


def plan_of(db: psycopg.Connection, query: str) -> str:
    return "\n".join(line for (line,) in db.execute(f"EXPLAIN (VERBOSE, COSTS OFF) {query}"))


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("form", SHOWN)
def test_answers_are_those_of_a_row(db: psycopg.Connection, answer: str, form: str) -> None:
    """A row that the planner does not see through has the same answers, NULL included."""
    models = "numbered" if "i %" in answer or "predict(m" in answer else "named"
    features, source = SHOWN[form]
    ask = f"SELECT i, {answer.format(features)} FROM o, {models}{source} ORDER BY i"
    formed = f"SELECT i, {answer.format('r')} FROM o, {models}{HIDDEN} ORDER BY i"
    assert "_columns(" in plan_of(db, ask)
    assert "_columns(" not in plan_of(db, formed)
    found = db.execute(ask).fetchall()
    assert found == db.execute(formed).fetchall()
    assert len({str(value) for _, value in found}) > 1
    assert any(value is None for _, value in found) == (models == "numbered")


def test_names_are_matched_by_name(db: psycopg.Connection) -> None:
    """In another order, with others between them, and by other names an error."""
    turned = 'SELECT o.h, o.g, o.extra, o.f, o.e AS "E", o.d, o.c, o.b, o.a'
    asks = [
        f"SELECT i, decision(m, r) FROM o, named, LATERAL ({one}) AS r ORDER BY i"
        for one in (turned, f"SELECT {COLUMNS}")
    ]
    first, second = (db.execute(one).fetchall() for one in asks)
    assert [value for _, value in first] == pytest.approx([value for _, value in second])
    with pytest.raises(
        psycopg.Error, match="no column 'a', which the model was trained on; it has f1, f2"
    ):
        db.execute("SELECT predict(m, ROW(o.a, o.b)) FROM o, numbered")
    with pytest.raises(psycopg.Error, match="column 'b' is of a type that cannot be a feature"):
        db.execute(
            f"SELECT predict(m, r) FROM o, numbered, LATERAL (SELECT {COLUMNS.replace('o.b', 'o.extra AS b')}) AS r"
        )


def test_names_that_a_query_gives_to_the_columns_of_another(db: psycopg.Connection) -> None:
    """As AS r(a, b) does, they are those of the row."""
    names = "b, a, c, d, e, f, g, h"
    row = f"(SELECT r FROM (SELECT {COLUMNS}) AS r({names}))"
    ask = f"SELECT i, decision(m, {row}) FROM o, named ORDER BY i"
    formed = f"SELECT i, decision(m, r) FROM o, named{HIDDEN}({names}) ORDER BY i"
    assert "_columns(" in plan_of(db, ask)
    assert db.execute(ask).fetchall() == db.execute(formed).fetchall()


def test_a_row_that_a_query_computes_once(db: psycopg.Connection) -> None:
    """Volatile columns of a row that depends on no other row are the same for all rows."""
    row = f"(SELECT r FROM (SELECT random() AS a, {COLUMNS.split(',', 1)[1]}) AS r)"
    once = row.replace("o.", "p.").replace("p.b", "1 AS b")
    for name in "cdefgh":
        once = once.replace(f"p.{name}", f"(SELECT {name} FROM o WHERE i = 5) AS {name}")
    found = db.execute(f"SELECT count(DISTINCT decision(m, {once})) FROM o, named").fetchone()
    assert found == (1,)


def test_whole_rows_that_may_be_null(db: psycopg.Connection) -> None:
    """A row that an outer join or grouping sets leave out has no prediction, though gaps are filled."""
    joined = "SELECT k, predict_proba(m, o) FROM named CROSS JOIN generate_series(399, 402) AS k LEFT JOIN o ON i = k ORDER BY k"
    assert [value is None for _, value in db.execute(joined)] == [False, False, True, True]
    sets = "SELECT i, predict_proba(m, o) FROM o, named WHERE i < 3 GROUP BY GROUPING SETS ((i, o, m), (i, m)) ORDER BY i, 2"
    assert [value is None for _, value in db.execute(sets)] == [False, True, False, True]
    whole = "SELECT count(predict_proba(m, o)) FROM o JOIN named ON i > 0"
    assert db.execute(whole).fetchone() == (400,)
    assert "_columns(" in plan_of(db, whole)


def test_subqueries_within_and_without(db: psycopg.Connection) -> None:
    """Columns may be queries, of outer queries and volatile; a query that is no plain row stays."""
    within = COLUMNS.replace("o.b", "(SELECT max(p.b) FROM o AS p WHERE p.i <= o.i) AS b")
    row = f"(SELECT r FROM (SELECT {within}) AS r)"
    nested = f"SELECT (SELECT predict_proba(m, {row}) FROM named) FROM o WHERE i < 20 ORDER BY i"
    formed = f"SELECT predict_proba(m, r) FROM o, named, LATERAL (SELECT {within} OFFSET 0) AS r WHERE i < 20 ORDER BY i"
    assert db.execute(nested).fetchall() == db.execute(formed).fetchall()
    for source in (f"(SELECT {COLUMNS} LIMIT 0)", f"(SELECT {COLUMNS} WHERE o.i > 5)"):
        ask = f"SELECT count(predict_proba(m, (SELECT r FROM {source} AS r))) FROM o, named"
        assert "_columns(" not in plan_of(db, ask)
        assert db.execute(ask).fetchone() == ((0,) if "LIMIT" in source else (395,))


def test_more_columns_than_a_function_has_arguments(db: psycopg.Connection) -> None:
    wide = COLUMNS + "".join(f", {k} AS more{k}" for k in range(100))
    ask = "SELECT i, predict_proba(m, r) FROM o, named, LATERAL (SELECT {}) AS r ORDER BY i"
    assert "_columns(" not in plan_of(db, ask.format(wide))
    assert db.execute(ask.format(wide)).fetchall() == db.execute(ask.format(COLUMNS)).fetchall()


def test_the_right_to_the_function_that_was_called(db: psycopg.Connection) -> None:
    """Who may not call predict_proba gets no answer from what the planner puts in its place."""
    name = sql.SQL("predict_proba(tuskml_model, record)")
    ask = f"SELECT predict_proba(m, r) FROM o, named, LATERAL (SELECT {COLUMNS}) AS r LIMIT 1"
    db.execute("CREATE ROLE nobody_special; GRANT SELECT ON o, named TO nobody_special")
    db.execute(sql.SQL("REVOKE EXECUTE ON FUNCTION {} FROM PUBLIC").format(name))
    try:
        db.execute("SET ROLE nobody_special")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="predict_proba"):
            db.execute(ask)
        db.execute("RESET ROLE")
        assert len(db.execute(ask).fetchall()) == 1
    finally:
        db.execute("RESET ROLE")
        db.execute(sql.SQL("GRANT EXECUTE ON FUNCTION {} TO PUBLIC").format(name))
        db.execute("REVOKE ALL ON o, named FROM nobody_special; DROP ROLE nobody_special")


@pytest.mark.parametrize(
    "arguments",
    [
        "NULL, 1, 2",
        "'{a}', 1, 2",
        "'{a,NULL}', 1, 2",
        "'{}', 1",
        "ARRAY[i::text], i",
        "'{a}', VARIADIC ARRAY[1]",
    ],
)
def test_names_that_are_no_names_of_the_columns(db: psycopg.Connection, arguments: str) -> None:
    with pytest.raises(
        psycopg.errors.InvalidParameterValue, match="are expected as a constant array"
    ):
        db.execute(f"SELECT tuskml._tuskml_predict_columns(m, {arguments}) FROM o, numbered")


def test_rows_of_trainings_are_not_queries(db: psycopg.Connection) -> None:
    """Of _tuskml_row the planner sees the columns, so no query runs for each row; the models are the same."""
    row = f"(SELECT q FROM (SELECT {COLUMNS}) AS q)"
    asks = [
        f'SELECT train_model(\'logistic\', y, {one}, \'{{"l2": 0.01, "missing": "impute"}}\') AS m FROM o'
        for one in (row, f"tuskml._tuskml_row({row})")
    ]
    assert "SubPlan" in plan_of(db, asks[0])
    assert "ROW(a, b, c, d, e, f, g, h)" in plan_of(db, asks[1])
    assert "SubPlan" not in plan_of(db, asks[1])
    found = [
        db.execute(f"SELECT (m).coef, (m).features FROM ({ask}) AS t").fetchone() for ask in asks
    ]
    assert found[0] == found[1]


def test_rows_that_the_planner_does_not_see_through(db: psycopg.Connection) -> None:
    """They stay rows; a NULL stays one, and other values are refused as before."""
    hidden = f"SELECT count(predict(m, tuskml._tuskml_row(r))) FROM o, numbered{HIDDEN}"
    assert db.execute(hidden).fetchone() == (274,)  # those without a NULL
    none = "SELECT predict(m, tuskml._tuskml_row(NULL::record)) FROM numbered"
    assert db.execute(none).fetchone() == (None,)
    volatile = "SELECT tuskml._tuskml_row((SELECT r FROM (SELECT random() AS a) AS r)) IS NULL FROM o LIMIT 1"
    assert db.execute(volatile).fetchone() == (False,)
