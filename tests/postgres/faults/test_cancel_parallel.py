"""Parallel queries that end early leave no files of their workers."""

import contextlib

import psycopg
import pytest
from sessions import (
    LARGE,
    PARALLEL,
    ROWS,
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
from tried import WHOLE

pytestmark = pytest.mark.fault(family="cancels")


@pytest.fixture(scope="module", autouse=True)
def rows(pg: psycopg.Connection) -> None:
    pg.execute(ROWS)
    pg.execute("ANALYZE t")


@pytest.fixture(scope="module")
def large(pg: psycopg.Connection) -> str:
    """A query whose workers hand over files, in all some megabytes."""
    pg.execute(LARGE)
    pg.execute("ANALYZE large")
    return f"SELECT g, {endless('newton', max_iter=3)} FROM large GROUP BY g"


def test_cancelled_parallel_queries_leave_no_files(connect: Connect, large: str) -> None:
    session = warm(connect())
    session.execute(PARALLEL)
    ended = []
    for after in range(5, 165, 8 if WHOLE else 16):
        ended.append(within(session, after, large))
        assert temporary_files(session) == [], f"after {after} ms"
    assert False in ended
    warm(session)


@pytest.mark.nightly
def test_terminated_workers_leave_no_files(
    pg: psycopg.Connection, connect: Connect, large: str
) -> None:
    session = warm(connect())
    session.execute(PARALLEL)
    session.execute("SET parallel_leader_participation = off")
    workers = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE leader_pid = %s"
    stopped = 0

    def stop_workers() -> None:
        nonlocal stopped
        stopped = (pg.execute(workers, (pid(session),)).fetchone() or (0,))[0]

    for after in (0.0, 0.01, 0.02, 0.04):
        with later(after, stop_workers), contextlib.suppress(psycopg.Error):
            session.execute(large)
        assert not session.closed
        assert temporary_files(session) == []
    warm(session)


@pytest.mark.sample(1)
@pytest.mark.parametrize("after", [0.01, 0.03, 0.06])
def test_terminated_leader_leaves_no_files(
    pg: psycopg.Connection, connect: Connect, large: str, after: float
) -> None:
    session = warm(connect())
    session.execute(PARALLEL)
    ask = "SELECT pg_terminate_backend(%s)"
    with (
        later(after, lambda: pg.execute(ask, (pid(session),))),
        contextlib.suppress(psycopg.Error),
    ):
        session.execute(large)
        session.execute("SELECT pg_sleep(0.2)")
    assert eventually(lambda: is_gone(pg, pid(session)))
    assert temporary_files(pg) == []
