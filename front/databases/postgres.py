"""PostgreSQL as a training from Python sees it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tuskml.databases.database import Columns, Row, failure, kind_of
from tuskml.errors import ExtensionError
from tuskml.model.model import FIELDS, Model
from tuskml.text.expressions import quote_name
from tuskml.text.type_errors import explain_message

if TYPE_CHECKING:
    import psycopg

EXTENSIONS = """
SELECT extname, nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n
    ON n.oid = e.extnamespace WHERE extname IN ('tuskml', 'tuskml_train')
"""
TRAINING = (
    *("train_model", "train", "explain_training", "_tuskml_sampled", "tuskml_activity"),
    *("feature_frequencies", "partition_model", "partitionings", "grant_store", "revoke_store"),
)
"""Functions of the extension tuskml_train."""
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
        found: dict[str, str] = dict(self.fetch(EXTENSIONS))
        if "tuskml" not in found:
            raise ExtensionError(
                "the database has no extension tuskml: run tuskml postgres install --database URL"
            )
        self.schema = quote_name(found["tuskml"])
        self.trains = "tuskml_train" in found

    @property
    def encoding(self) -> str:
        """The session's, as Python calls it."""
        return str(self.connection.info.encoding)

    def _run(self, query: str) -> "psycopg.Cursor[Any]":
        """Runs a statement in a transaction or savepoint of its own, so that a failure does
        not abort the caller's.
        """
        import psycopg
        from psycopg.rows import tuple_row

        try:
            cursor = self.connection.cursor(row_factory=tuple_row)
            with self.connection.transaction():
                cursor.execute(query.encode(self.connection.info.encoding))
        except psycopg.errors.QueryCanceled:
            raise
        except psycopg.Error as error:
            message = error.diag.message_primary or str(error)
            raise failure(error, explain_message(" ".join(message.split()))) from error
        return cursor

    def execute(self, statement: str) -> None:
        """Runs a statement without rows."""
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
                "SELECT oid::bigint, CASE typtype WHEN 'e' THEN 'enum ' ELSE '' END || "
                "pg_catalog.format_type(CASE typtype WHEN 'd' THEN typbasetype ELSE oid END, NULL)"
                f" FROM pg_catalog.pg_type WHERE oid IN ({listed})"
            )
        )
        return [(name, types[oid]) for name, oid in found]

    def relation(self, names: Sequence[str]) -> str | None:
        for spelled in (names, [name.lower() for name in names]):
            sql = ".".join(map(quote_name, spelled))
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

    def row(self, items: Mapping[str, str]) -> str:
        columns = ", ".join(f"{sql} AS {quote_name(name)}" for name, sql in items.items())
        row = f"(SELECT tusk_row FROM (SELECT {columns}) AS tusk_row)"
        return f"{self.function('_tuskml_row')}({row})"

    def columns_of_row(self, sql: str) -> str | None:
        """The columns of a row that `row` made; None for another one."""
        before, after = self.row({}).split("SELECT )")[0] + "SELECT ", ") AS tusk_row))"
        if not (sql.startswith(before) and sql.endswith(after)):
            return None
        return sql[len(before) : -len(after)]

    def text(self, value: str) -> str:
        return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'::text"

    def function(self, name: str) -> str:
        if name in TRAINING and not self.trains:
            raise ExtensionError(
                "the database has the extension tuskml alone, which predicts: a superuser adds "
                "training by CREATE EXTENSION tuskml_train CASCADE"
            )
        return f"tuskml.{name}"

    def model(self, model: Model | None) -> str:
        if model is None:
            return f"NULL::{self.schema}.tuskml_model"
        given = {"classes": model.classes, "class_names": model.class_names}
        return self.record({**given, "payload": f"\\x{model.payload.hex()}"})

    def record(self, fields: Mapping[str, Any]) -> str:
        """A model value with fields by name, whose order an upgrade may have changed."""
        text = self.text(json.dumps(fields))
        return f"jsonb_populate_record(NULL::{self.schema}.tuskml_model, {text}::jsonb)"

    def models(self, query: str) -> Iterator[tuple[Row, dict[str, Any] | None]]:
        keys = len(self.columns(query)) - 1
        names = [f"tusk_k{i}" for i in range(keys)]
        shown = [
            *names,
            "tusk_model IS NULL",
            *(f"(tusk_model).{quote_name(name)}" for name in (*FIELDS, "payload")),
        ]
        trained = f"SELECT * FROM ({query}) AS t({', '.join([*names, 'tusk_model'])}) OFFSET 0"
        for row in self.fetch(f"SELECT {', '.join(shown)} FROM ({trained}) AS trained"):
            value = dict(zip((*FIELDS, "payload"), row[keys + 1 :], strict=True))
            yield row[:keys], None if row[keys] else value

    def create(self, name: str, query: str) -> int:
        return int(self._run(f"CREATE TABLE {name} AS {query}").rowcount)
