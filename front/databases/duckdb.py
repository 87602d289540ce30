"""DuckDB as a training from Python sees it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import duckdb

from tuskml.databases.connection import is_loaded, load
from tuskml.databases.database import Columns, Row, failure
from tuskml.databases.script import INTERRUPTED, PYTHON_OBJECT, sentence
from tuskml.errors import ExtensionError, Interrupted, TuskError
from tuskml.model.model import Model
from tuskml.text.expressions import quote_name

Result = TypeVar("Result")


class DuckDB:
    """A DuckDB connection with tuskml loaded."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        if not self.attempt(is_loaded):
            try:
                load(connection)
            except duckdb.CatalogException as error:  # it began before the functions were there
                raise ExtensionError(
                    "tuskml cannot be loaded within a transaction: give the connection before one "
                    "begins, or the engine"
                ) from error

    def fetch(self, query: str) -> list[Row]:
        """The rows of a query; errors become one sentence."""
        return self.attempt(lambda connection: connection.execute(query).fetchall())

    def attempt(self, work: Callable[[duckdb.DuckDBPyConnection], Result]) -> Result:
        """Calls work with the connection; errors become one sentence."""
        try:
            return work(self.connection)
        except duckdb.Error as error:
            raise failure(error, sentence(error)) from error
        except RuntimeError as error:  # DuckDB's error for a Ctrl-C while it ran
            if "interrupt" not in str(error).lower():
                raise TuskError(f"DuckDB's client failed: {error}") from error
            raise Interrupted(INTERRUPTED) from error

    def usual_executor(self) -> str | None:
        """Returns where `tuskml.connect(executor=...)` said that groups of files are trained.

        What a file says does not count: it may be anybody's, and the address of a cluster.
        """
        made = self.fetch(
            "SELECT database_name FROM duckdb_functions() JOIN duckdb_databases() "
            "USING (database_name) WHERE function_name = '_tusk_executor' AND path IS NULL "
            "ORDER BY database_name <> 'temp' LIMIT 1"
        )
        if not made:
            return None
        query = f"SELECT {quote_name(str(made[0][0]))}.main._tusk_executor()"
        return str(self.fetch(query)[0][0])

    def columns(self, query: str) -> Columns:
        return [(name, kind) for name, kind, *_ in self.fetch(f"DESCRIBE {query}")]

    def relation(self, names: Sequence[str]) -> str | None:
        sql = ".".join(map(quote_name, names))
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

    def row(self, items: Mapping[str, str]) -> str:
        return "{" + ", ".join(f"{self.text(name)}: {sql}" for name, sql in items.items()) + "}"

    def text(self, value: str) -> str:
        return "'" + value.replace("'", "''") + "'"

    def function(self, name: str) -> str:
        return name if name.startswith("_tusk") else f"tuskml_{name}"

    def model(self, model: Model | None) -> str:
        payload = "NULL" if model is None else f"from_hex('{model.payload.hex()}')"
        listed = ", ".join(f"'{one!r}'" for one in (model and model.classes) or ())
        classes = f"[{listed}]" if listed else "NULL"
        named = ", ".join(map(self.text, (model and model.class_names) or ()))
        names = f"[{named}]" if named else "NULL"
        return (
            f"{{'classes': {classes}::DOUBLE[], 'class_names': {names}::VARCHAR[], "
            f"'payload': {payload}::BLOB}}"
        )

    def models(self, query: str) -> Iterator[tuple[Row, dict[str, Any] | None]]:
        for *keys, value in self.fetch(query):
            yield tuple(keys), value

    def create(self, name: str, query: str, replace: bool = False) -> int:
        """replace: whether it may be there; `"temp"."models"` is a temporary table."""
        how = "CREATE OR REPLACE" if replace else "CREATE"
        kind = "TEMP TABLE" if name.lower().startswith('"temp".') else "TABLE"
        (count,) = self.fetch(f"{how} {kind} {name} AS {query}")[0]
        return int(count)
