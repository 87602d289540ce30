"""What every test may ask for."""

import runpy
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tuskml

ROOT = Path(__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--golden-update",
        action="store_true",
        help="write what the database answers to tests/sql/cases/*.out, to be read in review",
    )


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def rooms() -> dict[str, str]:
    """Each room's folder and the name it is imported by, as setup.py has them."""
    link_tree = runpy.run_path(str(ROOT / "scripts" / "link_tree.py"))
    return link_tree["read_rooms"]()


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database with tuskml loaded."""
    with tuskml.connect(threads=2) as connection:
        yield connection


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data that lies beside the checkout; its README says what is in it."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real data is not there: no folder {folder}")
    return folder
