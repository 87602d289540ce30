"""A training whose rows workers can read: Parquet files, or shards of a table's rows."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tuskml.api.call import Training
from tuskml.cluster.shards.catalogue import Catalogue, catalogue_of
from tuskml.cluster.shards.temporary import temporary_shards
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.sources import Source
from tuskml.text.expressions import quote_name

PLAIN = re.compile(
    r"U?(TINY|SMALL|BIG)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*|VARCHAR|BOOLEAN|DATE|TIMESTAMP.*"
)
"""Types of keys that Parquet keeps as they are; others are written as text."""
WHOLE_NUMBERS = re.compile(r"(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DECIMAL\(.*\))\[\d*\]")
"""Types of features that a training makes DOUBLE."""
LABEL, FEATURES, NULL = "tusk_label", "tusk_features", "NULL"


@dataclass(frozen=True)
class Readable:
    """A training on Parquet files, and the groups that they hold.

    types: DuckDB's types of the keys as the caller has them.
    """

    database: DuckDB
    training: Training
    catalogue: Catalogue
    types: Sequence[str]

    def keys(self) -> list[str]:
        """The keys' columns of the workers' answers, by their names and with their types."""
        return [
            f"CAST(tusk_key_{place} AS {kind}) AS {quote_name(name)}"
            for place, ((name, _), kind) in enumerate(
                zip(self.training.keys, self.types, strict=True)
            )
        ]


@contextmanager
def in_files(database: DuckDB, training: Training) -> Iterator[Readable | None]:
    """The training on its Parquet files, or on shards that are written of its rows.

    Shards hold the values of the expressions as the caller's transaction sees them, so workers
    need neither the database nor its macros. Yields None where there are no rows.
    """
    if training.source.files:
        found = catalogue_of(database, training.source.files, training.source.sql, training.keys)
        yield Readable(database, training, found, found.key_types) if found.groups else None
        return
    query, types, written = as_columns(database, training)
    with temporary_shards(database, query, key_columns(len(types))) as files:
        if files is None:
            yield None
            return
        relation = f"read_parquet([{database.text(files)}]) AS source"
        source = Source(relation, training.source.name, files=(files,))
        found = catalogue_of(database, source.files, relation, written.keys)
        yield Readable(database, replace(written, source=source), found, types)


def key_columns(n: int) -> list[str]:
    """The columns of the keys in shards that are written of a table."""
    return [f"tusk_by_{place}" for place in range(n)]


def as_columns(database: DuckDB, training: Training) -> tuple[str, tuple[str, ...], Training]:
    """A query of the values that a training reads, the types of its keys, and the training over
    the columns of that query.
    """
    names = key_columns(len(training.keys))
    keys = [sql for _, sql in training.keys]
    listed = ", ".join(f"{sql} AS {name}" for sql, name in zip(keys, names, strict=True))
    rows = f"FROM {training.source.sql}"
    types: tuple[str, ...] = ()
    if keys:
        types = tuple(kind for _, kind in database.columns(f"SELECT {listed} {rows}"))
    columns = [
        f"{sql if PLAIN.fullmatch(kind) else f'CAST({sql} AS VARCHAR)'} AS {name}"
        for sql, kind, name in zip(keys, types, names, strict=True)
    ]
    columns.append(f"{features_of(database, training)} AS {FEATURES}")
    if training.label != NULL:
        columns.append(f"{training.label} AS {LABEL}")
    extras = [f"tusk_extra_{place}" for place in range(len(training.extras))]
    columns += [f"{sql} AS {name}" for sql, name in zip(training.extras, extras, strict=True)]
    written = replace(
        training,
        label=training.label if training.label == NULL else LABEL,
        features=FEATURES,
        extras=tuple(extras),
        keys=tuple(
            (name, quote_name(column))
            for (name, _), column in zip(training.keys, names, strict=True)
        ),
    )
    return f"SELECT {', '.join(columns)} {rows}", types, written


def features_of(database: DuckDB, training: Training) -> str:
    """The features in SQL. In rows with labels, whole numbers are written as the DOUBLE that they
    become, so that the same values of any type make the same shards.
    """
    features = training.features
    if training.label == NULL:
        return features
    query = f"SELECT {features} AS {FEATURES} FROM {training.source.sql}"
    ((_, kind),) = database.columns(query)
    return f"CAST({features} AS DOUBLE[])" if WHOLE_NUMBERS.fullmatch(kind) else features
