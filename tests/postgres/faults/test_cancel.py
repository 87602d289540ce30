"""A training ends when it is asked to, and leaves nothing behind.

Bounds on time are generous, so that a loaded machine does not fail them; the promise is 200 ms.
"""

# ruff: noqa: E501, SQL is read better on one line

import os
import socket
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from cluster import Cluster
from sessions import (
    ALGORITHMS,
    ROWS,
    SOON,
    STATEMENTS,
    Connect,
    endless,
    eventually,
    is_gone,
    later,
    pid,
    temporary_files,
    warm,
    within,
)
from tried import Tally

pytestmark = pytest.mark.fault(family="cancels")


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE t")


@pytest.fixture(scope="module")
def trained(cluster: Cluster, database: str) -> Iterator[psycopg.Connection]:
    """One session for all: what a cancel left behind, the next statement would meet."""
    with cluster.connect(database) as session:
        yield warm(session)


MANY = [
    pytest.param(name, marks=pytest.mark.nightly if name == "search of short trials" else ())
    for name in STATEMENTS
]
"""Statements without end, of which that one is slow to begin."""


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MANY)
def test_statement_timeout(trained: psycopg.Connection, name: str, tally: Tally) -> None:
    session = trained
    session.execute("SET statement_timeout = '300ms'")
    began = time.monotonic()
    with pytest.raises(psycopg.errors.QueryCanceled, match="due to statement timeout"):
        session.execute(STATEMENTS[name])
    tally.took(time.monotonic() - began - 0.3)
    assert tally.seconds[-1] < SOON
    session.execute("RESET statement_timeout")
    assert temporary_files(warm(session)) == []


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", MANY)
def test_cancel(trained: psycopg.Connection, name: str, tally: Tally) -> None:
    with (
        later(0.3, trained.cancel_safe) as asked,
        pytest.raises(psycopg.errors.QueryCanceled, match="due to user request"),
    ):
        trained.execute(STATEMENTS[name])
    tally.took(time.monotonic() - asked[0])
    assert tally.seconds[-1] < SOON
    warm(trained)


@pytest.mark.nightly
def test_cancel_while_packages_are_imported(connect: Connect) -> None:
    """The first training of a session; the next one imports what is missing."""
    for after in (0.0, 0.05, 0.1, 0.2):
        session = connect()
        with later(after, session.cancel_safe), pytest.raises(psycopg.errors.QueryCanceled):
            session.execute(STATEMENTS["sgd"])
        warm(session)


@pytest.mark.nightly
def test_cancel_in_a_subtransaction(connect: Connect) -> None:
    session = warm(connect())
    with session.transaction():
        session.execute("CREATE TEMP TABLE kept AS SELECT 1 AS one")
        assert not within(session, 200, STATEMENTS["in groups"])
        warm(session)
    assert session.execute("SELECT one FROM kept").fetchall() == [(1,)]


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [*ALGORITHMS, "while rows are packed"])
def test_terminate(pg: psycopg.Connection, connect: Connect, name: str, tally: Tally) -> None:
    session = warm(connect())
    ask = "SELECT pg_terminate_backend(%s)"
    with (
        later(0.3, lambda: pg.execute(ask, (pid(session),))) as asked,
        pytest.raises(psycopg.errors.AdminShutdown),
    ):
        session.execute(STATEMENTS[name])
    tally.took(time.monotonic() - asked[0])
    assert tally.seconds[-1] < SOON
    assert eventually(lambda: is_gone(pg, pid(session)))
    assert temporary_files(pg) == []


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", [*ALGORITHMS, "in groups", "while rows are packed"])
def test_client_that_vanishes(pg: psycopg.Connection, connect: Connect, name: str) -> None:
    session = warm(connect())
    backend = pid(session)
    session.pgconn.send_query(STATEMENTS[name].encode())
    session.pgconn.flush()
    time.sleep(0.3)
    assert not is_gone(pg, backend)
    with socket.socket(fileno=os.dup(session.pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)
    assert eventually(lambda: is_gone(pg, backend))
    session.close()


def test_time_limit(connect: Connect) -> None:
    began = time.monotonic()
    found = connect().execute(
        f"SELECT (m).status, (m).iterations > 0 FROM (SELECT {endless('sgd', time='0.3s')} AS m FROM t) AS s"
    )
    assert found.fetchall() == [("time limit", True)]
    assert time.monotonic() - began < 0.3 + SOON


def is_active(pg: psycopg.Connection, backend: int) -> bool:
    query = "SELECT state = 'active' FROM pg_stat_activity WHERE pid = %s"
    return pg.execute(query, [backend]).fetchone() == (True,)


@pytest.mark.fault(family="concurrency")
def test_sessions_side_by_side(pg: psycopg.Connection, connect: Connect) -> None:
    """A cancel ends the training of its session, no other."""
    sessions = [warm(connect()) for _ in range(3)]
    ended: dict[int, str] = {}

    def train(place: int) -> None:
        try:
            sessions[place].execute(f"SELECT {endless('sgd', time='1.5s')} FROM t")
            ended[place] = "trained"
        except psycopg.errors.QueryCanceled:
            ended[place] = "cancelled"

    threads = [threading.Thread(target=train, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: is_active(pg, pid(sessions[1])))
    sessions[1].cancel_safe()
    for thread in threads:
        thread.join(30)
    assert ended == {0: "trained", 1: "cancelled", 2: "trained"}
