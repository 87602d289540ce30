"""Labels and features of every type, NULL among them."""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Callable

import psycopg
import pytest
from queries import (
    EXACT,
    LINEAR,
    ROWS,
    by_group,
    counted,
    fetch,
    least_squares,
    model,
    one,
    weights,
)


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE rows")


@pytest.mark.parametrize(
    "label", ["boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric"]
)
def test_labels(pg: psycopg.Connection, label: str) -> None:
    usual = model(pg, f"SELECT train_model('logistic', positive, x, {EXACT}) FROM rows")
    cast = (
        "positive" if label == "boolean" else f"(CASE WHEN positive THEN 3 ELSE -4 END)::{label}"
    )
    found = model(pg, f"SELECT train_model('logistic', {cast}, x, {EXACT}) FROM rows")
    assert found["classes"] == ([0, 1] if label == "boolean" else [-4, 3])
    assert weights(found) == pytest.approx(weights(usual), rel=1e-9)


@pytest.mark.parametrize(
    "features", ["real", "double precision", "smallint", "integer", "bigint", "numeric"]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_features(pg: psycopg.Connection, features: str, sparse: bool) -> None:
    array = f"ARRAY[i % 50, i % 31 - 15]::{features}[]"
    given = f"sparse(ARRAY[0, 1], {array})" if sparse else array
    found = model(
        pg, f"SELECT train_model('linear', 2 * (i % 50) + i % 31, {given}, {EXACT}) FROM rows"
    )
    usual = model(
        pg,
        f"SELECT train_model('linear', 2 * (i % 50) + i % 31, {given.replace(features, 'float8')}, {EXACT}) FROM rows",
    )
    assert weights(found) == pytest.approx(weights(usual), rel=1e-9)
    assert found["n_rows"] == 6000


def test_array_with_other_bounds(pg: psycopg.Connection) -> None:
    """Features are counted from one, whatever SQL counts them from."""
    found = model(
        pg, f"SELECT train_model('linear', y, ('[0:1]=' || x::text)::float8[], {EXACT}) FROM rows"
    )
    assert counted([(found,)]) == counted([(model(pg, f"SELECT {LINEAR} FROM rows"),)])


@pytest.mark.parametrize("storage", ["EXTERNAL", "EXTENDED", "MAIN"])
def test_wide_arrays_out_of_line(pg: psycopg.Connection, storage: str) -> None:
    pg.execute("CREATE TABLE wide (y float8, x float8[])")
    pg.execute(f"ALTER TABLE wide ALTER x SET STORAGE {storage}")
    pg.execute("""INSERT INTO wide SELECT i % 5, (SELECT array_agg(CASE WHEN k = 1 THEN i % 5 ELSE (i * k) % 7 END::float8)
                                              FROM generate_series(1, 3000) AS k) FROM generate_series(1, 60) AS i""")
    assert one(pg, "SELECT pg_table_size('wide') > 8192 * 4") or storage != "EXTERNAL"
    found = model(pg, "SELECT train_model('linear', y, x, '{\"l2\": 0.001}') FROM wide")
    assert (found["n_features"], found["n_rows"], len(found["coef"])) == (3000, 60, 3000)
    assert found["loss"] < 0.1
    pg.execute("DROP TABLE wide")


def test_nulls_are_skipped_and_counted(pg: psycopg.Connection) -> None:
    sql = """SELECT train_model('linear', CASE WHEN i % 5 > 0 THEN y END,
                                CASE WHEN i % 7 = 0 THEN NULL WHEN i % 7 = 1 THEN ARRAY[a, NULL] ELSE x END) FROM rows"""
    found = model(pg, sql)
    used = "i % 5 > 0 AND i % 7 > 1"
    assert found["n_rows"] == one(pg, f"SELECT count(*) FROM rows WHERE {used}")
    assert found["n_rows"] + found["n_skipped"] == 6000
    assert weights(found) == pytest.approx(least_squares(pg, used), rel=1e-9)


@pytest.mark.parametrize("features", [
    "sparse(NULL::int[], x)", "sparse(ARRAY[0, 1], NULL::float8[])", "sparse(ARRAY[0, NULL], x)", "sparse(ARRAY[0, 1], ARRAY[a, NULL])",
    "CASE WHEN i < 0 THEN sparse(ARRAY[0, 1], x) END",
])  # fmt: skip
def test_nulls_of_sparse_rows(pg: psycopg.Connection, features: str) -> None:
    call = (
        f"train_model('linear', y, CASE WHEN even THEN sparse(ARRAY[0, 1], x) ELSE {features} END)"
    )
    found = model(pg, f"SELECT {call} FROM rows")
    assert (found["n_rows"], found["n_skipped"]) == (3000, 3000)
    assert weights(found) == pytest.approx(least_squares(pg, "even"), rel=1e-6)


def test_groups_without_usable_rows(pg: psycopg.Connection) -> None:
    found = by_group(pg, "train_model('linear', CASE WHEN g > 2 THEN y END, x)")
    assert [m is None for _, m in found] == [True] * 3 + [False] * 4


def test_no_features_of_an_empty_sparse_row(pg: psycopg.Connection) -> None:
    """Rows in which nothing occurs are rows."""
    found = model(
        pg,
        "SELECT train_model('linear', i % 3, sparse(ARRAY[]::int[], ARRAY[]::float8[])) FROM rows",
    )
    assert found["n_rows"] == 6000
    assert found["intercept"] == pytest.approx(1.0)


def test_explain_training(
    pg: psycopg.Connection, connect: Callable[..., psycopg.Connection]
) -> None:
    text = one(pg, "SELECT explain_training('linear', y, x, '{\"threads\": 1}') FROM rows")
    assert "newton" in text
    by_groups = fetch(pg, "SELECT g, explain_training('linear', y, x) FROM rows GROUP BY g")
    assert len(by_groups) == 7
    again = one(connect(), "SELECT explain_training('linear', y, x, '{\"threads\": 1}') FROM rows")
    assert without_reading(again) == without_reading(text)


def without_reading(text: str) -> list[str]:
    """An explanation's lines but for the seconds that reading took."""
    return [line for line in text.splitlines() if not line.startswith("  reading ")]
