"""`tuskml.train`: a training on a table, a query or Parquet files, from Python.

It writes the query of the aggregate `train_model` that a person would write, so options, numbers
and model values are those of SQL.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, overload

from tuskml.connection import connect
from tuskml.databases import Columns, Database, DuckDB, Postgres, kind_of, opened
from tuskml.duckdb_row_groups import row_groups_of, width
from tuskml.errors import DataError, OptionError, nearest
from tuskml.expressions import column_named, dotted, is_name, one, quoted, renamed, split
from tuskml.groups import last_training
from tuskml.groups.planning import Request
from tuskml.groups.row_groups import RowGroups
from tuskml.groups.streaming import train_streamed, wanted
from tuskml.model import Model
from tuskml.udas.options import parse
from tuskml.udas.tasks import Task, task_named

FilePath = str | PathLike[str]
Models = dict[Any, Model | None]
QUERY = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/|\()*(SELECT|WITH|FROM|VALUES|TABLE)\b", re.I | re.S)
PARQUET = (".parquet", ".parq", ".pq")
COLUMN = re.compile(r'column "([^"]+)"|Referenced column "([^"]+)"', re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """Where rows come from: what follows FROM, and what a caller calls it.

    files: of Parquet; table: whether it is a table or view.
    """

    sql: str
    name: str
    files: tuple[str, ...] = ()
    table: bool = False


@dataclass(frozen=True)
class Training:
    """A checked request: SQL expressions over the source's columns; keys have names and SQL.

    n_features: None where they are one array.
    """

    task: Task
    source: Source
    label: str
    features: str
    keys: tuple[tuple[str, str], ...]
    options: str
    n_features: int | None

    def query(self, database: Database) -> str:
        """The query that trains: the keys' columns, and the model's."""
        given = f", {database.text(self.options)}" if self.options != "{}" else ""
        model = (
            f"{database.function('train_model')}({database.text(self.task.name)}, {self.label}, "
            f"{self.features}{given})"
        )
        keys = [f"{sql} AS {quoted(name)}" for name, sql in self.keys]
        query = f"SELECT {', '.join([*keys, f'{model} AS model'])} FROM {self.source.sql}"
        if keys:
            query += " GROUP BY " + ", ".join(sql for _, sql in self.keys)
        return query


@overload
def train(
    connection: object,
    task: str,
    *,
    source: FilePath | Sequence[FilePath],
    label: str,
    features: str | Sequence[str],
    group_by: tuple[()] = (),
    into: None = None,
    **options: Any,
) -> Model: ...
@overload
def train(
    connection: object,
    task: str,
    *,
    source: FilePath | Sequence[FilePath],
    label: str,
    features: str | Sequence[str],
    group_by: str | Sequence[str],
    into: None = None,
    **options: Any,
) -> Models: ...
@overload
def train(
    connection: object,
    task: str,
    *,
    source: FilePath | Sequence[FilePath],
    label: str,
    features: str | Sequence[str],
    group_by: str | Sequence[str] = (),
    into: str,
    **options: Any,
) -> int: ...
def train(
    connection: object,
    task: str,
    *,
    source: FilePath | Sequence[FilePath],
    label: str,
    features: str | Sequence[str],
    group_by: str | Sequence[str] = (),
    into: str | None = None,
    **options: Any,
) -> Model | Models | int:
    """Trains on the rows of a source; one model, or with group_by one a group.

    connection: a DuckDB connection, the path of a DuckDB file or ":memory:", a psycopg
    connection, a `postgresql://` URL, or an SQLAlchemy engine over psycopg. source: a table
    ("flights", "schema.flights"), a query ("SELECT ..."), or in DuckDB Parquet files (a path, a
    glob, a list of them). label, features, group_by: columns, or SQL expressions over the
    source's columns; features is a list of numbers, or one expression that is an array or
    `sparse(indices, values)`; `month(date) AS month` names a key. into: keep the models in a
    new table of this name. options: as for `train_model`.

    Returns a Model; with group_by a dict of models by key (by a tuple of keys if there are
    several), None for a group without a usable row; with into the number of models. Raises
    OptionError for a task or option, DataError for a source, column or rows.

    Source: Kaoudi et al., A Cost-based Optimizer for Gradient Descent Optimization, SIGMOD 2017.

    >>> import tuskml
    >>> con = tuskml.connect()
    >>> _ = con.execute("CREATE TABLE t AS SELECT x, 2 * x + 1 AS y FROM range(9) r(x)")
    >>> model = train(con, "linear", source="t", label="y", features=["x"])
    >>> round(model.coef[0], 6), round(model.intercept, 6), model.status
    (2.0, 1.0, 'ok')
    """
    chosen = task_named(task) if isinstance(task, str) else task_named(repr(task))
    text = options_text(options)
    parse(text)
    with opened(connection) as database:
        training = resolve(database, chosen, source, label, features, group_by, text)
        if into is None:
            model = streamed(database, training)
            if model is not None:
                return model
        query = training.query(database)
        if into is not None:
            return database.create(new_table(into), query)
        return collected(database.models(query), len(training.keys), training.source)


def streamed(database: Database, training: Training) -> Model | None:
    """A model of stochastic gradient descent that reads only some of the rows' blocks.

    None where the source has none, or the training must see all rows.
    """
    request = Request(training.task, parse(training.options))
    source = training.source
    if training.keys or not (source.files or source.table) or not wanted(request):
        return None
    label, features = training.label, training.features
    if isinstance(database, DuckDB):
        n = training.n_features or width(database, source.sql, features)
        return trained(
            row_groups_of(database, source.sql, source.files, label, features), request, n
        )
    if not isinstance(database, Postgres):
        return None
    from tuskml import postgres_row_groups as blocks  # needs psycopg

    n = training.n_features or blocks.width(database, source.sql, features)
    with connect() as packer:
        groups = blocks.row_groups_of(database, DuckDB(packer), source.sql, label, features)
        return trained(groups, request, n)


def trained(groups: RowGroups | None, request: Request, n_features: int | None) -> Model | None:
    """A model of row groups, if there are any and they are enough."""
    if groups is None or n_features is None:
        return None
    models = train_streamed(groups, request, n_features)
    if models is None:
        return None
    last_training.note(models, None)
    return Model.of_batch(models, 0)


def collected(
    rows: Iterable[tuple[tuple[Any, ...], Mapping[str, Any] | None]], keys: int, source: Source
) -> Model | Models:
    """The one model, or models by key."""
    found = {key: None if value is None else Model.of(value) for key, value in rows}
    if keys == 0:
        model = found[()]
        if model is None:
            raise DataError(f"{source.name} has no row whose label and features are not NULL")
        return model
    return {key[0]: model for key, model in found.items()} if keys == 1 else dict(found)


def options_text(options: Mapping[str, Any]) -> str:
    """Options as the JSON text that SQL takes; models and NumPy's numbers are fine."""

    def plain(value: Any) -> Any:
        if isinstance(value, Model):
            kept = {"coef": value.coef, "intercept": value.intercept, "store": value.store}
            return {name: item for name, item in kept.items() if item is not None}
        if hasattr(value, "tolist"):
            return value.tolist()
        raise OptionError(
            f"an option is of type {type(value).__qualname__}, expected JSON's types"
        )

    return json.dumps(options, default=plain)


