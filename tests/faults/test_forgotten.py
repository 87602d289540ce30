"""DuckDB forgets the states that it has not scanned when a statement ends early: their rows go all the same."""

# ruff: noqa: E501, SQL is read better on one line

import re
import subprocess
import sys
import threading
from collections.abc import Callable

import duckdb
import pytest

import tuskml

pytestmark = pytest.mark.fault(family="leaks")

GROUPS = 3_000
ROUNDS = 3
MAKE = f"""CREATE TABLE t AS SELECT (hash(i) % {GROUPS})::BIGINT AS g, i // 10 AS sorted, (i * 7919) % 1000 < 400 AS y,
           [(i * 31) % 97, (i * 17) % 89, i % 83]::FLOAT[] AS x FROM range({10 * GROUPS}) r(i)"""
BAD_OPTION = "SELECT {g}, train_model('linear', y::INT, x, '{{\"l2\": -1}}') FROM t GROUP BY {g}"
BAD_GROUP = "SELECT {g}, train_model('svm', CASE WHEN {g} = 777 THEN x[1] ELSE y::INT END, x, '{{\"invalid\": \"error\"}}') FROM t GROUP BY {g}"
FIRST = "SELECT {g}, train_model('linear', y::INT, x) FROM t GROUP BY {g} LIMIT 3"
GOOD = "SELECT count(m.n_rows) FROM (SELECT {g}, train_model('linear', y::INT, x) AS m FROM t GROUP BY {g})"


@pytest.fixture(params=[1, 2])
def table(request) -> duckdb.DuckDBPyConnection:
    with tuskml.connect(threads=request.param) as con:
        con.execute(MAKE)
        yield con


def says(sentence: str) -> str:
    """DuckDB 1.x may see that a streamed result is interrupted before it sees which failure did it."""
    return f"{sentence}|Interrupted!" if duckdb.__version__ < "2" else sentence


def resident(con: duckdb.DuckDBPyConnection) -> int:
    return con.execute("SELECT tuskml_memory().resident").fetchall()[0][0]


@pytest.mark.parametrize("sql", [BAD_OPTION, BAD_GROUP])
def test_a_group_fails(table: duckdb.DuckDBPyConnection, sql: str) -> None:
    g = "g"
    for _ in range(3):
        with pytest.raises(duckdb.Error, match=says("train_model")):
            table.execute(sql.format(g=g)).fetchall()
        assert resident(table) == 0
    assert table.execute(GOOD.format(g=g)).fetchall() == [(GROUPS,)]
    assert resident(table) == 0


def test_a_training_is_cancelled(table: duckdb.DuckDBPyConnection) -> None:
    options = '{"algorithm": "bgd", "max_iter": 1000000000, "epsilon": 0, "time": "10s"}'
    over = threading.Event()

    def cancel() -> None:
        while not over.wait(0.3):  # on a loaded machine the first may come before the statement
            tuskml.cancel()

    for _ in range(3):
        over.clear()
        thread = threading.Thread(target=cancel)
        thread.start()
        try:
            with pytest.raises(duckdb.Error, match="the training was interrupted"):
                table.execute(
                    "SELECT g, train_model('logistic', y, x, ?) FROM t GROUP BY g", [options]
                ).fetchall()
        finally:
            over.set()
            thread.join()
    assert table.execute(GOOD.format(g="g")).fetchall() == [(GROUPS,)]
    assert resident(table) == 0


@pytest.mark.parametrize("sql", [BAD_OPTION, BAD_GROUP])
def test_a_group_fails_in_sorted_rows(table: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Chunks that share no group may be of two statements: what is left goes with a cancel."""
    for _ in range(3):
        with pytest.raises(duckdb.Error, match=says("train_model")):
            table.execute(sql.format(g="sorted")).fetchall()
    tuskml.cancel()
    assert table.execute(GOOD.format(g="sorted")).fetchall() == [(GROUPS,)]
    assert resident(table) == 0


def test_the_first_rows_are_enough(table: duckdb.DuckDBPyConnection) -> None:
    """DuckDB says of none of the others that it needs it no more: cancel does."""
    for _ in range(3):
        assert len(table.execute(FIRST.format(g="g")).fetchall()) == 3
    assert table.execute(GOOD.format(g="g")).fetchall() == [(GROUPS,)]
    tuskml.cancel()
    assert table.execute(GOOD.format(g="g")).fetchall() == [(GROUPS,)]
    assert resident(table) == 0


@pytest.mark.nightly
@pytest.mark.sample(1)
def test_a_failure_leaves_the_others_their_rows(table: duckdb.DuckDBPyConnection) -> None:
    """Statements with the same text side by side, most of which fail."""
    wrong: list[object] = []

    def repeat(sql: str, check: Callable[[object], bool]) -> None:
        with table.cursor() as cursor:
            for _ in range(ROUNDS):
                try:
                    answer: object = cursor.execute(sql).fetchall()
                except duckdb.Error as error:
                    answer = str(error)
                if not check(answer):
                    wrong.append(answer)

    def failed(answer: object) -> bool:
        return re.search(says("needs two classes"), str(answer)) is not None

    fails = BAD_GROUP.format(g="g")
    works = "SELECT count(m.n_rows) FROM (SELECT g, train_model('logistic', y::INT, x) AS m FROM t GROUP BY g)"
    threads = [
        threading.Thread(target=repeat, args=(fails, failed)),
        threading.Thread(target=repeat, args=(works, lambda a: a == [(GROUPS,)])),
        threading.Thread(target=repeat, args=(works, lambda a: a == [(GROUPS,)])),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=240)
        assert not thread.is_alive()
    assert wrong == []


CLOSED = """
import gc, sys, psutil, tuskml
def one():
    with tuskml.connect(threads=2) as con:
        con.execute("SET enable_progress_bar = false")
        con.execute(sys.argv[1])
        con.execute(sys.argv[2]).fetchall()
for _ in range(3): one()
gc.collect()
before = psutil.Process().memory_info().rss
for _ in range(6): one()
gc.collect()
print(psutil.Process().memory_info().rss - before)
"""


@pytest.mark.nightly
def test_a_closed_database_keeps_no_rows() -> None:
    """Each forgets about 4 MB, and has but a temporary table when it closes."""
    done = subprocess.run(
        [sys.executable, "-c", CLOSED, MAKE, FIRST.format(g="g")],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    print(f"6 databases: {int(done.stdout) / 1e6:.1f} MB more")
    assert int(done.stdout) < 8_000_000
