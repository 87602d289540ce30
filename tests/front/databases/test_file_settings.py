"""`enable_external_access`, `allowed_directories` and `lock_configuration` hold for stores too."""

import time
from pathlib import Path

import duckdb
import pytest

import tuskml
from tuskml.kvstore import StoreRoot

ROWS = """
CREATE TABLE t AS
SELECT i % 2 AS y, [i % 7, 100 + i * 31 % 50]::INTEGER[] AS ids, [1.0, sin(i)] AS vals
FROM range(300) r(i)
"""
TRAIN = (
    "SELECT train_model('logistic', y, sparse(ids, vals), "
    '\'{"store": "ads", "max_iter": 2, "epsilon": 0, "partition": 0%s}\') AS m FROM t'
)
FACTORS = (
    "SELECT train_model('matrix_factorization', sin(i), [i % 9, i % 7], "
    '\'{"store": "films", "rank": 2, "max_iter": 2}\') FROM range(300) r(i)'
)
LOCKED = "the configuration is locked, expected lock_configuration to be false"
REFUSED = "which the database may not use: enable_external_access is false, expected a folder"
PREDICT = "SELECT sum(predict(m, sparse(ids, vals))) FROM t, m"


@pytest.fixture
def con(tmp_path: Path):
    with tuskml.connect(store_root=tmp_path / "stores") as connection:
        connection.execute(ROWS)
        yield connection


def refuses(con: duckdb.DuckDBPyConnection, sql: str, told: str = REFUSED) -> None:
    with pytest.raises(duckdb.Error, match=told):
        con.execute(sql).fetchall()
    assert con.execute("SELECT train_model('linear', 1.0, [1.0]).n_rows").fetchall() == [(1,)]


def eventually_refused(con: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether the statement fails before long."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            con.execute(sql).fetchall()
        except duckdb.Error:
            return True
    return False


def test_without_external_access_nothing_is_written_or_read(con, tmp_path: Path) -> None:
    con.execute(f"CREATE TABLE m AS {TRAIN % ''}")
    expected = con.execute(PREDICT).fetchone()
    assert con.execute(PREDICT).fetchone() == expected
    con.execute("SET enable_external_access = false")
    before = sorted(path for path in tmp_path.rglob("*"))
    assert eventually_refused(con, PREDICT), "predictions look at the settings now and then"
    refuses(con, PREDICT)
    for sql in (TRAIN % "", TRAIN % ', "warm_start": {"store": "ads", "intercept": 0}', FACTORS):
        refuses(con, sql)
    with con.cursor() as cursor:
        refuses(cursor, TRAIN % "")
    assert sorted(path for path in tmp_path.rglob("*")) == before


def test_not_even_a_root_is_made(tmp_path: Path) -> None:
    with tuskml.connect(store_root=tmp_path / "stores") as con:
        con.execute(ROWS)
        con.execute("SET enable_external_access = false")
        refuses(con, TRAIN % "")
    assert list(tmp_path.iterdir()) == []


def test_allowed_directories_are_allowed(con, tmp_path: Path) -> None:
    con.execute(f"SET allowed_directories = ['{tmp_path}']")
    con.execute("SET enable_external_access = false")
    con.execute(f"CREATE TABLE m AS {TRAIN % ''}")
    assert con.execute(PREDICT).fetchone() != (None,)
    assert StoreRoot(tmp_path / "stores").versions("ads") == [1]
    outside = tmp_path.parent / f"{tmp_path.name}2"  # begins like it, and is another
    for path in (outside, tmp_path / ".." / outside.name):
        refuses(con, f"SELECT tuskml_set_store_root('{path}')")
    (tmp_path / "link").symlink_to(tmp_path.parent)
    refuses(con, f"SELECT tuskml_set_store_root('{tmp_path}/link/{outside.name}')")
    con.execute(f"SELECT tuskml_set_store_root('{tmp_path}/others')")
    con.execute(TRAIN % "")
    assert StoreRoot(tmp_path / "others").versions("ads") == [1]


def test_a_locked_configuration_keeps_its_root(con, tmp_path: Path) -> None:
    root = con.execute("SELECT tuskml_store_root()").fetchone()
    con.execute("SET lock_configuration = true")
    refuses(con, f"SELECT tuskml_set_store_root('{tmp_path}/others')", LOCKED)
    assert con.execute("SELECT tuskml_set_store_root(tuskml_store_root())").fetchone() == root
    assert con.execute("SELECT tuskml_store_root()").fetchone() == root
    con.execute(TRAIN % "")
    assert StoreRoot(tmp_path / "stores").versions("ads") == [1]


def test_the_program_sets_the_root_whatever_is_locked(tmp_path: Path) -> None:
    with tuskml.connect(store_root=tmp_path / "a", lock_configuration=True) as con:
        con.execute(ROWS)
        con.execute(TRAIN % "")
        assert StoreRoot(tmp_path / "a").versions("ads") == [1]
        tuskml.load(con, tmp_path / "b")
        assert con.execute("SELECT tuskml_store_root()").fetchone() == (str(tmp_path / "b"),)


def test_spilled_rows_stay_where_the_settings_say(con, tmp_path: Path) -> None:
    """`tuskml_set_memory` is a setting too, and says which folder rows spill to."""
    con.execute(f"SET temp_directory = '{tmp_path / 'spilled'}'")
    con.execute("SET enable_external_access = false")
    refuses(con, f"SELECT tuskml_set_memory(0, '{tmp_path}/elsewhere')")
    con.execute("SELECT tuskml_set_memory(1000000, '')")
    con.execute("SET memory_limit = '300MB'")
    con.execute("SET lock_configuration = true")
    refuses(con, "SELECT tuskml_set_memory(0, '')", LOCKED)
    query = "SELECT train_model('linear', i, [i, sqrt(i), sin(i)]).n_rows FROM range(3000000) t(i)"
    assert con.execute(query).fetchall() == [(3_000_000,)]
    assert con.execute("SELECT tuskml_memory().budget").fetchone() == (
        pytest.approx(3e8, rel=1e-3),
    )


def test_one_database_is_not_another(con, tmp_path: Path) -> None:
    with tuskml.connect(store_root=tmp_path / "stores") as other:
        other.execute(ROWS)
        other.execute("SET enable_external_access = false")
        refuses(other, TRAIN % "")
        con.execute(TRAIN % "")
