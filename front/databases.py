"""The two databases as a training from Python sees them: what they hold, how they spell things.

Statements are made of what `expressions.py` has checked; names are quoted here.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import duckdb

from tuskml.connection import connect, is_loaded, load
from tuskml.database_files import file_of, removed_on_failure
from tuskml.errors import DataError, ExtensionError, Interrupted, TuskError
from tuskml.expressions import quoted
from tuskml.mistyped import explained
from tuskml.model import FIELDS, Model
from tuskml.script import INTERRUPTED, PYTHON_OBJECT, sentence

if TYPE_CHECKING:
    import psycopg

Columns = list[tuple[str, str]]
FUNCTIONS = ("train_model: ", "explain_training: ", "predict: ", "predict_proba: ", "decision: ")
PREDICTOR = (
    "STRUCT(task VARCHAR, coef DOUBLE[], intercept DOUBLE, classes DOUBLE[], options VARCHAR)"
)
Row = tuple[Any, ...]
Result = TypeVar("Result")
URLS = ("postgresql://", "postgres://", "postgresql+psycopg://")
NUMBERS = ("INT", "FLOAT", "DOUBLE", "REAL", "DECIMAL", "NUMERIC", "BIGNUM", "VARINT")


def kind_of(type_name: str) -> str:
    """`array`, `sparse`, `boolean`, `number` or `other`: what a column can be in a training."""
    name = type_name.upper()
    if name.endswith("]"):
        return "array"
    if name.startswith("STRUCT") or "TUSKML_SPARSE" in name:
        return "sparse"
    if name.startswith("BOOL"):
        return "boolean"
    return "number" if any(number in name for number in NUMBERS) else "other"


class Database(Protocol):
    """What a training asks of a database."""

    connection: Any

    def fetch(self, query: str) -> list[Row]:
        """The rows of a query. TuskError, one sentence, where it fails."""
        ...

    def columns(self, query: str) -> Columns:
        """Names and types of a query's columns. TuskError where it is wrong."""
        ...

    def relation(self, names: Sequence[str]) -> str | None:
        """The table or view of these names (schema first) as SQL; None where there is none."""
        ...

    def tables(self) -> list[str]:
        """The names of the tables and views that there are."""
        ...

    def as_double(self, expression: str, type_name: str) -> str:
        """A number or boolean as a feature."""
        ...

    def array(self, items: Sequence[str]) -> str:
        """An array of expressions."""
        ...

    def text(self, value: str) -> str:
        """A literal."""
        ...

    def function(self, name: str) -> str:
        """A function of tuskml, wherever it lies."""
        ...

    def model(self, model: Model | None) -> str:
        """A model value, as far as predictions need it."""
        ...

    def models(self, query: str) -> Iterator[tuple[Row, dict[str, Any] | None]]:
        """Keys and model value of each row; the query's last column is the model."""
        ...

    def create(self, name: str, query: str) -> int:
        """Makes a table of a query; returns its number of rows."""
        ...


class DuckDB:
    """A DuckDB connection with tuskml loaded."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        if not self.told(is_loaded):
            try:
                load(connection)
            except duckdb.CatalogException as error:  # it began before the functions were there
                raise ExtensionError(
                    "tuskml cannot be loaded within a transaction: give the connection before one "
                    "begins, or the engine"
                ) from error

    def fetch(self, query: str) -> list[Row]:
        """The rows of a query; what goes wrong is one sentence."""
        return self.told(lambda connection: connection.execute(query).fetchall())

    def told(self, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        """What work does with the connection; what goes wrong is one sentence."""
        try:
            return work(self.connection)
        except duckdb.Error as error:
            raise failure(error, sentence(error)) from error
        except RuntimeError as error:  # what DuckDB makes of a Ctrl-C that came while it ran
            raise Interrupted(INTERRUPTED) from error

    def columns(self, query: str) -> Columns:
        return [(name, kind) for name, kind, *_ in self.fetch(f"DESCRIBE {query}")]

    def relation(self, names: Sequence[str]) -> str | None:
        sql = ".".join(map(quoted, names))
        try:
            self.connection.execute(f"DESCRIBE SELECT * FROM {sql}")
        except (duckdb.CatalogException, duckdb.IOException):  # also a CSV file that is not there
            return None
        except duckdb.InvalidInputException as error:
            if PYTHON_OBJECT.search(str(error)):
                return None
            raise failure(error, sentence(error)) from error
        except duckdb.BinderException as error:
            raise failure(error, sentence(error)) from error
        return sql

    def tables(self) -> list[str]:
        query = "SELECT table_name FROM information_schema.tables"
        return [name for (name,) in self.fetch(query)]

    def as_double(self, expression: str, type_name: str) -> str:
        return f"({expression})" if type_name == "FLOAT" else f"({expression})::DOUBLE"

    def array(self, items: Sequence[str]) -> str:
        return "[" + ", ".join(items) + "]"

    def text(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def function(self, name: str) -> str:
        return name

    def model(self, model: Model | None) -> str:
        if model is None:
            return f"NULL::{PREDICTOR}"
        fields = predictor_fields(model, self.text, listed, "DOUBLE")
        members = ", ".join(f"'{name}': {sql}" for name, sql in fields.items())
        return f"CAST({{{members}}} AS {PREDICTOR})"

    def models(self, query: str) -> Iterator[tuple[Row, dict[str, Any] | None]]:
        for *keys, value in self.fetch(query):
            yield tuple(keys), value

    def create(self, name: str, query: str) -> int:
        (count,) = self.fetch(f"CREATE TABLE {name} AS {query}")[0]
        return int(count)


SCHEMA = """
SELECT nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n
    ON n.oid = e.extnamespace WHERE extname = 'tuskml'
