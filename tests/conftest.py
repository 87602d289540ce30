"""What every test may ask for.

Nothing here imports a database before a test asks for one: those of a GPU run where there is none.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import tuskml
from tuskml.databases.connection import set_store_root
from tuskml.learners import registry
from tuskml.learners.linear.own import operators as own_operators
from tuskml.learners.linear.own import tasks as own_tasks
from tuskml.udas.duckdb import extension_path

if TYPE_CHECKING:
    import duckdb

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests" / "helpers"))
sys.path.append(str(ROOT / "tests" / "catalogue"))
sys.path.append(str(ROOT))  # for `research`, which is not in the package

from counted import Counted  # noqa: E402
from sampling import leave_the_rest_to_the_night  # noqa: E402
from tried import WHOLE, Catalogue, family_of, tally  # noqa: E402, F401

# Trainings of tests that run beside each other do not share cores: a plan may follow its share.
SHARES = Path(gettempdir(), f"tuskml-shares-of-tests-{os.getpid()}")
os.environ["TUSKML_SHARES"] = str(SHARES)
atexit.register(SHARES.unlink, missing_ok=True)
# The same examples in each `make test`; those of `make nightly` are new ones each time.
settings.register_profile(
    "untimed", deadline=None, derandomize="TUSKML_EXAMPLES" not in os.environ
)
settings.load_profile("untimed")
EXAMPLES = 5
"""The most examples of a property that `make test` tries."""
STATEMENTS = """
import sys, tuskml
con = tuskml.connect(threads=2)
for sql in sys.argv[1:]:
    try:
        con.execute(sql).fetchall()
    except Exception as error:
        print(error)
