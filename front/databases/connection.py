"""DuckDB connections with tuskml loaded."""

import ctypes
import os
import re
import threading
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

import tuskml.sql
from tuskml.databases import trust
from tuskml.databases.hosted import check_version
from tuskml.databases.interrupts import share_interrupts
from tuskml.databases.limits import cursor_of, own_cluster, share_limits
from tuskml.errors import StoreError
from tuskml.groups.contract.attachment import attach
from tuskml.groups.execution.choosing import place_of
from tuskml.lazy import lazy_function
from tuskml.schedule.pool import hold_in_forks
from tuskml.udas.duckdb import extension_path
from tuskml.udas.model_fields import MODEL_FIELDS

PATH_BYTES = 4096
MEMORY = ":memory:"
"""The path of a database that is new and of one connection."""
USUAL_EXECUTOR = "CREATE OR REPLACE TEMP MACRO _tusk_executor() AS '{}';"
"""The macro that stores where a connection trains by group."""
UNSIGNED = "allow_unsigned_extensions"
_loading = hold_in_forks(threading.RLock())


def connect(
    path: str | Path = MEMORY,
    *,
    store_root: str | Path | None = None,
    executor: str | None = None,
    cluster: str | None = None,
    lease: str | None = None,
    **config: Any,
) -> duckdb.DuckDBPyConnection:
    """Opens a DuckDB database with tuskml loaded.

    path: a file, or ":memory:"; config: `read_only`, and DuckDB's settings such as
    `memory_limit="4GB"` or `threads=8`; store_root: the directory of models with the option
    `store`, which may begin with ~; by default the environment's TUSKML_STORE_ROOT, or the user's
    data folder; executor: where `tuskml.train` on this connection trains groups of Parquet files,
    unless it is told otherwise: "ray", the address of a Ray cluster, or "threads"; cluster: the
    same; lease: a duration such as "10m", for which trainings of this process lease the workers
    of that Ray cluster; by default the environment's TUSKML_CLUSTER_LEASE, or to their end.

    >>> con = connect(threads=2)
    >>> con.execute("SELECT accuracy(a, b) FROM (VALUES (1, 1), (0, 1)) t(a, b)").fetchone()
    (0.5,)
    """
    usual = place_of(executor, cluster)
    if lease is not None:
        from tuskml.groups.execution.leases import choose_lease  # slow to import

        choose_lease(usual, lease)
    read_only = bool(config.pop("read_only", False))
    settings = {name: str(value) for name, value in config.items()} | trusting(config)
    connection = duckdb.connect(str(path), read_only=read_only, config=settings)
    try:
        _load(connection, store_root, is_new=str(path) == MEMORY)
        if usual is not None:
            create_macros(connection, USUAL_EXECUTOR.format(usual))
            own_cluster(connection, usual)
        return connection
    except BaseException:
        connection.close()
        raise


def load(
    connection: duckdb.DuckDBPyConnection, store_root: str | Path | None = None
) -> duckdb.DuckDBPyConnection:
    """Loads tuskml into an open connection's database and returns the connection.

    A connection of DuckDB 2.0 that tuskml did not open needs `tuskml install` once. In DuckDB 1.5
    the database must allow unsigned extensions, which DuckDB decides when it is opened.
    store_root: as for `connect`; None leaves it as it is.
    """
    return _load(connection, store_root)


def _load(
    connection: duckdb.DuckDBPyConnection,
    store_root: str | Path | None = None,
    is_new: bool = False,
) -> duckdb.DuckDBPyConnection:
    """The same; is_new: whether the database is empty, so that it has no macros of our names."""
    path = extension_path()
    with _loading:
        library = ctypes.CDLL(str(path))
        check_version(library, "reinstall tuskml")
        library.tusk_package_loads(1)
        try:
            if holds(connection, f"SELECT current_setting('{UNSIGNED}')"):
                connection.execute(f"LOAD '{str(path).replace(chr(39), chr(39) * 2)}'")
            else:
                trust.load_signed(connection)
        finally:
            library.tusk_package_loads(0)
        attach(library, str(path))
        share_interrupts()
        share_limits(connection, library)
        share_rounds(library)
        if store_root is not None:
            set_store_root(connection, store_root, library)
        run_macros(connection, is_new)
    return connection


