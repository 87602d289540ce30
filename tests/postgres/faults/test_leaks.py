"""Nothing is left of trainings that were cancelled, that failed, or that went well."""

# ruff: noqa: E501, SQL is read better on one line

import contextlib
import re
import signal
import time
from pathlib import Path

import psycopg
import pytest
from cluster import SANITIZE
from sessions import (
    ROWS,
    STATEMENTS,
    Connect,
    endless,
    held,
    later,
    pid,
    status,
    temporary_files,
    warm,
    within,
)

pytestmark = pytest.mark.fault(family="leaks")

MOST_GROWTH = 1_000_000 if SANITIZE else 6000
"""In kB; AddressSanitizer keeps what was freed."""

LEFT_OUT = (
    "into a table",
    "many groups",  # of so few rows each, it would end by itself
    "in an epoch of a net",  # whose weights need more than the least memory_limit
)


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE t")


def refuse_more(before: tuple[int, int], after: tuple[int, int]) -> None:
    """The server opens and closes files of its own, one at a time; no thread stays."""
    assert after[0] <= before[0] + 1
    assert after[1] <= before[1]


@pytest.mark.nightly
def test_nothing_leaks_over_cancelled_trainings(pg: psycopg.Connection, connect: Connect) -> None:
    session = connect()
    pg.execute("CREATE TABLE few AS SELECT * FROM t LIMIT 3000")
    statements = [
        re.sub(r"\bt\b(?= GROUP|$)", "few", STATEMENTS[name])
        for name in STATEMENTS
        if name not in LEFT_OUT
    ]

    def cancel(times: int) -> int:
        done = 0
        for number in range(times):
            session.execute(f"SET tuskml.memory_limit = {64 if number % 3 == 0 else -1}")
            done += within(session, 8 + number % 13, statements[number % len(statements)])
        return times - done

    warm(session)
    cancel(60)
    before, files = status(pid(session), "VmRSS"), held(pid(session))
    assert cancel(300) > 290
    grown = status(pid(session), "VmRSS") - before
    print(f"{grown} kB more")
    assert grown < MOST_GROWTH
    refuse_more(files, held(pid(session)))
    assert temporary_files(session) == []
    warm(session)


def test_nothing_leaks_over_trainings_and_errors(connect: Connect) -> None:
    session = connect()
    statements = [
        "SELECT train_model('linear', i, ARRAY[i, 1]) FROM generate_series(1, 100) AS i",
        "SELECT i % 50, train_model('linear', i, ARRAY[i, i % 7]) FROM generate_series(1, 1000) AS i GROUP BY i % 50",
        "SELECT train_model('svm', i, ARRAY[i]) FROM generate_series(1, 100) AS i",
        "SELECT train_model('linear', i, ARRAY[i], '{\"l3\": 1}') FROM generate_series(1, 100) AS i",
        "SELECT train_model('linear', i, ARRAY[1 / (50 - i)]) FROM generate_series(1, 100) AS i",
        "SELECT explain_training('svm', i > 50, ARRAY[i]) FROM generate_series(1, 100) AS i",
        "SELECT train_model('linear', i, sparse(ARRAY[i], ARRAY[1.0])) FROM generate_series(1, 100) AS i",
    ]

    def go(times: int) -> None:
        for number in range(times):
            with contextlib.suppress(psycopg.DataError):
                session.execute(statements[number % len(statements)])

    go(150)
    before, files = status(pid(session), "VmRSS"), held(pid(session))
    go(700)
    grown = status(pid(session), "VmRSS") - before
    print(f"{grown} kB more")
    assert grown < MOST_GROWTH / 2
    refuse_more(files, held(pid(session)))


def test_threads_leave_signals_to_the_server(connect: Connect) -> None:
    session = connect()
    session.execute("SET tuskml.threads = 4")
    wanted = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1,
              signal.SIGUSR2, signal.SIGCHLD, signal.SIGURG, signal.SIGPIPE}  # fmt: skip
    seen = set()
    loud = []

    def look() -> None:
        for _ in range(20):
            for task in Path(f"/proc/{pid(session)}/task").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    blocked = int(
                        re.search(r"SigBlk:\s*(\w+)", (task / "status").read_text())[1], 16
                    )  # type: ignore[index]
                    if task.name != str(pid(session)):
                        seen.add(task.name)
                        loud.extend(s for s in wanted if not blocked >> (s - 1) & 1)
            time.sleep(0.02)

    for algorithm in ("hogwild", "bgd"):
        with later(0.1, look):
            session.execute(f"SELECT {endless(algorithm, time='0.7s')} FROM t")
    assert len(seen) >= 3
    assert loud == []