"""
STATE = """
SELECT name, value FROM duckdb_settings()
UNION ALL SELECT 'database', database_name FROM duckdb_databases()
UNION ALL SELECT 'schema', schema_name FROM duckdb_schemas()
UNION ALL SELECT 'type', type_name FROM duckdb_types() WHERE NOT internal
UNION ALL SELECT 'sequence', sequence_name FROM duckdb_sequences()
UNION ALL SELECT 'variable', name FROM duckdb_variables() WHERE NOT starts_with(name, '_tusk_')
UNION ALL SELECT 'statement', name FROM duckdb_prepared_statements()
UNION ALL SELECT 'secret', name FROM duckdb_secrets() ORDER BY ALL
"""
FUNCTIONS = """
SELECT database_name, function_name, count(*) FROM duckdb_functions() GROUP BY ALL ORDER BY ALL
"""
LEFT = """
SELECT 'VIEW', database_name, schema_name, view_name FROM duckdb_views() WHERE NOT internal
UNION ALL
SELECT 'TABLE', database_name, schema_name, table_name FROM duckdb_tables() WHERE NOT internal
"""


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs beside
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests press Ctrl-C
    path = config.getoption("faults_json")
    config.pluginmanager.register(Catalogue(path and Path(path).absolute()), "faults")
    config.pluginmanager.register(Counted(), "counted")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults-json", help="a file for what tests of faults tried and found")
    parser.addoption(
        "--golden-update",
        action="store_true",
        help="write what databases answer to tests/sql/golden/cases/*.out, to be read in review",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests go to one process, as with loadfile; those of dbt share their projects."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFile(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            folder = file.rpartition("/")[0]
            return folder if folder.endswith("tests/dbt") else file

    return ByFile(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what is of the night, unless -m or the name of a test asks for it.

    Not by -m in addopts, whose place a -m on the command line would take.
    """
    named = any("::" in name for name in config.args)
    if "TUSKML_EXAMPLES" in os.environ or not named:
        change_examples({item.obj for item in items if isinstance(item, pytest.Function)})
    leave_the_rest_to_the_night(items)
    if "nightly" in config.getoption("markexpr") or named:
        return
    left_out = [
        item
        for item in items
        if item.get_closest_marker("nightly") and not (WHOLE and family_of(item))
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        nightly = set(left_out)
        items[:] = [item for item in items if item not in nightly]


def change_examples(functions: Iterable[Any]) -> None:
    """Tries every property with TUSKML_EXAMPLES times the examples that its test asks for.

    Without that variable it tries at most EXAMPLES, the same in each run. hypothesis has no public
    way to change what a test's own @settings say.
    """
    where = "_hypothesis_internal_use_settings"
    times = int(os.environ.get("TUSKML_EXAMPLES", "0"))
    for function in functions:
        if usual := getattr(function, where, None):
            n = times * usual.max_examples if times else min(usual.max_examples, EXAMPLES)
            setattr(function, where, settings(usual, max_examples=n))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints how tests failed that `--reruns` ran again: a fault of theirs, or of ours."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"failed once: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def folders() -> dict[str, str]:
    """Each top-level folder and the name it is imported by, as setup.py has them."""
    link_tree = runpy.run_path(str(ROOT / "scripts" / "link_tree.py"))
    return link_tree["read_folders"]()


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
            build = os.environ.get("TUSKML_POSTGRES_BUILD", "build/postgres")
            server = stack.enter_context(private_cluster(ROOT / build))
        except Unavailable as reason:
            without_postgres(str(reason))
        yield server


@pytest.fixture(scope="module")
def database(cluster: Any, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the module's own database, fresh, with the extension."""
    name = f"tusk_{request.node.path.stem}"
    crashes = cluster.crashes()
    cluster.create_database(name)
    yield name
    cluster.drop_database(name)
    assert cluster.crashes() == crashes, "a server process crashed in this module"


@pytest.fixture
def connect(cluster: Any, database: str) -> Iterator[Callable[..., Any]]:
    """Opens sessions in the module's database, `connect(user="ann")` for one of another role."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(cluster.connect(database, **options))


@pytest.fixture
def served() -> Iterator[Path]:
    """A folder that the server's user may read; pytest's own are closed to others by each run."""
    with TemporaryDirectory(prefix="tuskml-served-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def without_postgres(reason: str) -> None:
    """Skips a test, unless PostgreSQL was promised."""
    if os.environ.get("TUSKML_REQUIRE_POSTGRES"):
        pytest.fail(f"TUSKML_REQUIRE_POSTGRES is set: {reason}")
    pytest.skip(reason)


@pytest.fixture
def new_con() -> Iterator[duckdb.DuckDBPyConnection]:
    """A new database with tuskml loaded, for tests of what databases keep."""
    with tuskml.connect(threads=2) as connection:
        yield connection


@pytest.fixture(scope="session")
def spare_con() -> Iterator[list[Any]]:
    """The database that the next file has, and its state when it was new."""
    kept: list[Any] = []
    yield kept
    if kept:
        kept[0].close()


@pytest.fixture(scope="module")
def file_con(spare_con: list[Any]) -> Iterator[list[Any]]:
    """A database of the file's tests, with tuskml loaded, and its state when it was new.

    The next file has the same one, unless the file leaves more than tables and views in it.
    """
    kept = spare_con[:]
    spare_con.clear()
    yield kept
    if len(kept) == 2 and is_new(*kept):
        spare_con += kept
    elif kept:
        kept[0].close()


@pytest.fixture
def con(file_con: list[Any]) -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty database with tuskml loaded: that of the test before, which takes less time.

    After a test that leaves more than tables and views in it there is a new one.
    """
    if not file_con:
        connection = tuskml.connect(threads=2)
        file_con += [connection, state_of(connection)]
    yield file_con[0]
    if not emptied(*file_con[:2]):
        file_con[0].close()
        file_con.clear()


@pytest.fixture
def with_root(
    con: duckdb.DuckDBPyConnection, file_con: list[Any]
) -> Callable[[str | Path], duckdb.DuckDBPyConnection]:
    """The same, whose models with the option `store` lie in the folder that is given."""

    def rooted_at(folder: str | Path) -> duckdb.DuckDBPyConnection:
        file_con[2:] = ["a root, which stays: no database for the next file"]
        set_store_root(con, folder, ctypes.CDLL(str(extension_path())))
        return con

    return rooted_at


@pytest.fixture
def rooted(with_root: Callable[..., Any], tmp_path: Path) -> duckdb.DuckDBPyConnection:
    """The same with the test's own folder."""
    return with_root(tmp_path)


def state_of(connection: duckdb.DuckDBPyConnection) -> dict[str, list[Any]]:
    """What a database and its connection have beside tables and views."""
    return {query: connection.execute(query).fetchall() for query in (STATE, FUNCTIONS)}


def emptied(connection: duckdb.DuckDBPyConnection, new: dict[str, list[Any]]) -> bool:
    """Drops tables and views; whether the database is then as it was, but for its functions."""
    import duckdb

    try:
        for kind, *names in connection.execute(LEFT).fetchall():
            place = ".".join(f'"{name}"' for name in names)
            connection.execute(f"DROP {kind} {place} CASCADE")
        return bool(connection.execute(STATE).fetchall() == new[STATE])
    except duckdb.Error:
        return False


def is_new(connection: duckdb.DuckDBPyConnection, new: dict[str, list[Any]]) -> bool:
    """Whether the database is as it was when it was new. A look at all functions takes 30 ms."""
    import duckdb

    try:
        return state_of(connection) == new
    except duckdb.Error:
        return False


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Forgets the tasks, operators and learners that a test registers."""
    yield
    for name in list(own_tasks.OWN):
        own_tasks.unregister_task(name)
    for name in list(own_operators.ALGORITHMS):
        own_operators.unregister_algorithm(name)
    for kind, operators in own_operators.OPERATORS.items():
        for name in list(operators):
            own_operators.unregister_operator(kind, name)
    registry.ADDED.clear()


@pytest.fixture(scope="session", autouse=True)
def untouched() -> Iterator[None]:
    """No test leaves a file in the checkout: its own folder is `tmp_path`."""
    before = set(ROOT.iterdir())
    yield
    left = [path.name for path in set(ROOT.iterdir()) - before if not path.name.startswith(".")]
    assert set(left) <= {"build"}, "a test wrote into the checkout, expected tmp_path"


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

    DuckDB 1.5 hands C aggregates one state for all rows of OVER () and of ORDER BY within an
    aggregate, as if there were an array of them.
    """

    def run(*statements: str) -> None:
        import duckdb

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
