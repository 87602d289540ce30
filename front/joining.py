"""Models as a relation that rows can be joined to: one model, models by group, or a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuskml.databases import Database
from tuskml.errors import DataError
from tuskml.expressions import column_named, quoted
from tuskml.model import Model
from tuskml.sources import Scope, find_source

ModelLike = Model | Mapping[Any, Model | None] | str
Keys = Sequence[tuple[str, str]]
"""Names and SQL over the columns of the rows."""


@dataclass(frozen=True)
class Joined:
    """Models as SQL has them: a relation with columns tusk_k0, ... and tusk_model.

    keys: how many; task, features, label: of all of them, None where SQL's table does not say;
    nulls: whether a key of theirs is NULL; constant: SQL of the one model that a caller gave.
    """

    sql: str
    keys: int
    task: str
    features: tuple[str, ...] | None
    label: str | None
    nulls: bool = False
    constant: str | None = None


def joined(database: Database, model: ModelLike, scope: Scope, keys: Keys) -> Joined:
    """Whatever a caller may give as model."""
    if isinstance(model, Model):
        return of_model(database, model)
    if isinstance(model, Mapping):
        return of_mapping(database, model, scope, keys)
    if isinstance(model, str):
        return of_table(database, model, keys)
    raise DataError(
        f"model is of type {type(model).__qualname__}, expected a tuskml.Model, a mapping of "
        "models by group, or the name of a table of models"
    )


def of_model(database: Database, model: Model) -> Joined:
    """One model, as a constant."""
    value = database.model(model)
    sql = f"(SELECT {value} AS tusk_model) AS models"
    return Joined(sql, 0, model.task, model.features or None, model.label, constant=value)


def of_mapping(
    database: Database,
    models: Mapping[Any, Model | None],
    scope: Scope,
    keys: Sequence[tuple[str, str]],
) -> Joined:
    """Models by key, as rows of constants."""
    if not keys:
        raise DataError("model is a mapping of models by group: give group_by, the keys' columns")
    known = [model for model in models.values() if model is not None]
    if not known:
        raise DataError("model is a mapping without a model")
    types = scope.types([sql for _, sql in keys], "group_by")
    rows = []
    for key, model in models.items():
        parts = key if len(keys) > 1 else (key,)
        if not isinstance(parts, tuple) or len(parts) != len(keys):
            raise DataError(f"model has the key {key!r}, expected a tuple of {len(keys)} keys")
        literals = [
            constant(database, part, kind) for part, kind in zip(parts, types, strict=True)
        ]
        rows.append(f"({', '.join([*literals, database.model(model)])})")
    names = ", ".join([*(f"tusk_k{k}" for k in range(len(keys))), "tusk_model"])
    task, features, label = same_in_all(known)
    return Joined(
        f"(VALUES {', '.join(rows)}) AS models ({names})",
        len(keys),
        task,
        features,
        label,
        any(None in (key if isinstance(key, tuple) else (key,)) for key in models),
    )


def same_in_all(models: Sequence[Model]) -> tuple[str, tuple[str, ...] | None, str | None]:
    """Task, features and label of models. DataError where they differ."""
    first = models[0]
    for other in models:
        if (other.task, other.features) != (first.task, first.features):
            raise DataError(
                "model is a mapping of models of several tasks or features, expected models of "
                "one training"
            )
    return first.task, first.features or None, first.label


def constant(database: Database, value: Any, type_name: str) -> str:
    """A key as SQL, of the type of the source's keys."""
    if value is None:
        return f"CAST(NULL AS {type_name})"
    if isinstance(value, list | dict | set | bytes):
        raise DataError(
            f"a key of model is of type {type(value).__qualname__}, expected text, a number, a "
            "date or a truth value; keep such models in a table, by into"
        )
    return f"CAST({database.text(str(value))} AS {type_name})"


def of_table(database: Database, given: str, keys: Sequence[tuple[str, str]]) -> Joined:
    """Models in a table or query, with its keys and a column `model`."""
    source = find_source(database, given)
    columns = [name for name, _ in database.columns(f"SELECT * FROM {source.sql}")]
    wanted = [*(name for name, _ in keys), "model"]
    for name in wanted:
        if column_named(name, columns) is None:
            raise DataError(
                f"{source.name} has no column '{name}', expected a table of models with the "
                f"keys of group_by and a column 'model': its columns are {', '.join(columns)}"
            )
    listed_keys = [quoted(column_named(name, columns) or name) for name, _ in keys]
    model = quoted(column_named("model", columns) or "model")
    shown = [
        *(f"{key} AS tusk_k{k}" for k, key in enumerate(listed_keys)),
        f"{database.function('predictor')}({model}) AS tusk_model",
    ]
    null = " OR ".join(f"{key} IS NULL" for key in listed_keys) or "false"
    ((count, tasks, task, nulls),) = database.fetch(
        f"SELECT count(*), count(DISTINCT ({model}).task), max(({model}).task), "
        f"count(*) FILTER (WHERE {null}) FROM {source.sql}"
    )
    if not keys and count != 1:
        raise DataError(
            f"{source.name} has {count:,} models: give group_by, the names of their keys"
        )
    if tasks != 1:
        raise DataError(f"{source.name} has models of {tasks} tasks, expected one")
    sql = f"(SELECT {', '.join(shown)} FROM {source.sql}) AS models"
    return Joined(sql, len(keys), task, None, None, bool(nulls))
