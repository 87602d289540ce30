"""Sources of rows, and the allowed expressions over their columns.

A source is a table, a query, Parquet files or a frame; columns and expressions are checked against
it before a statement is made of them.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tuskml.databases.database import Columns, Database, is_row, kind_of
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.frames import Frame, LazyFrame, kind_of_frame, register_frame
from tuskml.errors import DataError, nearest
from tuskml.learners.options.by_name import LISTED, ByName
from tuskml.text.expressions import (
    check_text,
    column_named,
    is_name,
    one,
    quote_name,
    shorten,
    split,
    split_alias,
    split_dotted,
)

FilePath = str | PathLike[str]
Rows = FilePath | Sequence[FilePath] | Frame | LazyFrame
QUERY = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/|\()*(SELECT|WITH|FROM|VALUES|TABLE)\b", re.I | re.S)
PARQUET = (".parquet", ".parq", ".pq")
MAGIC, ENCRYPTED = b"PAR1", b"PARE"
RELATION = re.compile(r'relation "([^"]+)" does not exist')
COLUMN = re.compile(r'column "([^"]+)"|Referenced column "([^"]+)"', re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A source of rows: the SQL after FROM, and its name for errors.

    files: of Parquet; table: whether it is a table or view.
    """

    sql: str
    name: str
    files: tuple[str, ...] = ()
    table: bool = False


def scope_of(database: Database, source: Source) -> "Scope":
    """The columns of a source. Raises DataError for a query that is wrong."""
    try:
        return Scope(database, source, dict(database.columns(f"SELECT * FROM {source.sql}")))
    except DataError as error:
        lost = RELATION.search(str(error))  # DuckDB's message has the nearest name
        near = nearest(lost[1], database.tables()) if lost else ""
        if not near:
            raise
        raise DataError(f"{error}{near}") from error


def split_expressions(
    given: str | Sequence[str], what: str, columns: Collection[str] = ()
) -> list[str]:
    """Splits a text or a list into expressions, each of which may be the name of a column.

    Names that are no expressions, such as `it's`, are taken in a list, not in one text.
    """
    if isinstance(given, str):
        return [one(text, what, columns) for text in split(given, what)]
    texts = list(given) if isinstance(given, Iterable) else [given]
    for text in texts:
        if not isinstance(text, str):
            raise DataError(
                f"{what} is or has a {type(text).__qualname__}, expected the names of columns or "
                "SQL expressions as text"
            )
    return [one(text, what, columns) for text in texts]


@contextmanager
def rows_of(database: Database, given: Rows) -> Iterator[Source]:
    """The SQL after FROM; a frame can be read while the context lasts.

    NaN in a frame is a missing value, as pandas cannot tell them apart.
    """
    if isinstance(given, str | PathLike | list | tuple):
        yield find_source(database, given)
    elif isinstance(given, Frame | LazyFrame):
        with register_frame(database, given) as name:
            yield Source(without_nan(database, name), f"the {kind_of_frame(given)}")
    else:
        raise DataError(
            f"source is a {kind_of_frame(given)}, expected a table, a query (SELECT ...), Parquet "
            "files or a pandas, Polars or Arrow frame"
            f"{'; of arrays a frame, or tuskml.estimators' if hasattr(given, 'dtype') else ''}"
        )


def without_nan(database: Database, name: str) -> str:
    """The SQL after FROM for a frame: NaN becomes NULL, as DuckDB does for pandas."""
    columns = database.columns(f"SELECT * FROM {quote_name(name)}")
    floats = [quote_name(column) for column, kind in columns if kind in ("FLOAT", "DOUBLE")]
    if not floats:
        return quote_name(name)
    known = ", ".join(f"CASE WHEN isnan({c}) THEN NULL ELSE {c} END AS {c}" for c in floats)
    return f"(SELECT * REPLACE ({known}) FROM {quote_name(name)}) AS source"


