"""Waiting for a store is cancelled as work is: by a timeout, a user, the end of the session."""

# ruff: noqa: E501, SQL is read better on one line

import json
import os
import pwd
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sessions import SOON, Connect, eventually, is_gone, later, pid

from tuskml.kvstore import files

ROWS = """
CREATE TABLE waits AS SELECT i, i % 2 AS y, ARRAY[i % 7, 100 + i * 31 % 50]::int[] AS ids, ARRAY[1, sin(i * 0.7)]::float8[] AS vals
FROM generate_series(1, 300) AS i
"""


def call(**options: object) -> str:
    text = json.dumps({"store": "ads", "max_iter": 2, "epsilon": 0, "partition": 0} | options)
    return f"SELECT (train_model('logistic', y, sparse(ids, vals), '{text}')).store FROM waits"


@pytest.fixture
def lock(cluster, pg: psycopg.Connection) -> Iterator[Path]:
    """That of a store which has a version; who holds it keeps all trainings of the name waiting."""
    pg.execute("DROP TABLE IF EXISTS waits")
    pg.execute(ROWS)
    folder = cluster.data / "tuskml"
    shutil.rmtree(folder, ignore_errors=True)
    pg.execute(call())
    (path,) = (folder / "stores").glob("*/ads/lock")
    yield path
    if cluster.user is not None:  # what this process wrote is root's
        account = pwd.getpwnam(cluster.user)
        os.chown(path, account.pw_uid, account.pw_gid)
    pg.execute(call())
    shutil.rmtree(folder)


@pytest.mark.nightly
def test_a_timeout(connect: Connect, lock: Path) -> None:
    session = connect()
    session.execute(call())
    session.execute("SET statement_timeout = '500ms'")
    with files.Lock(lock):
        began = time.monotonic()
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            session.execute(call())
        seconds = time.monotonic() - began - 0.5
    print(f"timeout while waiting: {seconds * 1000:.0f} ms")
    assert seconds < SOON
    session.execute("RESET statement_timeout")
    assert session.execute(call()).fetchone()[0].startswith("ads@")


def test_a_request(connect: Connect, lock: Path) -> None:
    session = connect()
    session.execute(call())
    with (
        files.Lock(lock),
        later(0.3, session.cancel_safe) as asked,
        pytest.raises(psycopg.errors.QueryCanceled, match="user request"),
    ):
        session.execute(call())
    assert time.monotonic() - asked[0] < SOON


def test_the_end_of_the_session(pg, connect: Connect, lock: Path) -> None:
    session = connect()
    session.execute(call())
    backend = pid(session)
    with files.Lock(lock):
        with (
            later(0.3, lambda: pg.execute("SELECT pg_terminate_backend(%s)", (backend,))),
            pytest.raises(psycopg.OperationalError),
        ):
            session.execute(call())
        assert eventually(lambda: is_gone(pg, backend))
