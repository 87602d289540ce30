"""Models of workers for groups of PostgreSQL, whose keys are the server's own values."""

from collections.abc import Callable, Sequence
from typing import Any

from tuskml.api.call import Training
from tuskml.api.collecting import by_keys
from tuskml.databases.postgres import Postgres
from tuskml.databases.results import Into, is_file, keep
from tuskml.errors import ClusterError, DataError
from tuskml.model.group_models import Models, as_key
from tuskml.model.model import Model
from tuskml.registry import as_value
from tuskml.text.expressions import quote_name

Texts = Sequence[tuple[str | None, ...]]
"""Keys of groups, as the server writes them."""


def in_postgres(
    database: Postgres,
    training: Training,
    train: Callable[[], Any],
    into: Into | None,
    replace: bool,
) -> Model | Models | int:
    """The result of `tuskml.train` for models whose keys are text; with into they are stored in a
    table of the server.

    Raises DataError for a file: models of the server are stored in its tables.
    """
    if into is not None and is_file(into):
        raise DataError(
            f"into is {str(into)!r}, but models of PostgreSQL are kept in a table: expected the "
            "name of a new table"
        )
    try:
        found: Model | Models = train()
    except ClusterError as error:
        if error.models is not None:
            error.models = with_own_keys(database, training, error.models)
        raise
    if into is not None:
        return keep(database, into, as_query(database, training, found), replace)
    return found if isinstance(found, Model) else with_own_keys(database, training, found)


def with_own_keys(database: Postgres, training: Training, models: Models) -> Models:
    """The models by the server's values of the keys."""
    texts = texts_of(training, models)
    columns = [
        database.fetch(
            f"SELECT (t.k)::{kind} FROM unnest(ARRAY[{', '.join(literals(database, column))}]"
            "::text[]) WITH ORDINALITY AS t (k, place) ORDER BY place"
        )
        for kind, column in zip(types(database, training), zip(*texts, strict=True), strict=False)
    ]
    keys = [tuple(value for (value,) in row) for row in zip(*columns, strict=True)]
    found = by_keys(dict(zip(map(as_key, keys), models.values(), strict=True)), training)
    found.execution = models.execution
    return found


def as_query(database: Postgres, training: Training, found: Model | Models) -> str:
    """The keys and the models as rows of the server."""
    if isinstance(found, Model):
        return f"SELECT {as_value(database, found)} AS model"
    names = [f"k{place}" for place in range(len(training.keys))]
    none = f"NULL::{database.function('tuskml_model')}"
    rows = [
        ", ".join([*literals(database, key), none if model is None else as_value(database, model)])
        for key, model in zip(texts_of(training, found), found.values(), strict=True)
    ]
    empty = "" if rows else " WHERE false"
    rows = rows or [", ".join(["NULL::text"] * len(names) + [none])]
    listed = [
        f"(t.{name})::{kind} AS {quote_name(key)}"
        for name, kind, (key, _) in zip(
            names, types(database, training), training.keys, strict=True
        )
    ]
    values = ", ".join(f"({row})" for row in rows)
    return (
        f"SELECT {', '.join(listed)}, t.model "
        f"FROM (VALUES {values}) AS t ({', '.join(names)}, model){empty}"
    )


def texts_of(training: Training, models: Models) -> Texts:
    """The keys of all groups."""
    return [(key,) if len(training.keys) == 1 else key for key in models]


def literals(database: Postgres, texts: Sequence[str | None]) -> list[str]:
    """Writes texts as SQL literals."""
    return ["NULL::text" if one is None else database.text(one) for one in texts]


def types(database: Postgres, training: Training) -> list[str]:
    """The keys' types."""
    listed = ", ".join(f"{sql} AS k{place}" for place, (_, sql) in enumerate(training.keys))
    found = database.columns(f"SELECT {listed} FROM {training.source.sql}")
    return [kind.removeprefix("enum ") for _, kind in found]
