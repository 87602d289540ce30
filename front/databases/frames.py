"""Data frames as sources of rows, and rows as data frames: pandas, Polars, Arrow, NumPy."""

import importlib
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import duckdb
import numpy as np
from numpy.typing import NDArray

from tuskml.databases.database import Database, Row
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.script import sentence
from tuskml.errors import DataError, nearest, one_of

Form = Literal["pandas", "polars", "arrow", "numpy"]
FORMS: tuple[str, ...] = get_args(Form)
PACKAGES = {"pandas": "pandas", "polars": "polars", "arrow": "pyarrow", "numpy": "numpy"}
_numbers = itertools.count(1)


@runtime_checkable
class Frame(Protocol):
    """An object that exports its columns by Arrow's C interface: pandas, Polars, Arrow, DuckDB
    frames.
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A capsule with a stream of record batches."""


@runtime_checkable
class LazyFrame(Protocol):
    """A query that is still to be run, Polars'."""

    def collect(self) -> Frame:
        """Returns its rows."""

    def collect_schema(self) -> Any:
        """Names and types of its columns."""


def kind_of_frame(frame: object) -> str:
    """A name such as `pandas DataFrame`; for Python's own types without a package."""
    package, name = type(frame).__module__.partition(".")[0], type(frame).__qualname__
    return name if package == "builtins" else f"{package} {name}"


@contextmanager
def register_frame(database: Database, frame: Frame | LazyFrame) -> Iterator[str]:
    """The name under which DuckDB sees a frame while the context lasts; nothing is copied.

    A Polars LazyFrame is collected.
    """
    if not isinstance(database, DuckDB):
        raise DataError(
            f"source is a {kind_of_frame(frame)}, which only DuckDB reads: expected a table or a "
            "query of this database, or ':memory:' as connection"
        )
    if isinstance(frame, LazyFrame):
        frame = frame.collect()
    name = f"tuskml_frame_{next(_numbers)}"
    try:
        database.connection.register(name, frame)
    except duckdb.Error as error:
        raise DataError(f"source is a {kind_of_frame(frame)}: {sentence(error)}") from error
    try:
        yield name
    finally:
        database.connection.unregister(name)


def form_like(source: object) -> Form:
    """The form of a frame itself; pandas for tables, queries and files."""
    module = type(source).__module__.partition(".")[0]
    forms: dict[str, Form] = {"polars": "polars", "pyarrow": "arrow"}
    return forms.get(module, "pandas")


def check_form(form: str | None, source: object) -> Form:
    """The requested form of the result. Raises DataError if it is unknown, or its package is
    missing.
    """
    if form is None:
        form = form_like(source)
    if form not in FORMS:
        raise DataError(
            f"returns is {form!r}, expected {one_of(FORMS)}{nearest(str(form), FORMS)}"
        )
    try:
        importlib.import_module(PACKAGES[form])
    except ImportError as error:
        raise DataError(
            f"returns is '{form}', which needs the package {PACKAGES[form]}: install it, or give "
            "returns='numpy'"
        ) from error
    return form  # type: ignore[return-value]


def fetch_frame(database: Database, query: str, form: Form) -> Any:
    """A query's rows as a frame, or for `numpy` as a dict of arrays by column."""
    if isinstance(database, DuckDB):
        return database.attempt(lambda connection: from_duckdb(connection.sql(query), form))
    names = [name for name, _ in database.columns(query)]
    return from_rows(names, database.fetch(query), form)


def from_duckdb(relation: duckdb.DuckDBPyRelation, form: Form) -> Any:
    """Makes a frame of a DuckDB query that has not run yet."""
    if form == "numpy":
        return {name: plain(column) for name, column in relation.fetchnumpy().items()}
    if form == "pandas":
        return relation.df()
    table = relation.to_arrow_table()
    return importlib.import_module("polars").from_arrow(table) if form == "polars" else table


def plain(column: Any) -> NDArray[Any]:
    """An array; numbers that are NULL are NaN, other values None."""
    if not isinstance(column, np.ma.MaskedArray):
        return np.asarray(column)
    if not column.mask.any():
        return np.asarray(column.data)
    if column.dtype.kind in "iufb":
        return np.where(column.mask, np.nan, column.data.astype(np.float64))
    found: NDArray[Any] = column.data.astype(object)
    found[column.mask] = None
    return found


def from_rows(names: Sequence[str], rows: Sequence[Row], form: Form) -> Any:
    """Makes a frame of rows that a driver has fetched."""
    columns = {name: [row[k] for row in rows] for k, name in enumerate(names)}
    if form == "arrow":
        import pyarrow as pa

        return pa.table(columns)
    if form == "numpy":
        return {name: array_of(values) for name, values in columns.items()}
    return importlib.import_module(form).DataFrame(columns)


def array_of(values: Sequence[Any]) -> NDArray[Any]:
    """An array of a column's values."""
    known = {type(value) for value in values} - {type(None)}
    if known and known <= {int, float, bool}:
        if None in values:
            return np.array([np.nan if value is None else value for value in values], np.float64)
        return np.array(values)
    found = np.empty(len(values), object)
    found[:] = values
    return found