"""
TABLES = """
SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
    ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p') AND n.nspname NOT LIKE 'pg\\_%'
    AND n.nspname <> 'information_schema'
"""


class Postgres:
    """A psycopg connection to a database with the extension."""

    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self.connection = connection
        found = self.fetch(SCHEMA)
        if not found:
            raise ExtensionError(
                "the database has no extension tuskml: run tuskml postgres install --database URL"
            )
        self.schema = quoted(found[0][0])

    @property
    def encoding(self) -> str:
        """The session's, as Python calls it."""
        return str(self.connection.info.encoding)

    def _run(self, query: str) -> "psycopg.Cursor[Any]":
        """A statement in a transaction of its own, or below the caller's: it spoils none."""
        import psycopg
        from psycopg.rows import tuple_row

        cursor = self.connection.cursor(row_factory=tuple_row)
        try:
            with self.connection.transaction():
                cursor.execute(query.encode(self.connection.info.encoding))
        except psycopg.errors.QueryCanceled:
            raise
        except psycopg.Error as error:
            message = error.diag.message_primary or str(error)
            raise failure(error, explained(" ".join(message.split()))) from error
        return cursor

    def execute(self, statement: str) -> None:
        """A statement without rows."""
        self._run(statement)

    def fetch(self, query: str) -> list[Row]:
        """The rows of a query."""
        return self._run(query).fetchall()

    def columns(self, query: str) -> Columns:
        cursor = self._run(f"SELECT * FROM ({query}) AS described LIMIT 0")
        found = [(column.name, column.type_code) for column in cursor.description or ()]
        oids = sorted({oid for _, oid in found})
        listed = ", ".join(map(str, oids))
        types: dict[int, str] = dict(
            self.fetch(
                f"SELECT oid::bigint, pg_catalog.format_type(oid, NULL) "
                f"FROM pg_catalog.pg_type WHERE oid IN ({listed})"
            )
        )
        return [(name, types[oid]) for name, oid in found]

    def relation(self, names: Sequence[str]) -> str | None:
        for spelled in (names, [name.lower() for name in names]):
            sql = ".".join(map(quoted, spelled))
            if self.fetch(f"SELECT pg_catalog.to_regclass({self.text(sql)})")[0][0] is not None:
                return sql
        return None

    def tables(self) -> list[str]:
        return [name for (name,) in self.fetch(TABLES)]

    def as_double(self, expression: str, type_name: str) -> str:
        by_way_of = "::integer" if kind_of(type_name) == "boolean" else ""
        return f"({expression}){by_way_of}::double precision"

    def array(self, items: Sequence[str]) -> str:
        return "ARRAY[" + ", ".join(items) + "]"

    def text(self, value: str) -> str:
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'::text"

    def function(self, name: str) -> str:
        return f"{self.schema}.{name}"

    def model(self, model: Model | None) -> str:
        if model is None:
            return f"NULL::{self.function('tuskml_model')}"
        fields = predictor_fields(model, self.text, braced, "float8")
        row = ", ".join(fields.get(name, "NULL") for name in FIELDS)
        return f"CAST(ROW({row}) AS {self.function('tuskml_model')})"

    def models(self, query: str) -> Iterator[tuple[Row, dict[str, Any] | None]]:
        keys = len(self.columns(query)) - 1
        names = [f"tusk_k{i}" for i in range(keys)]
        shown = [
            *names,
            "tusk_model IS NULL",
            *(f"(tusk_model).{quoted(name)}" for name in FIELDS),
        ]
        trained = f"SELECT * FROM ({query}) AS t({', '.join([*names, 'tusk_model'])}) OFFSET 0"
        for row in self.fetch(f"SELECT {', '.join(shown)} FROM ({trained}) AS trained"):
            value = dict(zip(FIELDS, row[keys + 1 :], strict=True))
            yield row[:keys], None if row[keys] else value

    def create(self, name: str, query: str) -> int:
        return int(self._run(f"CREATE TABLE {name} AS {query}").rowcount)


