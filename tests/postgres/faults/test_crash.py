"""A backend that is killed in the middle of a training: the server recovers, and no file is left.

Its own database, since a crash ends all sessions of the server.
"""

# ruff: noqa: E501, SQL is read better on one line

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sessions import eventually

pytestmark = pytest.mark.fault(family="kills and power loss")

ENDLESS = '\'{"algorithm": "sgd", "max_iter": 1000000000, "epsilon": 0}\''
ROWS = """
CREATE TABLE t AS SELECT i % 2 AS g, i % 3 = 0 AS y, ARRAY[i * 31 % 97, i * 17 % 89, i % 83, i % 79]::float8[] AS x
FROM generate_series(1, 150000) AS i
"""
PARALLEL = "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET parallel_leader_participation = off"


@pytest.fixture
def name(cluster: Any) -> Iterator[str]:
    """A database with rows and a model, on disk."""
    cluster.create_database("crash")
    with cluster.connect("crash") as connection:
        connection.execute(ROWS)
        connection.execute("ANALYZE t")
        connection.execute(
            "CREATE TABLE models AS SELECT g, train_model('logistic', y, x) AS m FROM t GROUP BY g"
        )
        connection.execute("CHECKPOINT")
    yield "crash"
    cluster.drop_database("crash")


def answers(cluster: Any) -> bool:
    try:
        cluster.connect("postgres").close()
    except psycopg.OperationalError:
        return False
    return True


def kill(cluster: Any, backend: int) -> None:
    """kill -9, and the server's recovery."""
    crashes = len(cluster.crashes())
    os.kill(backend, signal.SIGKILL)
    assert eventually(lambda: len(cluster.crashes()) > crashes)
    assert eventually(lambda: answers(cluster))


def works(cluster: Any, name: str) -> None:
    with cluster.connect(name) as connection:
        assert connection.execute("SELECT g, (m).n_rows FROM models ORDER BY g").fetchall() == [
            (0, 75000),
            (1, 75000),
        ]
        assert connection.execute(
            "SELECT (train_model('logistic', y, x)).n_rows FROM t"
        ).fetchall() == [(150000,)]
        assert connection.execute("SELECT name FROM pg_ls_tmpdir()").fetchall() == []


def starts(connection: psycopg.Connection, sql: str) -> None:
    """Sends the statement and does not wait for it."""
    connection.pgconn.send_query(sql.encode())
    connection.pgconn.flush()


def test_killed_in_training(cluster: Any, name: str) -> None:
    session = cluster.connect(name)
    session.execute("SET tuskml.memory_limit = '1MB'")
    backend = session.info.backend_pid
    starts(
        session,
        f"CREATE TABLE more AS SELECT train_model('logistic', y, x, {ENDLESS}) AS m FROM t",
    )
    maps = Path(f"/proc/{backend}/maps")
    assert eventually(lambda: re.search("pgsql_tmp.*deleted", maps.read_text()) is not None), (
        "rows are spilled"
    )
    kill(cluster, backend)
    session.close()
    works(cluster, name)
    with cluster.connect(name) as connection:
        assert connection.execute("SELECT to_regclass('more')").fetchall() == [(None,)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("victim", ["worker", "leader"])
def test_killed_in_a_parallel_query(cluster: Any, name: str, victim: str) -> None:
    """With luck in the moment in which a file has a name; PostgreSQL clears its folder."""
    session = cluster.connect(name)
    session.execute(PARALLEL)
    leader = session.info.backend_pid
    with cluster.connect(name) as other:
        find = "SELECT pid FROM pg_stat_activity WHERE leader_pid = %s"
        wait = "CASE WHEN x[3] = 0 THEN 0.001 ELSE 0 END"  # workers take about a second
        rows = f"t WHERE pg_sleep({wait}) IS NOT NULL"
        starts(
            session, f"SELECT g, train_model('logistic', y, x, {ENDLESS}) FROM {rows} GROUP BY g"
        )
        found: list[tuple] = []
        assert eventually(
            lambda: bool(found.extend(other.execute(find, (leader,)).fetchall()) or found)
        )
        kill(cluster, found[0][0] if victim == "worker" else leader)
        with contextlib.suppress(psycopg.OperationalError):
            other.execute("SELECT 1")
    session.close()
    works(cluster, name)


def test_a_file_that_a_crash_left_is_removed(cluster: Any, name: str) -> None:
    """Named as those of a parallel query are."""
    with cluster.connect(name) as connection:
        folder = cluster.data / "base" / "pgsql_tmp"
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
        (folder / "pgsql_tmp_tuskml.1.2.3").write_bytes(b"rows")
        backend = connection.info.backend_pid
        kill(cluster, backend)
    works(cluster, name)


def test_server_stopped_in_training(cluster: Any, name: str) -> None:
    """As pg_ctl stop -m fast does: the training does not hold it up."""
    session = cluster.connect(name)
    starts(session, f"SELECT train_model('logistic', y, x, {ENDLESS}) FROM t")
    maps = Path(f"/proc/{session.info.backend_pid}/maps")
    assert eventually(lambda: "_native" in maps.read_text()), "kernels are loaded to train"
    cluster.stop()
    session.close()
    cluster.start()
    works(cluster, name)