def trusting(config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with which DuckDB trusts the extension, next to those that the user gives.

    None after `tuskml install`: then such a connection is as plain ones, and both may open the
    same file in one process.
    """
    if UNSIGNED in config or trust.DIRECTORY in config:
        return {}
    if not trust.is_possible():
        return {UNSIGNED: "true"}
    if "extension_directory" not in config and trust.is_ready(trust.of_user()):
        return {}
    found = trust.of_package().settings()
    own = config.get(trust.DIRECTORIES) or [config.get("extension_directory", trust.DUCKDB_FOLDER)]
    return found | {trust.DIRECTORIES: [*own, str(trust.of_package().extensions)]}


def set_store_root(
    connection: duckdb.DuckDBPyConnection, path: str | Path, library: ctypes.CDLL
) -> None:
    """Says where the database's stored models lie, for all of its connections.

    Not by SQL: the program that opens the database is not bound by `lock_configuration`.
    """
    from tuskml.kvstore.access import expand_home  # slow to import

    account = connection.execute("SELECT _tusk_account()").fetchall()[0][0]
    where = os.fsencode(expand_home(path).absolute())
    if len(where) >= PATH_BYTES or not library.tusk_set_root(ctypes.c_int64(account), where):
        raise StoreError(f"store_root has {len(where)} bytes, a path has fewer than {PATH_BYTES}")


IN_MEMORY = "SELECT path IS NULL FROM duckdb_databases() WHERE database_name = current_database()"


def rows_read() -> int:
    """Counts the rows that trainings of this process have read in DuckDB so far."""
    library = ctypes.CDLL(str(extension_path()))
    library.tusk_rows_read.restype = ctypes.c_int64
    return int(library.tusk_rows_read())


MADE_BY_LOAD = """
SELECT path IS NULL AND database_oid = (
    SELECT min(database_oid) FROM duckdb_databases() WHERE NOT internal
) FROM duckdb_databases() WHERE database_name = current_database()
"""
"""LOAD makes macros.sql in the database that was opened, if that is in memory."""
LOADED = "CREATE OR REPLACE TEMP MACRO _tusk_loaded() AS true;"
"""The macro that `load` leaves in a connection; LOAD alone makes the other macros in memory
too.
"""


def is_loaded(connection: duckdb.DuckDBPyConnection) -> bool:
    """Returns whether `load` has been called for the connection, or its database in memory.

    A search among all functions takes 25 ms, so a connection that has the macros keeps a variable.
    """
    if holds(connection, f"SELECT getvariable('{MARK}')"):
        return True
    query = "SELECT true FROM duckdb_functions() WHERE function_name = '_tusk_loaded' LIMIT 1"
    found = holds(connection, query)
    if found:
        keep_mark(connection)
    return found


MARK = "_tusk_loaded"
"""A variable of a connection that has the macros."""


def keep_mark(connection: duckdb.DuckDBPyConnection) -> None:
    """Sets the variable, unless a rollback might yet remove the macros: it keeps variables."""
    before, after = (connection.execute("SELECT txid_current()").fetchall() for _ in range(2))
    if before != after:  # each statement has a transaction of its own
        connection.execute(f"SET VARIABLE {MARK} = true")


def ensure_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Creates the macros for a cursor whose connection may have them already."""
    if not is_loaded(connection):
        run_macros(connection)


def run_macros(connection: duckdb.DuckDBPyConnection, is_new: bool = False) -> None:
    """Runs the functions that are written in SQL; is_new: as for `_load`.

    A database file keeps nothing of tuskml: its macros belong to the connection, and a cursor gets
    them by `load(cursor)`. In memory every cursor sees them. The mark that they exist is made
    last: the next call completes an interrupted one.
    """
    names = sql_text("names.sql") if is_new else documented_macros(connection)
    text = sql_text("macros.sql") + names
    connection.execute(text)
    if holds(connection, IN_MEMORY) and not holds(connection, MADE_BY_LOAD):
        connection.execute(for_all_cursors(text))
    run_registry_macros(connection)
    create_macros(connection, LOADED)
    keep_mark(connection)


def documented_macros(connection: duckdb.DuckDBPyConnection) -> str:
    """The macros by their names without a prefix, but for names that the database's own have."""
    clashes = connection.execute(sql_text("taken.sql")).fetchall()
    text = sql_text("names.sql")
    if not clashes:
        return text
    ((taken, sentence),) = clashes
    warnings.warn(sentence, stacklevel=2)
    theirs = re.compile(rf"CREATE OR REPLACE TEMP MACRO ({'|'.join(taken)})\b")
    statements = re.split(r"(?m)^(?=CREATE )", text)
    return "".join(one for one in statements if not theirs.match(one))


def sql_text(name: str) -> str:
    """A script of those that DuckDB runs."""
    return (Path(tuskml.sql.__file__).parent / "duckdb" / name).read_text()


def create_macros(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """Macros of the connection, and in memory of the database."""
    connection.execute(text)
    if holds(connection, IN_MEMORY):
        connection.execute(for_all_cursors(text))


def holds(connection: duckdb.DuckDBPyConnection, query: str) -> bool:
    """Returns whether the query's one answer is true."""
    rows = connection.execute(query).fetchall()  # all: a result that is left open is in the way
    return bool(rows and rows[0][0])


def for_all_cursors(text: str) -> str:
    """Changes the macros' scope from the connection to the database."""
    return text.replace(" TEMP ", " ")


SHARED = "tuskml_macros"
"""A second, in-memory database, whose macros several cursors see. LOAD makes it next to a
database file if the package does not load the extension (macros.c).
"""
IS_SHARED = f"SELECT path IS NULL FROM duckdb_databases() WHERE database_name = '{SHARED}'"
SEARCHED = """
SELECT coalesce(nullif(current_setting('search_path'), ''),
                '"' || replace(current_database(), '"', '""') || '"."'
                || replace(current_schema(), '"', '""') || '"')
"""


def share_macros(connection: duckdb.DuckDBPyConnection) -> bool:
    """Makes the macros once for all cursors of a file that `see_macros`; whether that is possible.

    To make them costs each cursor 0.1 s, and the file is to keep none of them. What tells that a
    connection is loaded is not among them, as other cursors do not see them.
    """
    if holds(connection, IN_MEMORY):
        return False  # which has them for all cursors
    try:
        by_load = holds(connection, IS_SHARED)
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {SHARED} (READ_WRITE)")
        if not holds(connection, IS_SHARED):
            return False
        with connection.cursor() as other:  # without temporary macros, which would be found first
            if not see_macros(other):
                return False
            if not by_load:
                other.execute(as_shared(sql_text("macros.sql") + sql_text("names.sql")))
            other.execute(as_shared(registry_macros(connection)))
    except duckdb.Error:  # the program may attach nothing
        return False
    return True


def see_macros(cursor: duckdb.DuckDBPyConnection) -> bool:
    """Adds the shared macros to a cursor's search path; returns whether its configuration
    allows that.
    """
    try:
        path = cursor.execute(SEARCHED).fetchall()[0][0].replace("'", "''")
        cursor.execute(f"SET search_path = '{path},{SHARED}.main'")
    except duckdb.Error:
        return False
    return True


def as_shared(text: str) -> str:
    """The macros as those of the database that is shared."""
    return re.sub(r" TEMP (MACRO |TYPE IF NOT EXISTS )", rf" \1{SHARED}.main.", text)


REGISTRY_SCHEMA = """
SELECT 1 FROM duckdb_schemas()
WHERE database_name = current_database() AND schema_name = 'tuskml'
"""
"""Asked first: the first look at `duckdb_columns` costs a new connection 15 ms."""
REGISTRY = """
SELECT contains(data_type, 'payload BLOB') FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = 'tuskml' AND table_name = 'models'
AND column_name = 'model'
"""
ALL_FIELDS = """
SELECT data_type = typeof(CAST(NULL AS {model})) FROM duckdb_columns()
WHERE database_name = current_database() AND schema_name = 'tuskml' AND table_name = 'models'
AND column_name = 'model'
"""
OLDER_REGISTRY = """
CREATE OR REPLACE TEMP MACRO _tusk_no_registry(asked) AS
    error(asked || ': the registry holds models of an older tuskml, without a payload: '
          || 'tuskml models create DATABASE renews them, in Python '
          || 'tuskml.registry.create(connection)');
"""
RENEWED = """
BEGIN;
DROP VIEW IF EXISTS tuskml.deployed;
ALTER TABLE tuskml.models ALTER COLUMN model TYPE {model} USING {renewed}(model);
COMMIT;
"""


def run_registry_macros(connection: duckdb.DuckDBPyConnection) -> None:
    """Models by name, where the current database has a registry (sql/duckdb/registry.sql)."""
    text = registry_macros(connection)
    if text:
        create_macros(connection, text)


def registry_macros(connection: duckdb.DuckDBPyConnection) -> str:
    """Returns the SQL that makes these macros; "" if there is no registry."""
    if not connection.execute(REGISTRY_SCHEMA).fetchall():
        return ""
    found = connection.execute(REGISTRY).fetchone()
    if found is None:
        return ""
    return sql_text("registry_macros.sql") if found[0] else OLDER_REGISTRY


def renew_registry(connection: duckdb.DuckDBPyConnection) -> None:
    """Gives the models of an older registry all fields that models have now.

    A payload that is there stays as it is.
    """
    has_payload = connection.execute(REGISTRY).fetchone()
    if has_payload is None:
        return
    fields = ", ".join(f"{field.name} {field.duckdb}" for field in MODEL_FIELDS)
    model = f"STRUCT({fields})"
    if not holds(connection, ALL_FIELDS.format(model=model)):
        renewed = "_tusk_model" if has_payload[0] else "with_payload"
        connection.execute(RENEWED.format(model=model, renewed=renewed))


TEXTS = 9
TEXT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_char_p))
_library: list[ctypes.CDLL] = []


def _write(where: int, account: int, given: Any) -> None:
    """Called while DuckDB plans `train(...)`. For invalid arguments there is no text, and the
    statement on all rows reports the error.
    """
    with suppress(BaseException):
        with cursor_of(account) as cursor:
            if cursor is None:
                return
            texts = [part.decode() for part in given[:TEXTS]]
            text = lazy_function("train_statement")(cursor, account, texts)
        if text is not None:
            _library[0].tusk_rounds_text(ctypes.c_void_p(where), text.encode())


_callback = TEXT(_write)


def share_rounds(library: ctypes.CDLL) -> None:
    """Lets the extension ask."""
    _library[:] = [library]
    library.tusk_set_rounds(_callback)
