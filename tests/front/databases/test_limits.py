"""What DuckDB's memory_limit says, as tuskml reads it; nothing stays of closed databases."""

import gc
import math
import time

import duckdb
import pytest

import tuskml
from tuskml.databases import limits
from tuskml.kernels import library
from tuskml.schedule import budget as thread_budget

WIDE = (
    "SELECT train_model('linear', sin(i), list_transform(range(1500), lambda k: sin(i * (k + 1))),"
    ' \'{"algorithm": "newton", "max_iter": 1, "l2": 1}\').n_features FROM range(20) t(i)'
)


def budget(connection: duckdb.DuckDBPyConnection) -> int:
    """Bytes that a training may have."""
    connection.execute("SELECT train_model('linear', i, [i]) FROM range(9) t(i)").fetchall()
    account = connection.execute("SELECT _tusk_account()").fetchall()[0][0]
    memory = limits._memory_of(account)
    thread_budget.look_at_limits(memory)
    return library.memory_use(memory).budget


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [
        ("512MiB", 512 << 20),
        ("0.5GB", 5e8),
        ("3TiB", 3 << 40),
        ("2000TB", 2e15),
        ("1000000TB", 1e18),
        ("-1", math.inf),
        ("none", math.inf),
    ],
)
def test_a_limit_of_any_size(con: duckdb.DuckDBPyConnection, given: str, bytes_: float) -> None:
    """Sizes of PiB, which DuckDB shows where there is no limit, too. It shows one decimal."""
    con.execute(f"SET memory_limit = '{given}'")
    assert budget(con) == pytest.approx(min(bytes_, 2**63), rel=0.06)
    assert con.execute(WIDE).fetchall() == [(1500,)]


@pytest.mark.parametrize("given", ["''", "NULL"])
def test_no_folder_for_spilled_rows(con: duckdb.DuckDBPyConnection, given: str) -> None:
    con.execute(f"SET temp_directory = {given}")
    assert budget(con) > 0


@pytest.mark.nightly
def test_nothing_stays_of_closed_databases() -> None:
    for _ in range(2):
        tuskml.connect().close()
    gc.collect()
    tuskml.connect().close()
    kept = (
        *(thread_budget.readers, thread_budget._looked, thread_budget._databases),
        limits._databases,
    )
    before = [len(each) for each in kept]
    for _ in range(3):
        with tuskml.connect() as connection:
            connection.execute(
                "SELECT train_model('linear', i, [i]) FROM range(9) t(i)"
            ).fetchall()
    del connection
    until = time.monotonic() + 30  # a database ends when the last of its threads does
    while [len(each) for each in kept] != before and time.monotonic() < until:
        gc.collect()
        tuskml.connect().close()
    gc.collect()
    assert [len(each) for each in kept] == before
