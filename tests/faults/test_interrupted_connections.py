"""`connection.interrupt()` ends trainings, whatever they are doing; the next statement works.

Bounds are generous, so that a loaded machine does not fail them; the promise is 200 ms.
"""

# ruff: noqa: E501, SQL is read better on one line

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tuskml
from tuskml.kvstore import StoreRoot, locks, probe

SOON = 2.0
ENDLESS = '{"algorithm": "%s", "max_iter": 1000000000, "epsilon": 0, "time": "25s"}'
ROWS = """CREATE TABLE t AS SELECT i % 7 AS g, (i * 7919) % 1000 < 400 AS y, [(i * 31) % 97, (i * 17) % 89, i % 83]::FLOAT[] AS x,
          [i % 7, 100 + i * 31 % 5000]::INTEGER[] AS ids, [1.0, sin(i)] AS vals FROM range(100000) r(i)"""


def dense(algorithm: str, task: str = "logistic") -> str:
    return f"train_model('{task}', y, x, '{ENDLESS % algorithm}')"


def stored(**more: object) -> str:
    given = "".join(f', "{name}": {value}' for name, value in more.items())
    options = f'{{"store": "ads", "max_iter": 1000000000, "epsilon": 0, "time": "25s", "step": 0.1{given}}}'
    return f"train_model('logistic', y, sparse(ids, vals), '{options}')"


FACTORIZATION = """train_model('matrix_factorization', sin(i), [i %% 900, i %% 700],
    '{"rank": 8, "max_iter": 1000000000, "epsilon": 0, "time": "25s"%s}')"""
STATEMENTS = {
    name: f"SELECT {dense(name)} FROM t" for name in ("sgd", "hogwild", "svrg", "bgd", "lbfgs", "newton", "newton_cg")
} | {
    "svm": f"SELECT {dense('mgd', 'svm')} FROM t",
    "sparse": f"SELECT {dense('sgd').replace('x, ', 'sparse(ids, vals), ')} FROM t",
    "in groups": f"SELECT g, {dense('sgd')} FROM t GROUP BY g",
    "many groups": f"SELECT x, {dense('bgd')} FROM t GROUP BY x",
    "into a table": f"CREATE TABLE m AS SELECT g, {dense('sgd')} AS m FROM t GROUP BY g",
    "in a store": f"SELECT {stored()} FROM t",
    "in a store, tight": f"SELECT {stored(cache=chr(34) + '16MB' + chr(34))} FROM t",
    "factorization": f"SELECT {FACTORIZATION % ''} FROM range(200000) r(i)",
    "factorization in a store": f"SELECT {FACTORIZATION % (', ' + chr(34) + 'store' + chr(34) + ': ' + chr(34) + 'films' + chr(34))} FROM range(200000) r(i)",
}  # fmt: skip


@pytest.fixture
def con(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with tuskml.connect(threads=2, store_root=tmp_path / "stores") as connection:
        connection.execute(ROWS)
        connection.execute("SELECT train_model('logistic', y, x).n_rows FROM t").fetchall()
        yield connection


def seconds_to_end(
    con: duckdb.DuckDBPyConnection, sql: str, after: float = 0.4, interrupt=None
) -> float:
    """From the first interrupt on; there are more, lest a test waits for the time limit."""
    asked: list[float] = []
    over = threading.Event()

    def ask() -> None:
        wait = after
        while not over.wait(wait):
            asked.append(time.monotonic())
            (interrupt or con.interrupt)()
            wait = 3 * SOON

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with pytest.raises(duckdb.Error, match=r"(?i)interrupted"):
            con.execute(sql).fetchall()
        return time.monotonic() - asked[0]
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("name", STATEMENTS)
def test_interrupt(
    con: duckdb.DuckDBPyConnection, name: str, tmp_path: Path, record_property
) -> None:
    seconds = seconds_to_end(con, STATEMENTS[name])
    record_property("seconds", seconds)
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
    from tuskml.groups import door

    real = door.parse_once

    def parse(text: str):
        thread = threading.Thread(target=con.interrupt)
        thread.start()
        thread.join()
        return real(text)

    monkeypatch.setattr(door, "parse_once", parse)
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


@pytest.mark.parametrize("how", ["interrupt", "cancel"])
def test_waiting_for_a_stores_lock_ends(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, how: str
) -> None:
    con.execute(f"SELECT {stored(max_iter=1)} FROM t".replace('"max_iter": 1000000000, ', ""))
    with locks.Lock(tmp_path / "stores" / "ads" / "lock"):
        stop = con.interrupt if how == "interrupt" else tuskml.cancel
        assert seconds_to_end(con, STATEMENTS["in a store"], interrupt=stop) < SOON


def test_measuring_a_store_ends(
    con: duckdb.DuckDBPyConnection, tmp_path: Path, monkeypatch
) -> None:
    """Which takes a second of every store's first training, and longer on a slow disk."""
    from tuskml.groups import stored_layout

    real = probe.measure_cost
    monkeypatch.setattr(
        probe, "measure_cost", lambda store, **more: real(store, **more | {"repeats": 500})
    )
    stored_layout.cost_of.cache_clear()
    assert seconds_to_end(con, STATEMENTS["in a store"], after=1.0) < SOON
    assert list((tmp_path / "stores").glob(".probe-*")) == []
