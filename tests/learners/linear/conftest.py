"""What tests of linear models share."""

import duckdb
import pytest


@pytest.fixture
def con(emptied_con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """An empty database with tuskml loaded, one for a file."""
    return emptied_con