def new_table(name: str) -> str:
    """The name of a table to make, as SQL."""
    names = dotted(name)
    if names is None:
        raise DataError(f"into is {name!r}, expected the name of a new table")
    return ".".join(map(quoted, names))


def resolve(
    database: Database,
    task: Task,
    source: FilePath | Sequence[FilePath],
    label: str,
    features: str | Sequence[str],
    group_by: str | Sequence[str],
    options: str,
) -> Training:
    """Checks what a caller gave against the source's columns."""
    found = find_source(database, source)
    columns = database.columns(f"SELECT * FROM {found.sql}")
    scope = Scope(database, found, dict(columns))
    sql, n_features = scope.features(listed(features, "features"))
    return Training(
        task,
        found,
        scope.label(one(label, "label")),
        sql,
        tuple(scope.key(text) for text in listed(group_by, "group_by")),
        options,
        n_features,
    )


def listed(given: str | Sequence[str], what: str) -> list[str]:
    """A list of expressions, each of them one."""
    if isinstance(given, str):
        return split(given, what)
    return [one(text, what) for text in given]


def find_source(database: Database, given: FilePath | Sequence[FilePath]) -> Source:
    """What follows FROM."""
    paths = [given] if isinstance(given, str | PathLike) else list(given)
    texts = [str(path) for path in paths]
    if not isinstance(given, str) or texts[0].lower().endswith(PARQUET):
        return parquet(database, texts)
    text = texts[0].strip().rstrip(";").rstrip()
    if QUERY.match(text):
        split(text.replace(",", " "), "source")
        return Source(f"({text}\n) AS source", "the query")
    names = dotted(text)
    sql = None if names is None or "\n" in text else database.relation(names)
    if sql is None:
        raise DataError(
            f"source {given!r} does not exist, expected a table, a query (SELECT ...) or Parquet "
            f"files{nearest(text, database.tables())}"
        )
    return Source(sql, f"table {text}", table=True)