def listed(numbers: Sequence[float]) -> str:
    """Doubles as text that gives the same doubles again."""
    return f"[{', '.join(map(repr, numbers))}]"


def braced(numbers: Sequence[float]) -> str:
    """The same as PostgreSQL writes arrays."""
    return f"{{{','.join(map(repr, numbers))}}}"


def predictor_fields(
    model: Model,
    text: Callable[[str], str],
    array: Callable[[Sequence[float]], str],
    double: str,
) -> dict[str, str]:
    """SQL of what predictions need of a model, by field.

    text: a literal of some text; array: numbers as the database reads an array; double: its type.
    """

    def doubles(numbers: Sequence[float] | None) -> str:
        return f"{text(array(numbers))}::{double}[]" if numbers else "NULL"

    return {
        "task": text(model.task),
        "coef": doubles(model.coef),
        "intercept": f"{text(repr(model.intercept))}::{double}",
        "classes": doubles(model.classes),
        "options": text(as_options(model)),
    }


def as_options(model: Model) -> str:
    """A model's options as text; the version of the format comes first, where `predict` looks."""
    first = {name: model.options[name] for name in ("tuskml",) if name in model.options}
    return json.dumps(first | model.options, separators=(",", ":"))


def failure(error: Exception, message: str) -> TuskError:
    """A database's error in one sentence; of what tuskml itself refuses, without the function."""
    if INTERRUPTED in message or isinstance(error, duckdb.InterruptException):
        return Interrupted(INTERRUPTED)
    for function in FUNCTIONS:
        if message.startswith(function):
            return DataError(message.removeprefix(function))
    if isinstance(error, duckdb.OutOfMemoryException):
        return TuskError(message)
    return DataError(message)


@contextmanager
def opened(connection: object, make: bool = False) -> Iterator[Database]:
    """The database behind what a caller gives: an open connection, a path, a URL or an engine.

    What is opened here is closed again; what was open stays open. make: whether the caller writes,
    so that a DuckDB file need not exist.
    """
    if isinstance(connection, duckdb.DuckDBPyConnection):
        yield DuckDB(connection)
    elif isinstance(connection, str) and connection.startswith(URLS):
        from tuskml.postgres import connected

        with connected(connection.replace("+psycopg://", "://", 1)) as session:
            yield Postgres(session)
    elif isinstance(connection, str | Path):
        path = file_of(connection, make)
        with removed_on_failure(path), connect(path) as session:
            yield DuckDB(session)
    else:
        with driver(connection) as session:
            yield session


@contextmanager
def driver(connection: Any) -> Iterator[Database]:
    """psycopg's connections, and SQLAlchemy's engines and connections above it or DuckDB."""
    module = type(connection).__module__.partition(".")[0]
    if module == "psycopg" and hasattr(connection, "transaction"):
        yield Postgres(connection)
    elif module == "duckdb_engine":  # its wrapper of a connection keeps it to itself
        inner = [
            item
            for item in vars(connection).values()
            if isinstance(item, duckdb.DuckDBPyConnection)
        ]
        yield DuckDB(inner[0])
    elif module == "sqlalchemy" and hasattr(connection, "render_as_string"):  # a URL
        with opened(connection.render_as_string(hide_password=False)) as found:
            yield found
    elif module == "sqlalchemy" and hasattr(connection, "dialect"):
        if hasattr(connection, "connect") and connection.dialect.name == "duckdb":
            with (
                closing(connection.raw_connection()) as raw,
                opened(raw.driver_connection) as found,
            ):
                yield found
        elif hasattr(connection, "connect"):
            with (
                connection.begin() as within,
                opened(within.connection.driver_connection) as found,
            ):
                yield found
        else:
            with opened(connection.connection.driver_connection) as found:
                yield found
    else:
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise DataError(
            f"connection is of type {kind}, expected a DuckDB connection or file, a psycopg one, "
            "a URL such as postgresql://user@host/name, or SQLAlchemy's engine over either"
        )
