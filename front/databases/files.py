"""DuckDB files by path or URL: existing ones, and new ones.

One rule for every command and function: one that writes into a database makes its file, one that
only reads rejects a missing file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from tuskml.errors import DataError

IN_MEMORY = ":memory:"
DUCKDB_URL = "duckdb://"


def file_of(given: str | Path, make: bool = False) -> str:
    """The DuckDB file of a path or of an SQLAlchemy URL, `duckdb:///file`; or ":memory:".

    make: whether it need not exist. Raises DataError if it must, and does not.
    """
    path = str(given)
    if path.startswith(DUCKDB_URL):
        path = path.removeprefix(DUCKDB_URL).removeprefix("/").partition("?")[0] or IN_MEMORY
    url = "://" in path
    missing = not url and path != IN_MEMORY and not Path(path).exists()
    if url or (missing and not (make and Path(path).absolute().parent.is_dir())):
        scheme = path.partition("://")[0]  # the rest may hold a password
        what = f"the URL {scheme}://..." if url else f"{str(given)!r}, a file that does not exist"
        raise DataError(
            f"connection is {what}; expected a DuckDB file, ':memory:' or a URL such as "
            "postgresql://user@host/name or duckdb:///file"
        )
    return path


@contextmanager
def remove_on_failure(path: str) -> Iterator[None]:
    """Removes the empty file that a failure within would leave, so that a typing error makes
    none.
    """
    new = path != IN_MEMORY and not Path(path).exists()
    try:
        yield
    except BaseException:
        if new and empty(path):
            for file in (Path(path), Path(f"{path}.wal")):
                file.unlink(missing_ok=True)
        raise


CONTENT = """
SELECT 1 FROM duckdb_tables() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_views() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_schemas() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_sequences()
UNION ALL SELECT 1 FROM duckdb_types() WHERE NOT internal
UNION ALL SELECT 1 FROM duckdb_functions() WHERE NOT internal LIMIT 1
"""


def empty(path: str) -> bool:
    """Returns whether a closed database file holds nothing; False where that cannot be seen."""
    try:
        with duckdb.connect(path) as connection:
            return connection.execute(CONTENT).fetchone() is None
    except duckdb.Error:
        return False