def find_source(database: Database, given: FilePath | Sequence[FilePath]) -> Source:
    """Finds the source that a table, a query or files name."""
    paths = [given] if isinstance(given, str | PathLike) else list(given)
    for path in paths:
        if not isinstance(path, str | PathLike):
            raise DataError(
                f"source is a list that has a {type(path).__qualname__}, expected the paths of "
                "Parquet files"
            )
    texts = [check_text(str(path), "source") for path in paths]
    if not isinstance(given, str) or texts[0].lower().endswith(PARQUET):
        return parquet(database, texts)
    text = texts[0].strip().rstrip(";").rstrip()
    if QUERY.match(text):
        split(text.replace(",", " "), "source")
        return Source(f"({text}\n) AS source", "the query")
    names = split_dotted(text)
    sql = None if names is None or "\n" in text else database.relation(names)
    if sql is None:
        raise DataError(
            f"source {shorten(given)!r} does not exist, expected a table, a query (SELECT ...) "
            f"or Parquet files{nearest(text, database.tables())}"
        )
    return Source(sql, f"table {text}", table=True)


def parquet(database: Database, paths: list[str]) -> Source:
    """Parquet files, read by DuckDB."""
    if not isinstance(database, DuckDB):
        raise DataError(f"source is {paths[0]!r}, but Parquet files are for DuckDB connections")
    local = [path for path in paths if "://" not in path and not set(path) & set("*?[")]
    for path in local:
        if not Path(path).exists():
            raise DataError(
                f"source {shorten(path)!r} does not exist, expected Parquet files or a glob"
            )
        if not path.lower().endswith(PARQUET) and not has_parquet(Path(path)):
            raise DataError(
                f"source is {path!r}, expected Parquet files; other files are read by a query, "
                f"FROM {database.text(path)}"
            )
    if not paths:
        raise DataError("source is an empty list, expected Parquet files")
    listed_paths = ", ".join(map(database.text, paths))
    return Source(f"read_parquet([{listed_paths}]) AS source", paths[0], files=tuple(paths))


