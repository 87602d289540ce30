"""Rows of many groups in random order give the models of the same rows sorted by group."""

import duckdb
import pytest

import tuskml

ROW = "{'x': x, 'few': few, 'many': many, 'long': long, 'gap': gap}"


def table(con: duckdb.DuckDBPyConnection, name: str, salt: str) -> None:
    """20 groups; columns of 40, 700, 30 levels, texts of up to 200 characters, NULLs and ''."""
    con.execute(
        f"CREATE OR REPLACE TABLE {name} AS SELECT i, hash(i, 'g') % 20 AS g, "
        "(hash(i, 'x') % 1000) / 1000 AS x, (hash(i, 'y') % 100)::DOUBLE AS y, "
        f"'{salt}' || hash(i, 'few') % 40 AS few, '{salt}' || hash(i, 'many') % 700 AS many, "
        "repeat('ab', (hash(i, 'long') % 30)::INT * 3) || '-' AS long, "
        "CASE WHEN i % 7 = 0 THEN NULL WHEN i % 5 = 0 THEN '' ELSE 'g' || i % 9 END AS gap "
        "FROM range(16000) t(i)"
    )


def trained(con: duckdb.DuckDBPyConnection, table: str) -> list[tuple]:
    options = '{"l2": 0.1, "missing": "level", "max_categories": 2000}'
    call = f"train_model('linear', y, {ROW}, '{options}')"
    return con.execute(
        f"SELECT g, m.coef, m.intercept, m.n_rows, m.status FROM "
        f"(SELECT g, {call} AS m FROM {table} GROUP BY g) ORDER BY g"
    ).fetchall()


@pytest.mark.parametrize("threads", [2, pytest.param(1, marks=pytest.mark.nightly)])
def test_scattered_rows_give_the_models_of_sorted_rows(threads: int) -> None:
    """Statement after statement, with other texts in between."""
    con = tuskml.connect(threads=threads)
    for salt in ("a", "level ", "a"):
        table(con, "t", salt)
        found = trained(con, "t")
        con.execute("CREATE OR REPLACE TABLE s AS FROM t ORDER BY g, i")
        wanted = trained(con, "s")
        assert len(found) == 20
        assert (
            len(found[0][1]) > 150
        )  # all groups together have more levels than there are numbers
        for one, other in zip(found, wanted, strict=True):
            assert (one[0], *one[3:]) == (other[0], *other[3:])
            assert one[1] == pytest.approx(other[1], rel=1e-9, abs=1e-9)
            assert one[2] == pytest.approx(other[2], rel=1e-9)
