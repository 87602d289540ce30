"""Sessions of both databases.

`session` is one of either: its name, "duck" or "post", and the session; `con` is DuckDB's, `post`
PostgreSQL's. As `con`, `post` is one per file and emptied for each test, since a new one takes
longer than most tests: it would import Python's packages again.
"""

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


@pytest.fixture(scope="module")
def file_session(cluster: Any, database: str) -> Iterator[psycopg.Connection]:
    """PostgreSQL's session of the file, with what tests leave in it."""
    with cluster.connect(database) as connection:
        yield connection


@pytest.fixture
def post(file_session: psycopg.Connection) -> psycopg.Connection:
    """The same without tables and with the usual settings."""
    file_session.execute("DISCARD TEMP")
    file_session.execute("RESET ALL")
    tables = [name for (name,) in file_session.execute(OWN_TABLES).fetchall()]
    if tables:
        file_session.execute(f"DROP TABLE {', '.join(tables)} CASCADE")
    return file_session


@pytest.fixture(params=["duck", "post"])
def session(request: pytest.FixtureRequest) -> tuple[str, Any]:
    """The name of a database, and an empty session in it."""
    fixture = "con" if request.param == "duck" else "post"
    return request.param, request.getfixturevalue(fixture)
