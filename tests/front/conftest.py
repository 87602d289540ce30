"""A database of PostgreSQL for a module of tests, with its rows."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def filled(cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a database in which the module's ROWS ran."""
    name = "tusk_" + request.module.__name__.removeprefix("test_")
    cluster.create_database(name)
    with cluster.connect(name) as connection:
        connection.execute(request.module.ROWS)
    yield name
    cluster.drop_database(name)


@pytest.fixture
def pg(cluster, filled: str) -> Iterator[Any]:
    """A connection to it."""
    with cluster.connect(filled) as connection:
        yield connection


@pytest.fixture
def url(cluster, filled: str) -> str:
    """Its URL."""
    return f"postgresql://postgres@/{filled}?host={cluster.folder}&port={cluster.port}"
