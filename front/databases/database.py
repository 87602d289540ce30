"""The interface of both databases for Python, and their shared functions.

Statements consist of expressions that `text/expressions.py` has checked; each kind of database
quotes names.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import duckdb

from tuskml.databases.script import INTERRUPTED
from tuskml.errors import DataError, Interrupted, TuskError
from tuskml.model.model import Model

Columns = list[tuple[str, str]]
FUNCTIONS = ("train_model: ", "explain_training: ", "predict: ", "predict_proba: ", "decision: ")
Row = tuple[Any, ...]
NUMBERS = ("INT", "FLOAT", "DOUBLE", "REAL", "DECIMAL", "NUMERIC", "BIGNUM", "VARINT")

CATEGORIES = ("VARCHAR", "TEXT", "CHARACTER", "BPCHAR", "CHAR", "NAME", "ENUM", "UUID")
DATES = ("DATE", "TIME", "INTERVAL")
"""Beginnings of the names of their types, and of those of times and intervals."""


def is_row(type_name: str) -> bool:
    """Returns whether a value is a row with names; the result of `sparse`, which has two
    lists, is not.
    """
    return type_name.upper().startswith("STRUCT") and "]" not in type_name


def kind_of(type_name: str) -> str:
    """The kind of a column in a training.

    `array`, `sparse`, `boolean`, `number`, `category`, `date` or `other`.
    """
    name = type_name.upper()
    if name.endswith("]"):
        return "array"
    if name.startswith("STRUCT") or "TUSKML_SPARSE" in name:
        return "sparse"
    if name.startswith("BOOL"):
        return "boolean"
    if name.startswith(DATES):
        return "date"
    if name.startswith(CATEGORIES):
        return "category"
    return "number" if any(number in name for number in NUMBERS) else "other"


class Database(Protocol):
    """The interface of a database for trainings."""

    connection: Any

    def fetch(self, query: str) -> list[Row]:
        """The rows of a query. TuskError, one sentence, where it fails."""

    def columns(self, query: str) -> Columns:
        """Names and types of a query's columns. Raises TuskError if it is wrong."""

    def relation(self, names: Sequence[str]) -> str | None:
        """The table or view of these names (schema first) as SQL; None if there is none."""

    def tables(self) -> list[str]:
        """The names of the tables and views that there are."""

    def as_double(self, expression: str, type_name: str) -> str:
        """A number or boolean as a feature."""

    def array(self, items: Sequence[str]) -> str:
        """An array of expressions."""

    def row(self, items: Mapping[str, str]) -> str:
        """A row with names, of expressions by name."""

    def text(self, value: str) -> str:
        """A literal."""

    def function(self, name: str) -> str:
        """A function of tuskml, wherever it lies."""

    def model(self, model: Model | None) -> str:
        """A model value, as far as predictions need it."""

    def models(self, query: str) -> Iterator[tuple[Row, dict[str, Any] | None]]:
        """Keys and model value of each row; the query's last column is the model."""

    def create(self, name: str, query: str) -> int:
        """Makes a table of a query; returns its number of rows."""


def failure(error: Exception, message: str) -> TuskError:
    """A database's error in one sentence; tuskml's own errors without the function."""
    if INTERRUPTED in message or isinstance(error, duckdb.InterruptException):
        return Interrupted(INTERRUPTED)
    for function in FUNCTIONS:
        if message.startswith(function):
            return DataError(message.removeprefix(function))
    if isinstance(error, duckdb.OutOfMemoryException):
        return TuskError(message)
    return DataError(message)
