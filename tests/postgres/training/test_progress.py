"""A client hears of trainings that last, once a second."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from cluster import Cluster
from sessions import GOOD, ROWS, Connect, endless, pid, warm, within


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE t")


@pytest.fixture(scope="module")
def opened(cluster: Cluster, database: str) -> Iterator[psycopg.Connection]:
    with cluster.connect(database, application_name="my report") as session:
        yield warm(session)


@pytest.fixture
def session(opened: psycopg.Connection) -> Iterator[psycopg.Connection]:
    """A session that has trained, with settings as new."""
    yield opened
    opened.execute("RESET ALL")


def watched(
    pg: psycopg.Connection, session: psycopg.Connection, sql: str
) -> tuple[list[str], set[str]]:
    """Notices, and application names seen meanwhile."""
    notices: list[str] = []
    session.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
    names: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            found = pg.execute(
                "SELECT application_name FROM pg_stat_activity WHERE pid = %s", (pid(session),)
            ).fetchone()
            names.update(found or ())
            time.sleep(0.05)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        with contextlib.suppress(psycopg.errors.QueryCanceled):
            session.execute(sql)
    finally:
        over.set()
        thread.join()
    return notices, names


READ = re.compile(r"train_model: (\d+) rows read")
NAME = "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"


@pytest.mark.parametrize("end", ["finished", "cancelled"])
def test_progress(pg: psycopg.Connection, session: psycopg.Connection, end: str) -> None:
    session.execute("SET tuskml.application_name = on")
    if end == "cancelled":
        session.execute("SET statement_timeout = '1500ms'")
    notices, names = watched(pg, session, f"SELECT {endless('sgd', time='1.5s')} FROM t")
    trained = [notice for notice in notices if not READ.fullmatch(notice)]
    assert 1 <= len(trained) <= 3
    for notice in trained:
        assert re.fullmatch(r"train_model: iteration \d+, objective \d\.\d+", notice)
    assert {notice.removeprefix("train_model: ") for notice in trained} >= names - {"my report"}
    assert len(names) >= 2
    assert session.execute(NAME).fetchall() == [("my report",)]
    assert session.execute("SHOW application_name").fetchall() == [("my report",)]


@pytest.mark.nightly
def test_progress_of_groups(pg: psycopg.Connection, session: psycopg.Connection) -> None:
    sql = f"SELECT g, {endless('sgd', time='1.5s')} FROM t GROUP BY g"
    notices, names = watched(pg, session, sql)
    assert 1 <= len([notice for notice in notices if not READ.fullmatch(notice)]) <= 3
    assert names == {"my report"}
    assert session.execute(NAME).fetchall() == [("my report",)]


@pytest.mark.nightly
def test_no_progress_when_it_is_off(pg: psycopg.Connection, session: psycopg.Connection) -> None:
    session.execute("SET tuskml.progress = off")
    notices, names = watched(pg, session, f"SELECT {endless('sgd', time='1.5s')} FROM t")
    assert notices == []
    assert names == {"my report"}
    session.execute("SET tuskml.application_name = on")
    notices, names = watched(pg, session, f"SELECT {endless('sgd', time='1.5s')} FROM t")
    assert notices == []
    assert len(names) >= 2


@pytest.mark.sample(1)
@pytest.mark.parametrize("milliseconds", [987, 990, 993, 999])
def test_cancel_as_the_first_notice_is_sent(connect: Connect, milliseconds: int) -> None:
    """A NOTICE looks for interrupts itself: its error must not jump over Python's frames."""
    session = warm(connect())
    session.execute("CREATE TEMP TABLE few AS SELECT * FROM t LIMIT 3000")
    sql = f"SELECT g, {endless('newton')} FROM few GROUP BY g"
    assert not within(session, milliseconds, sql)
    warm(session)


def test_no_notice_of_short_trainings(pg: psycopg.Connection, session: psycopg.Connection) -> None:
    assert watched(pg, session, GOOD)[0] == []


@pytest.mark.nightly
def test_rows_are_told_of_while_they_are_read(session: psycopg.Connection) -> None:
    """What delivers them takes its time: the count comes before the last of them."""
    notices: list[str] = []
    session.add_notice_handler(lambda told: notices.append(told.message_primary or ""))
    sleep = "CASE i WHEN 8192 THEN pg_sleep(1.1) END"
    slow = f"SELECT i, {sleep} FROM generate_series(1, 40000) AS s(i) OFFSET 0"
    training = f"SELECT (train_model('linear', i, ARRAY[i % 7])).n_rows FROM ({slow}) AS t"
    assert session.execute(training).fetchall() == [(40000,)]
    counts = [int(found[1]) for found in map(READ.fullmatch, notices) if found]
    assert counts == sorted(set(counts))
    assert counts
    assert all(count % 8192 == 0 for count in counts)
    assert counts[-1] <= 40000
    session.execute("SET tuskml.progress = off")
    notices.clear()
    session.execute(training)
    assert notices == []
