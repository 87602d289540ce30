"""Suites of others, through SQL in both databases: `make foreign`.

Tests compare cases and note them in the table that is printed at the end: how many numbers agree,
and how many differ, with the reason that a test gives. A difference without a reason fails.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

from foreign_databases import Database, Duck, Post
from tally import Tally

TALLY = Tally()
BUILD = Path(__file__).parents[2] / "build" / "foreign"


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Only `-m foreign` looks into this folder, whose imports take seconds."""
    return None if "foreign" in config.getoption("markexpr") else True


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all of this folder."""
    for item in items:
        if item.nodeid.startswith("tests/foreign/"):
            item.add_marker(pytest.mark.foreign)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints what agreed and what did not, and writes it to build/foreign."""
    for line in TALLY.table():
        terminalreporter.write_line(line)
    TALLY.write(BUILD)


@pytest.fixture(scope="session")
def tally() -> Tally:
    """The table of cases."""
    return TALLY


@pytest.fixture(scope="module", params=["DuckDB", "PostgreSQL"])
def both(request: pytest.FixtureRequest) -> Iterator[Database]:
    """Either database, with tuskml."""
    if request.param == "DuckDB":
        with Duck() as found:
            yield found
        return
    cluster = request.getfixturevalue("cluster")
    name = f"foreign_{request.node.path.stem}"
    cluster.create_database(name)
    with cluster.connect(name) as connection:
        yield Post(connection)
    cluster.drop_database(name)
