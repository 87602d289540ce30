"""Answers by the names of classes, of models that come and go between rows."""

# ruff: noqa: E501, SQL is read better on one line

import psycopg
import pytest

ROW = "(SELECT q FROM (SELECT x, z) AS q)"
FEATURES = ["ARRAY[x, z]", "sparse(ARRAY[0, 1], ARRAY[x, z])", ROW]


@pytest.fixture(scope="module")
def db(pg: psycopg.Connection) -> psycopg.Connection:
    pg.execute(
        """CREATE TABLE points AS SELECT i, i % 3 AS g, sin(i) AS x, cos(3.0 * i) AS z,
        CASE WHEN sin(i) + sin(7.0 * i) > 0.4 THEN 'high' WHEN cos(3.0 * i) + sin(11.0 * i) > 0 THEN '7' ELSE 'é"low' END
        || CASE i % 3 WHEN 0 THEN '' WHEN 1 THEN ' one' ELSE ' two' END AS y FROM generate_series(1, 900) AS s(i)"""
    )
    models = ", ".join(
        f"train_model('logistic', y, {x}, '{{\"l2\": 0.01}}') AS m{k}"
        for k, x in enumerate(FEATURES)
    )
    pg.execute(f"CREATE TABLE trained AS SELECT g, {models} FROM points GROUP BY g")
    pg.execute(
        "CREATE TABLE n AS SELECT train_model('logistic', i % 3 - 1, ARRAY[sin(i), cos(i * i)]) AS m "
        "FROM generate_series(1, 90) AS s(i)"
    )
    return pg


JOINED = "points p JOIN trained USING (g)"


@pytest.mark.parametrize(("model", "features"), [(f"m{k}", x) for k, x in enumerate(FEATURES)])
def test_models_alternate(db: psycopg.Connection, model: str, features: str) -> None:
    """Each row has the classes of its own model, and all three functions agree."""
    found = db.execute(
        f"SELECT g, predict_class({model}, {features}), predict_probas({model}, {features}), predict_proba({model}, {features}, y), y, "
        f"({model}).class_names FROM {JOINED} ORDER BY i"
    ).fetchall()
    assert len(found) == 900
    for g, name, shares, own, y, names in found:
        assert set(shares) == set(names)
        assert all(one.endswith(("", " one", " two")[g]) for one in names)
        assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
        assert shares[name] == max(shares.values())
        assert shares[y] == own


@pytest.mark.parametrize(("model", "features"), [(f"m{k}", x) for k, x in enumerate(FEATURES)])
def test_jsonb_is_as_sql_makes_it(db: psycopg.Connection, model: str, features: str) -> None:
    (same,) = db.execute(
        f"""SELECT bool_and(predict_probas({model}, {features}) = made) FROM {JOINED}, LATERAL (
            SELECT jsonb_object_agg(name, predict_proba({model}, {features}, name)) AS made FROM unnest(({model}).class_names) AS name
        ) AS l"""
    ).fetchone()
    assert same


def test_a_class_is_a_name_or_a_number(db: psycopg.Connection) -> None:
    asked = ["1", "'1'", "'1.0'", "'001'", "1::bigint", "1::float8", "1.0", "1.00::numeric"]
    x = "ARRAY[0.3, 0.4]"
    listed = ", ".join(f"predict_proba(m, {x}, {one})" for one in asked)
    row = db.execute(f"SELECT {listed} FROM n").fetchone()
    assert len(set(row)) == 1
    assert 0 < row[0] < 1
    minus = ", ".join(f"predict_proba(m, {x}, {one})" for one in ("-1", "'-1'", "'-01.'", "-1.0"))
    zero = ", ".join(f"predict_proba(m, {x}, {one})" for one in ("0", "'-0'", "'00'", "0.0"))
    for found in (db.execute(f"SELECT {one} FROM n").fetchone() for one in (minus, zero)):
        assert len(set(found)) == 1
    for nothing in ("NULL::text", "NULL::integer"):
        assert db.execute(f"SELECT predict_proba(m, {x}, {nothing}) FROM n").fetchone() == (None,)
    for given in ("''", "'-'", "'1.5'", "'1e'", "'.'", "'0x1'", "7", "1.4"):
        assert db.execute(f"SELECT predict_proba(m, {x}, {given}) FROM n").fetchone() == (None,)


def test_nulls_have_no_answer(db: psycopg.Connection) -> None:
    found = db.execute(
        "SELECT predict_probas(m, NULL::float8[]), predict_proba(m, NULL::float8[], 1), predict_class(m, NULL::float8[]), "
        "predict_probas(NULL::tuskml_model, ARRAY[1.0]), predict_proba(NULL::tuskml_model, ARRAY[1.0], '1') FROM n"
    ).fetchone()
    assert found == (None,) * 5


def test_a_class_per_row(db: psycopg.Connection) -> None:
    """Classes that change from row to row, as a column has them."""
    found = db.execute(
        "SELECT predict_proba(m, ARRAY[0.5, 0], k), predict_probas(m, ARRAY[0.5, 0]), k FROM n, generate_series(-1, 1) AS k, generate_series(1, 4)"
    ).fetchall()
    assert all(shares[str(k)] == share for share, shares, k in found)
    assert len(found) == 12


def test_a_number_is_a_class_of_rows_by_name(db: psycopg.Connection) -> None:
    models = f"SELECT train_model('logistic', g, {ROW}) AS m FROM points"
    asked = ["1", "1::bigint", "1::float8", "1.0", "'1'"]
    listed = ", ".join(f"predict_proba(m, {ROW}, {one})" for one in asked)
    for found in db.execute(f"SELECT {listed} FROM points, ({models}) AS t LIMIT 9").fetchall():
        assert len(set(found)) == 1
        assert 0 < found[0] < 1
