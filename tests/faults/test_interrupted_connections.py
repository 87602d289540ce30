"""`connection.interrupt()` ends trainings, whatever they are doing; the next statement works.

Bounds are generous, so that a loaded machine does not fail them; the promise is 200 ms.
"""

# ruff: noqa: E501, SQL is read better on one line

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from tried import Tally

sys.path.append(str(Path(__file__).parent))

from interrupts import ROWS, SOON, STATEMENTS, WIDE, seconds_to_end, stored

import tuskml
from tuskml.kvstore import StoreRoot, files
from tuskml.learners.tasks import Task

pytestmark = pytest.mark.fault(family="cancels")


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=2, store_root=tmp_path / "stores") as connection:
        connection.execute(ROWS)
        connection.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall()
        yield connection


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", STATEMENTS)
def test_interrupt(
    con: duckdb.DuckDBPyConnection, name: str, tmp_path: Path, tally: Tally, record_property
) -> None:
    if "wide" in name:
        con.execute(WIDE)
    seconds = seconds_to_end(con, STATEMENTS[name])
    record_property("seconds", seconds)
    tally.took(seconds)
    print(f"interrupt {name}: {seconds * 1000:.0f} ms")
    assert seconds < SOON
    found = con.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall()
    assert found == [(100_000,)]
    root = StoreRoot(tmp_path / "stores")
    assert [path for each in root.names() for path in root.working(each)] == []
    assert con.execute("SELECT tuskml_memory().resident").fetchall() == [(0,)]


def test_by_the_module_and_from_a_cursor(con: duckdb.DuckDBPyConnection) -> None:
    with con.cursor() as cursor:
        assert seconds_to_end(cursor, STATEMENTS["sgd"]) < SOON
        assert (
            seconds_to_end(
                con, STATEMENTS["sgd"], interrupt=lambda: duckdb.interrupt(connection=con)
            )
            < SOON
        )


def test_an_interrupt_on_the_way_to_the_trainer_is_not_lost(
    con: duckdb.DuckDBPyConnection, monkeypatch
) -> None:
    """After the rows were packed and before the training began, such as while packages are imported."""
    from tuskml.learners import registry

    real = registry.options_of

    def parse(task: Task, text: str):
        thread = threading.Thread(target=con.interrupt)
        thread.start()
        thread.join()
        return real(task, text)

    monkeypatch.setattr(registry, "options_of", parse)
    for sql in (STATEMENTS["bgd"], STATEMENTS["in a store"], STATEMENTS["factorization"]):
        began = time.monotonic()
        with pytest.raises(duckdb.Error, match=r"(?i)interrupted"):
            con.execute(sql).fetchall()
        assert time.monotonic() - began < 15, "not the time limit"


def test_an_interrupt_without_a_training_stops_none(con: duckdb.DuckDBPyConnection) -> None:
    con.interrupt()
    assert con.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall() == [
        (100_000,)
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["interrupt", "cancel"])
def test_waiting_for_a_stores_lock_ends(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, how: str
) -> None:
    con.execute(f"SELECT {stored(max_iter=1)} FROM t".replace('"max_iter": 1000000000, ', ""))
    with files.Lock(tmp_path / "stores" / "ads" / "lock"):
        stop = con.interrupt if how == "interrupt" else tuskml.cancel
        assert seconds_to_end(con, STATEMENTS["in a store"], interrupt=stop) < SOON
