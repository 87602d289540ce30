"""What every test may ask for."""

# ruff: noqa: E501, SQL is read better on one line

import atexit
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tuskml
from tuskml.udas import own_operators, own_tasks

ROOT = Path(__file__).resolve().parent.parent
STATEMENTS = """
import sys, tuskml
con = tuskml.connect(threads=2)
for sql in sys.argv[1:]:
    try:
        con.execute(sql).fetchall()
    except Exception as error:
        print(error)
"""


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


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A running PostgreSQL whose template database has the extension (tests/postgres/cluster.py).

    Where the machine has none the tests are skipped, or fail if TUSKML_REQUIRE_POSTGRES is set.
    """
    sys.path.append(str(ROOT / "tests" / "postgres"))
    with ExitStack() as stack:
        atexit.register(stack.close)
        try:
            from cluster import Unavailable, private_cluster
        except ImportError as error:
            without_postgres(f"no psycopg, of tuskml[postgres]: {error}")
        try:
            worker = os.environ.get("PYTEST_XDIST_WORKER", "")  # each builds and serves its own
            server = stack.enter_context(private_cluster(ROOT / "build" / f"postgres{worker}"))
        except Unavailable as reason:
            without_postgres(str(reason))
        yield server


def without_postgres(reason: str) -> None:
    """Skips a test, unless PostgreSQL was promised."""
    if os.environ.get("TUSKML_REQUIRE_POSTGRES"):
        pytest.fail(f"TUSKML_REQUIRE_POSTGRES is set: {reason}")
    pytest.skip(reason)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database with tuskml loaded."""
    with tuskml.connect(threads=2) as connection:
        yield connection


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Forgets the tasks and operators that a test registers."""
    yield
    for name in list(own_tasks.OWN):
        own_tasks.unregister_task(name)
    for name in list(own_operators.ALGORITHMS):
        own_operators.unregister_algorithm(name)
    for kind, operators in own_operators.OPERATORS.items():
        for name in list(operators):
            own_operators.unregister_operator(kind, name)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data that lies beside the checkout; its README says what is in it."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"real data is not there: no folder {folder}")
    return folder


@pytest.fixture(scope="session")
def survives() -> Callable[..., None]:
    """Runs statements in a process of their own: one that ends it would end all tests.

    DuckDB 1.4 and 1.5 hand C aggregates one state for all rows of OVER () and of ORDER BY within an
    aggregate, as if there were an array of them.
    """

    def run(*statements: str) -> None:
        if duckdb.__version__ >= "2":
            return
        done = subprocess.run(
            [sys.executable, "-c", STATEMENTS, *statements],
            capture_output=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, f"the process ended with {done.returncode}: {statements[-1]}"

    return run
