"""A private server for the session, a fresh database for each module.

`pg` is the module's connection, `connect()` opens more sessions on its database, `cluster` is the
server (both of tests/conftest.py). Without PostgreSQL on this machine the tests are skipped, or
fail where TUSKML_REQUIRE_POSTGRES is set.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

sys.path.append(str(Path(__file__).parent))

from cluster import Cluster


@pytest.fixture(scope="module")
def pg(cluster: Cluster, database: str) -> Iterator[psycopg.Connection]:
    """A session of the superuser in the module's database; each statement commits."""
    with cluster.connect(database) as connection:
        yield connection
