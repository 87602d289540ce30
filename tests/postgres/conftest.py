"""A private server for the session, a fresh database for each module.

`pg` is the module's connection, `connect()` opens more sessions on its database, `cluster` (of
tests/conftest.py) is the server. Without PostgreSQL on this machine the tests are skipped, or fail
where TUSKML_REQUIRE_POSTGRES is set.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

sys.path.append(str(Path(__file__).parent))

from cluster import Cluster


@pytest.fixture(scope="module")
def database(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the module's own database, fresh, with the extension."""
    name = f"tusk_{request.node.path.stem}"
    crashes = cluster.crashes()
    cluster.create_database(name)
    yield name
    cluster.drop_database(name)
    assert cluster.crashes() == crashes, "a server process crashed in this module"


@pytest.fixture(scope="module")
def pg(cluster: Cluster, database: str) -> Iterator[psycopg.Connection]:
    """A session of the superuser in the module's database; each statement commits."""
    with cluster.connect(database) as connection:
        yield connection


@pytest.fixture
def connect(cluster: Cluster, database: str) -> Iterator[Callable[..., psycopg.Connection]]:
    """Opens sessions in the module's database, `connect(user="ann")` for one of another role."""
    with ExitStack() as stack:

        def open_session(**options: object) -> psycopg.Connection:
            return stack.enter_context(cluster.connect(database, **options))

        yield open_session