def has_parquet(file: Path) -> bool:
    """Returns whether a file starts like a Parquet file; True if it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(MAGIC)) in (MAGIC, ENCRYPTED)
    except OSError:
        return True


def bare(sql: str) -> str:
    """The caller's text of an expression that has parentheses here."""
    return sql[1:-1] if sql.startswith("(") and sql.endswith(")") else sql


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
            return quote_name(column)
        if is_name(text):
            raise DataError(self.no_column(text, what))
        return f"({text})"

    def no_column(self, name: str, what: str) -> str:
        """Makes the error for a column that does not exist, with the nearest name."""
        hint = nearest(name, self.columns)
        return (
            f"{what} names column '{shorten(name)}', which {self.source.name} does not have: "
            f"its columns are {self.list_names()}{hint}"
        )

    def types(self, sql: Sequence[str], what: str) -> list[str]:
        """The types of expressions."""
        names = [f"{text} AS tusk_{place}" for place, text in enumerate(sql)]
        try:
            found: Columns = self.database.columns(
                f"SELECT {', '.join(names)} FROM {self.source.sql}"
            )
        except DataError as error:
            raise DataError(self.wrong(sql, what, str(error))) from error
        if len(found) != len(sql):
            shown = [text for text in map(bare, sql) if "*" in text] or [bare(sql[0])]
            raise DataError(
                f"{what} has {shown[0]!r}, which is several columns: name them, of "
                f"{self.list_names()}"
            )
        return [kind for _, kind in found]

    def wrong(self, sql: Sequence[str], what: str, error: str) -> str:
        """The message for the first faulty expression of several, for which the database
        raised error.
        """
        spaced = [column for column in self.columns if not is_name(column)]
        for text in map(bare, sql):
            if nearest(text, spaced) and text not in self.columns and self.fails(text):
                return f"{self.neither(text, what)}{nearest(text, spaced)}"
        lost = COLUMN.search(error)
        if lost:
            return self.no_column(lost[1] or lost[2], what)
        for text in map(bare, sql) if "syntax error" in error else ():
            if self.fails(text):
                why = shorten(error)
                return f"{self.neither(text, what)} ({why}): its columns are {self.list_names()}"
        return f"{what}: {shorten(error)}"

    def neither(self, text: str, what: str) -> str:
        """Makes the error for a text that is neither a column nor an expression."""
        return (
            f"{what} has {shorten(text)!r}, which is neither a column of {self.source.name} nor "
            "an SQL expression"
        )

    def fails(self, text: str) -> bool:
        """Returns whether the database refuses an expression by itself."""
        try:
            self.database.columns(f"SELECT ({text}) AS tusk FROM {self.source.sql}")
        except DataError:
            return True
        return False

    def list_names(self) -> str:
        """The columns' names, the first dozen."""
        return ", ".join(list(self.columns)[:12]) + (", ..." if len(self.columns) > 12 else "")

    def number(self, text: str, what: str) -> str:
        """A column or an expression that is a number. Raises DataError for other types."""
        sql = self.sql(text, what)
        (kind,) = self.types([sql], what)
        if kind_of(kind) != "number":
            raise DataError(f"{what} {bare(sql)!r} is {kind}, expected a number")
        return f"CAST({sql} AS double precision)"

    def extras(self, weight: str | None, offset: str | None) -> tuple[str, ...]:
        """The SQL of rows' weights, or of weights and offsets; none without both."""
        if weight is None and offset is None:
            return ()
        found = ["1"]
        if weight is not None:
            found = [self.number(one(weight, "weight", self.columns), "weight")]
        if offset is not None:
            found.append(self.number(one(offset, "offset", self.columns), "offset"))
        return tuple(found)

    def label(self, text: str, may_be_text: bool = False, remedy: str = "") -> str:
        """The label: a number or a boolean, or where that is allowed text. remedy: the advice
        for other types.
        """
        sql = self.sql(text, "label")
        (kind,) = self.types([sql], "label")
        if may_be_text and kind_of(kind) == "category":
            return sql
        if kind_of(kind) not in ("number", "boolean"):
            raise DataError(
                f"label {text!r} is of type {kind}, expected a number or a boolean{remedy}"
            )
        return sql

    def kind(self, text: str, argument: str) -> str:
        """The kind of a column or SQL expression, as `kind_of` says it."""
        (kind,) = self.types([self.sql(text, argument)], argument)
        return kind_of(kind)

    def key(self, text: str) -> tuple[str, str]:
        """Name and SQL of a grouping key."""
        expression, name = (text, None) if text in self.columns else split_alias(text)
        sql = self.sql(expression, "group_by")
        self.types([sql], "group_by")
        return name or column_named(text, self.columns) or expression, sql

    def features(
        self, texts: Sequence[str], requirements: ByName = LISTED
    ) -> tuple[str, int | None]:
        """One array, a result of `sparse` or a row with names; and the number of features, if they
        are an array of listed columns, and 0 for a row.

        requirements: whether columns must form a row, and columns in it that are not features.
        """
        if not texts:
            raise DataError("features is an empty list, expected columns or SQL expressions")
        sql = [self.sql(text, "features") for text in texts]
        kinds = self.types(sql, "features")
        if len(texts) == 1 and kind_of(kinds[0]) in ("array", "sparse"):
            return sql[0], 0 if is_row(kinds[0]) else None
        found = [kind_of(kind) for kind in kinds]
        for text, kind, known in zip(texts, kinds, found, strict=True):
            if known not in ("number", "boolean", "category", "date"):
                raise DataError(
                    f"feature {text!r} is of type {kind}, expected a number, a boolean, text or a "
                    "date, or one array alone"
                )
        if requirements.row or {"category", "date"} & set(found):
            names = [column_named(text, self.columns) or text for text in texts]
            return self.database.row(
                self.with_marks(dict(zip(names, sql, strict=True)), requirements)
            ), 0
        pairs = zip(sql, kinds, strict=True)
        items = [self.database.as_double(text, kind) for text, kind in pairs]
        return self.database.array(items), len(items)

    def with_marks(self, row: dict[str, str], requirements: ByName) -> dict[str, str]:
        """A row's expressions by name, with the columns of its cluster and its fold."""
        found = dict(row)
        for option, name in requirements.marks.items():
            column = column_named(name, self.columns)
            if column is None and name not in found:
                raise DataError(self.no_column(name, f"option '{option}'"))
            if column is not None and column not in found:
                found[name] = quote_name(column)
        return found
