"""Databases, cursors, files and transactions in which models are trained."""

# ruff: noqa: E501, SQL is read better on one line

import itertools
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import tuskml

sys.path.append(str(Path(__file__).parent))

from asking import ROWS, one


def test_two_databases(con: duckdb.DuckDBPyConnection) -> None:
    with tuskml.connect(threads=1) as other:
        for db, slope in itertools.product((con, other), (2,)):
            assert one(
                db, f"SELECT train_model('linear', {slope} * x, [x]).coef[1] FROM range(9) t(x)"
            ) == pytest.approx(slope)
        other.execute("SET memory_limit = '1GB'")
        tuskml.load(other)
        assert (
            one(other, "SELECT tuskml_memory()")["budget"]
            < one(con, "SELECT tuskml_memory()")["budget"]
        )
    assert one(con, "SELECT train_model('linear', 2 * x, [x]).n_rows FROM range(9) t(x)") == 9


def test_cursors(con: duckdb.DuckDBPyConnection) -> None:
    con.execute(ROWS.format(n=100))
    cursor = con.cursor()
    model = one(cursor, "SELECT train_model('linear', y, [a, b]) FROM rows")
    assert one(cursor, "SELECT predict(?, [0.5, 0.5])", (model,)) == pytest.approx(1.5, abs=0.1)


def test_cursors_of_a_file(tmp_path) -> None:
    with tuskml.connect(tmp_path / "db.duckdb") as con:
        cursor = tuskml.load(con.cursor())
        assert one(
            cursor, "SELECT predict(train_model('linear', 2 * x, [x]), [5.0]) FROM range(9) t(x)"
        ) == pytest.approx(10)


PLAIN = """
import duckdb, sys
con = duckdb.connect(sys.argv[1])
con.execute("SET enable_progress_bar = false")
print(con.execute("SELECT m.status, m.n_rows, round(m.coef[1], 6) FROM models").fetchall())
print(con.execute("SELECT count(*) FROM duckdb_functions() WHERE function_name IN ('train_model', 'predict', 'sparse')").fetchall())
print(con.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall())
"""


def test_a_file_keeps_nothing_of_tuskml(tmp_path) -> None:
    file = tmp_path / "db.duckdb"
    with tuskml.connect(file) as con:
        con.execute(
            "CREATE TABLE models AS SELECT train_model('linear', 2 * x, [x]) AS m FROM range(9) t(x)"
        )
        assert one(con, "SELECT predict(m, [4]) FROM models") == pytest.approx(8)
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, file], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[('ok', 9, 2.0)]", "[(0,)]", "[(0,)]"]
    with tuskml.connect(file, read_only=True) as con:
        assert one(con, "SELECT predict(m, [4]) FROM models") == pytest.approx(8)
        assert one(
            con, "SELECT train_model('linear', 3 * x, [x]).coef[1] FROM range(9) t(x)"
        ) == pytest.approx(3)
        with pytest.raises(duckdb.Error, match="read-only"):
            con.execute("CREATE TABLE t (i INTEGER)")
    assert [path.name for path in tmp_path.iterdir()] == ["db.duckdb"]


def test_attached_database(con: duckdb.DuckDBPyConnection, tmp_path) -> None:
    con.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS other")
    con.execute(
        "CREATE TABLE other.models AS SELECT train_model('linear', 2 * x, [x]) AS m FROM range(9) t(x)"
    )
    assert one(con, "SELECT predict(m, [4]) FROM other.models") == pytest.approx(8)
    con.execute("USE other")
    assert one(con, "SELECT predict(m, [4]) FROM models") == pytest.approx(8)


@pytest.mark.parametrize("name", ["m", "terms", "estimates", "fitted", "model"])
def test_macros_leave_names_to_their_users(con: duckdb.DuckDBPyConnection, name: str) -> None:
    con.execute(
        f"CREATE TABLE {name} AS SELECT train_model('linear', 2 * x, [x]) AS {name} FROM range(9) t(x)"
    )
    assert one(con, f"SELECT count(*) FROM model_summary((SELECT {name} FROM {name}))") == 2
    assert one(con, f"SELECT predict({name}, [4]) FROM {name}") == pytest.approx(8)


def test_transaction(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("BEGIN")
    con.execute(
        "CREATE TABLE models AS SELECT train_model('linear', 2 * x, [x]) AS m FROM range(9) t(x)"
    )
    con.execute("ROLLBACK")
    with pytest.raises(duckdb.Error, match="does not exist"):
        con.execute("FROM models")
    assert one(con, "SELECT train_model('linear', 2 * x, [x]).n_rows FROM range(9) t(x)") == 9


def test_error_within_a_transaction(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("BEGIN")
    with pytest.raises(duckdb.Error, match="task is"):
        con.execute("SELECT train_model('x', 1, [1])").fetchall()
    con.execute("ROLLBACK")
    assert one(con, "SELECT train_model('linear', 1, [1]).n_rows") == 1
