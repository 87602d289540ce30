"""A training on rows of PostgreSQL, over the same values in a file of this machine.

The server computes the expressions, and DuckDB reads their values: so workers need neither the
server nor its functions. Keys travel as text (`answers.py`).
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tuskml.api.call import Training
from tuskml.cluster.shards.readable import FEATURES, LABEL, NULL, key_columns
from tuskml.cluster.shards.temporary import temporary_folder
from tuskml.databases.connection import connect
from tuskml.databases.database import Database
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.postgres import Postgres
from tuskml.databases.results import TYPES, copy_rows, to_parquet
from tuskml.databases.sources import Source
from tuskml.errors import DataError
from tuskml.text.expressions import quote_name

NUMBERS = re.compile(r"(smallint|integer|bigint|numeric|double precision)\[\]")
REALS = "real[]"


@contextmanager
def local_rows(database: Database, training: Training) -> Iterator[tuple[DuckDB, Training]]:
    """The database and the training; of PostgreSQL DuckDB and the training on a copy of the rows.

    Raises DataError for features that have no columns in a file.
    """
    if isinstance(database, DuckDB):
        yield database, training
        return
    assert isinstance(database, Postgres)
    rows = Rows.of(database, training)
    with temporary_folder() as folder, connect() as connection:
        file = folder / "rows.parquet"
        rows.write(database, file)
        here = DuckDB(connection)
        relation = f"read_parquet({here.text(str(file))}) AS source"
        yield here, rows.local_training(Source(relation, training.source.name))


@dataclass(frozen=True)
class Rows:
    """The rows to copy: the query, its columns with DuckDB's types, and the features of these."""

    training: Training
    query: str
    columns: list[tuple[str, str]]
    features: str

    @classmethod
    def of(cls, database: Postgres, training: Training) -> "Rows":
        """Returns the rows of a training over a PostgreSQL source."""
        names = key_columns(len(training.keys))
        keys = zip(training.keys, names, strict=True)
        columns = [f"({sql})::text AS {name}" for (_, sql), name in keys]
        if training.label != NULL:
            columns.append(f"{training.label} AS {LABEL}")
        extras = zip(training.extras, extras_of(training), strict=True)
        columns += [f"{sql} AS {name}" for sql, name in extras]
        n = len(columns)
        row = database.columns_of_row(training.features) if training.n_features == 0 else None
        columns.append(f"{training.features} AS {FEATURES}" if row is None else row)
        query = f"SELECT {', '.join(columns)} FROM {training.source.sql}"
        found = database.columns(query)
        features = array_of(found[-1][1]) if row is None else row_of(name for name, _ in found[n:])
        types = [(name, TYPES.get(kind, "VARCHAR")) for name, kind in found]
        return cls(training, query, types, features)

    def write(self, database: Postgres, file: Path) -> None:
        """Copies the rows, as the caller's transaction sees them."""
        table = file.with_suffix(".csv")
        copy_rows(database, self.query, table)
        to_parquet(table, file, self.columns)
        table.unlink()

    def local_training(self, source: Source) -> Training:
        """The training on the copy."""
        names = key_columns(len(self.training.keys))
        return replace(
            self.training,
            source=source,
            label=NULL if self.training.label == NULL else LABEL,
            features=self.features,
            extras=tuple(extras_of(self.training)),
            keys=tuple(
                (name, quote_name(column))
                for (name, _), column in zip(self.training.keys, names, strict=True)
            ),
        )


def extras_of(training: Training) -> list[str]:
    """The columns of weights and offsets."""
    return [f"tusk_extra_{place}" for place in range(len(training.extras))]


def row_of(names: Iterable[str]) -> str:
    """DuckDB's row of columns."""
    items = ("'" + name.replace("'", "''") + f"': {quote_name(name)}" for name in names)
    return "{" + ", ".join(items) + "}"


def array_of(kind: str) -> str:
    """The features in DuckDB, of text that PostgreSQL writes of an array of this type."""
    plain = f"translate({FEATURES}, '{{}}', '[]')"
    if NUMBERS.fullmatch(kind):
        return f"CAST({plain} AS DOUBLE[])"
    if kind == REALS:
        return f"CAST({plain} AS FLOAT[])"
    raise DataError(
        f"features are of type {kind}, and workers train rows of PostgreSQL by columns or arrays "
        "of numbers: tuskml.split writes others as Parquet files"
    )
