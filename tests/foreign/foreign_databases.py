"""Either database, as a suite sees it: tables of columns, and models trained on them."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import tuskml

Columns = Mapping[str, Sequence[float] | Sequence[str] | Sequence[Sequence[float]]]
"""Numbers, texts or lists of numbers by name."""


class Database(ABC):
    """A database with tuskml."""

    name: str
    error: type[Exception]

    @abstractmethod
    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement; none where it has no result."""

    @abstractmethod
    def create(self, table: str, columns: Columns) -> None:
        """Writes a table of these columns and of `place`, the index of a row."""

    @abstractmethod
    def train(
        self,
        table: str,
        task: str,
        label: str,
        features: Sequence[str],
        options: Mapping[str, Any] | None = None,
        more: Sequence[str] = (),
    ) -> None:
        """Puts the model of a task, on a row of these columns by name, into the table `fitted`.

        more: the columns of further arguments, the weight and the offset.
        """

    def summary(self) -> dict[str, tuple[Any, ...]]:
        """Estimate, standard error, statistic and p-value of each term."""
        columns = "term, estimate, std_err, statistic, p_value"
        found = self.execute(f"SELECT {columns} FROM model_summary((SELECT model FROM fitted))")
        return {row[0]: row[1:] for row in found}

    def row_of(self, columns: str, function: str) -> dict[str, Any]:
        """The one row of a table function of the model."""
        (found,) = self.execute(f"SELECT {columns} FROM {function}((SELECT model FROM fitted))")
        return dict(zip(columns.replace(" ", "").split(","), found, strict=True))

    def field(self, name: str) -> Any:
        """A field of the model."""
        return self.execute(f"SELECT (model).{name} FROM fitted")[0][0]

    @abstractmethod
    def predictions(
        self, table: str, features: Sequence[str], most: int, function: str = "predict"
    ) -> list[float]:
        """Those of the first rows of the table."""


def quoted(name: str) -> str:
    return f'"{name}"'


def type_of(value: float | str | Sequence[float]) -> str:
    """Returns the type in PostgreSQL of a column with such values."""
    if isinstance(value, str):
        return "text"
    return "double precision[]" if isinstance(value, Sequence) else "double precision"


def literal(options: Mapping[str, Any] | None) -> str:
    text = json.dumps(options or {}).replace("'", "''")
    return f"'{text}'"


class Duck(Database):
    """DuckDB."""

    name = "DuckDB"

    def __init__(self) -> None:
        import duckdb

        self.error = duckdb.Error
        self.connection = tuskml.connect(threads=2)

    def __enter__(self) -> Duck:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.connection.close()

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql).fetchall()

    def create(self, table: str, columns: Columns) -> None:
        import pyarrow as pa

        rows = pa.table({"place": range(len(next(iter(columns.values())))), **columns})
        self.connection.register("rows_of_suite", rows)
        self.execute(f"CREATE OR REPLACE TABLE {table} AS SELECT * FROM rows_of_suite")
        self.connection.unregister("rows_of_suite")

    def row(self, features: Sequence[str]) -> str:
        return "{" + ", ".join(f"'{name}': {quoted(name)}" for name in features) + "}"

    def train(
        self,
        table: str,
        task: str,
        label: str,
        features: Sequence[str],
        options: Mapping[str, Any] | None = None,
        more: Sequence[str] = (),
    ) -> None:
        further = "".join(f", {quoted(name)}" for name in more)
        call = f"'{task}', {quoted(label)}, {self.row(features)}, {literal(options)}{further}"
        self.execute(
            f"CREATE OR REPLACE TABLE fitted AS SELECT train_model({call}) AS model FROM {table}"
        )

    def predictions(
        self, table: str, features: Sequence[str], most: int, function: str = "predict"
    ) -> list[float]:
        found = self.execute(
            f"SELECT {function}(model, {self.row(features)}) FROM fitted, {table} "
            f"ORDER BY place LIMIT {most}"
        )
        return [value for (value,) in found]


class Post(Database):
    """PostgreSQL."""

    name = "PostgreSQL"

    def __init__(self, connection: Any) -> None:
        import psycopg

        self.error = psycopg.Error
        self.connection = connection

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql)
        return cursor.fetchall() if cursor.description else []

    def create(self, table: str, columns: Columns) -> None:
        types = ", ".join(
            f"{quoted(name)} {type_of(values[0])}" for name, values in columns.items()
        )
        self.execute(f"DROP TABLE IF EXISTS {table}")
        self.execute(f"CREATE TABLE {table} (place bigint, {types})")
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f"COPY {table} FROM STDIN") as copy,
        ):
            for place, row in enumerate(zip(*columns.values(), strict=True)):
                copy.write_row((place, *row))

    def row(self, table: str, features: Sequence[str]) -> str:
        listed = ", ".join(f"t.{quoted(name)}" for name in features)
        return f"{table} AS t, LATERAL (SELECT {listed}) AS row_of_suite"

    def train(
        self,
        table: str,
        task: str,
        label: str,
        features: Sequence[str],
        options: Mapping[str, Any] | None = None,
        more: Sequence[str] = (),
    ) -> None:
        further = "".join(f", t.{quoted(name)}" for name in more)
        call = f"'{task}', t.{quoted(label)}, row_of_suite, {literal(options)}{further}"
        self.execute("DROP TABLE IF EXISTS fitted")
        self.execute(
            f"CREATE TABLE fitted AS SELECT train_model({call}) AS model "
            f"FROM {self.row(table, features)}"
        )

    def predictions(
        self, table: str, features: Sequence[str], most: int, function: str = "predict"
    ) -> list[float]:
        found = self.execute(
            f"SELECT {function}(model, row_of_suite) FROM fitted, {self.row(table, features)} "
            f"ORDER BY place LIMIT {most}"
        )
        return [value for (value,) in found]


def in_environment() -> Database:
    """Returns the database that FOREIGN_POSTGRES names by its connection string, else DuckDB."""
    if (where := os.environ.get("FOREIGN_POSTGRES")) is None:
        return Duck()
    import psycopg

    return Post(psycopg.connect(where, autocommit=True))
