"""Sessions of both databases.

`session` is one of either: its name, "duck" or "post", and the session; `con` is DuckDB's, `post`
PostgreSQL's. As `con`, `post` is emptied for each test, and the next file has it too, since a new
one takes longer than most tests: it would import Python's packages again.
"""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

OWN_TABLES = """
SELECT CAST(c.oid AS regclass) FROM pg_class AS c
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
  AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e')
"""
"""Those that the extension did not bring."""


OBJECTS = """
SELECT (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_type AS t WHERE NOT EXISTS (
           SELECT FROM pg_namespace AS n WHERE n.oid = typnamespace AND n.nspname LIKE 'pg\\_temp%')),
       (SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'),
       (SELECT count(*) FROM pg_operator), (SELECT count(*) FROM pg_extension), (SELECT count(*) FROM pg_roles),
       (SELECT count(*) FROM pg_db_role_setting), (SELECT count(*) FROM pg_default_acl),
       (SELECT array_agg(oid::text ORDER BY oid) FROM pg_class WHERE relkind IN ('r', 'v', 'm', 'S') AND relpersistence = 'p'),
       (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')
"""
"""What a database and a session have, to be compared with those of a new one."""
SHARED = "tusk_sql"


@pytest.fixture(scope="session")
def spare_session() -> Iterator[list[Any]]:
    """PostgreSQL's session that the next file has, and the objects of its database when it was new."""
    kept: list[Any] = []
    yield kept
    if kept:
        kept[0].close()


@pytest.fixture(scope="module")
def file_session(cluster: Any, spare_session: list[Any]) -> Iterator[psycopg.Connection]:
    """PostgreSQL's session of the file, with what its tests leave in it.

    The next file has the same one, unless the file leaves more than tables in its database.
    """
    crashes = cluster.crashes()
    if not spare_session:
        cluster.drop_database(SHARED)
        cluster.create_database(SHARED)
        connection = cluster.connect(SHARED)
        spare_session += [connection, connection.execute(OBJECTS).fetchall()]
    connection, new = spare_session
    yield connection
    try:
        empty(connection)
        clean = connection.execute(OBJECTS).fetchall() == new
    except psycopg.Error:
        clean = False
    if not clean:
        connection.close()
        spare_session.clear()
    assert cluster.crashes() == crashes, "a server process crashed in this module"


def empty(connection: psycopg.Connection) -> None:
    """Drops the session's tables and gives it the usual settings."""
    connection.execute("DISCARD TEMP")
    connection.execute("RESET ALL")
    tables = [name for (name,) in connection.execute(OWN_TABLES).fetchall()]
    if tables:
        connection.execute(f"DROP TABLE {', '.join(tables)} CASCADE")


@pytest.fixture
def post(file_session: psycopg.Connection) -> psycopg.Connection:
    """The same without tables and with the usual settings."""
    empty(file_session)
    return file_session


@pytest.fixture(params=["duck", "post"])
def session(request: pytest.FixtureRequest) -> tuple[str, Any]:
    """The name of a database, and an empty session in it."""
    fixture = "con" if request.param == "duck" else "post"
    return request.param, request.getfixturevalue(fixture)
