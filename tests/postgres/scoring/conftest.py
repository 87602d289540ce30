"""DuckDB, whose answers are compared."""

import pytest

import tuskml


@pytest.fixture(scope="module")
def duck():
    with tuskml.connect(threads=1) as connection:
        yield connection
