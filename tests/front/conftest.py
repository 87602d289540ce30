"""A database of PostgreSQL for a module of tests, with its rows; and one of either kind for the registry."""

# ruff: noqa: E501, SQL is read better on one line

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import tuskml
from tuskml import registry


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


RIDES = {
    "duckdb": "CREATE TABLE rides AS SELECT i % 3 AS city, i % 10 AS km, 3 + 2 * (i % 10) + i % 3 AS fare FROM range(90) AS t(i)",
    "postgres": "CREATE TABLE rides AS SELECT i % 3 AS city, i % 10 AS km, 3 + 2 * (i % 10) + i % 3 AS fare FROM generate_series(0, 89) AS t(i)",
}


@dataclass
class Place:
    """A database with the table rides: fare = 3 + city + 2 km."""

    kind: str
    connection: Any
    address: str
    """What the command line takes."""

    def sql(self, query: str) -> list[tuple]:
        cursor = self.connection.execute(query)
        return cursor.fetchall() if self.kind == "duckdb" or cursor.description else []

    def features(self, item: str) -> str:
        return f"[{item}]" if self.kind == "duckdb" else f"ARRAY[{item}]"

    def predict(self, *arguments: str, function: str = "predict") -> float:
        *names, features = arguments
        call = f"{function}({', '.join([*names, self.features(features)])})"
        return self.sql(f"SELECT {call}")[0][0]

    def fit(self, **given: Any) -> Any:
        """A model of rides, or with group_by="city" three."""
        return tuskml.train(
            self.connection, "linear", source="rides", label="fare", features="km", **given
        )

    def stages(self, name: str) -> dict[tuple[str, int], str]:
        """Of a model in the registry, by group and version."""
        return {(e.group_key, e.version): e.stage for e in registry.entries(self.connection, name)}


@pytest.fixture(scope="module")
def make_place(
    cluster: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Place]]:
    made: list[tuple[Any, str]] = []

    def make(kind: str) -> Place:
        if kind == "duckdb":
            path = str(tmp_path_factory.mktemp("registry") / "rides.duckdb")
            place = Place(kind, tuskml.connect(path), path)
        else:
            name = f"tusk_registry_{len(made)}"
            cluster.create_database(name)
            url = f"postgresql://postgres@/{name}?host={cluster.folder}&port={cluster.port}"
            place = Place(kind, cluster.connect(name), url)
        made.append((place.connection, place.address))
        place.sql(RIDES[kind])
        return place

    yield make
    for place, (connection, address) in enumerate(made):
        connection.close()
        if address.startswith("postgresql:"):
            cluster.drop_database(f"tusk_registry_{place}")


@pytest.fixture(params=["duckdb", "postgres"])
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    found = make_place(request.param)
    registry.create(found.connection)
    return found