def parquet(database: Database, paths: list[str]) -> Source:
    """Parquet files, read by DuckDB."""
    if not isinstance(database, DuckDB):
        raise DataError(f"source is {paths[0]!r}, but Parquet files are for DuckDB connections")
    local = [path for path in paths if "://" not in path and not set(path) & set("*?[")]
    for path in local:
        if not Path(path).exists():
            raise DataError(f"source {path!r} does not exist, expected Parquet files or a glob")
    if not paths:
        raise DataError("source is an empty list, expected Parquet files")
    listed_paths = ", ".join(map(database.text, paths))
    return Source(f"read_parquet([{listed_paths}]) AS source", paths[0], files=tuple(paths))


@dataclass(frozen=True)
class Scope:
    """The columns that expressions may use."""

    database: Database
    source: Source
    columns: Mapping[str, str]

    def sql(self, text: str, what: str) -> str:
        """A column's quoted name, or an expression in parentheses."""
        column = column_named(text, self.columns)
        if column is not None:
            return quoted(column)
        if is_name(text):
            raise DataError(self.no_column(text, what))
        return f"({text})"

    def no_column(self, name: str, what: str) -> str:
        """That there is no such column, and which is near."""
        shown = ", ".join(list(self.columns)[:12]) + (", ..." if len(self.columns) > 12 else "")
        hint = nearest(name, self.columns)
        return (
            f"{what} names column '{name}', which {self.source.name} does not have: its columns "
            f"are {shown}{hint}"
        )

    def types(self, sql: Sequence[str], what: str) -> list[str]:
        """The types of expressions."""
        names = [f"{text} AS tusk_{place}" for place, text in enumerate(sql)]
        try:
            found: Columns = self.database.columns(
                f"SELECT {', '.join(names)} FROM {self.source.sql}"
            )
        except DataError as error:
            lost = COLUMN.search(str(error))
            if lost:
                raise DataError(self.no_column(lost[1] or lost[2], what)) from error
            raise DataError(f"{what}: {error}") from error
        return [kind for _, kind in found]

    def label(self, text: str) -> str:
        """The label: a number or a boolean."""
        sql = self.sql(text, "label")
        (kind,) = self.types([sql], "label")
        if kind_of(kind) not in ("number", "boolean"):
            raise DataError(f"label {text!r} is of type {kind}, expected a number or a boolean")
        return sql

    def key(self, text: str) -> tuple[str, str]:
        """Name and SQL of a grouping key."""
        expression, name = renamed(text)
        sql = self.sql(expression, "group_by")
        self.types([sql], "group_by")
        return name or column_named(text, self.columns) or expression, sql

    def features(self, texts: Sequence[str]) -> tuple[str, int | None]:
        """One array, or what `sparse` returns; how many features, where they are listed."""
        if not texts:
            raise DataError("features is an empty list, expected columns or SQL expressions")
        sql = [self.sql(text, "features") for text in texts]
        kinds = self.types(sql, "features")
        if len(texts) == 1 and kind_of(kinds[0]) in ("array", "sparse"):
            return sql[0], None
        for text, kind in zip(texts, kinds, strict=True):
            if kind_of(kind) not in ("number", "boolean"):
                raise DataError(
                    f"feature {text!r} is of type {kind}, expected a number or a boolean, or one "
                    "array alone"
                )
        pairs = zip(sql, kinds, strict=True)
        items = [self.database.as_double(text, kind) for text, kind in pairs]
        return self.database.array(items), len(items)
