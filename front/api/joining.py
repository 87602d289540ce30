"""Models as a relation that rows can be joined to: one model, models by group, or a table."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tuskml.api.model_tables import ModelTable
from tuskml.databases.database import Database
from tuskml.databases.postgres import Postgres
from tuskml.databases.sources import Scope, find_source
from tuskml.errors import DataError
from tuskml.learners.tasks import of_pairs
from tuskml.model.answers import Answers, answers_of
from tuskml.model.any_model import model_in
from tuskml.model.group_models import BY_TEXT
from tuskml.model.model import Model
from tuskml.model.scorers import has_text_classes
from tuskml.model.scoring import source_kinds
from tuskml.text.expressions import column_named, quote_name

ModelLike = Model | Mapping[Any, Model | None] | str
Keys = Sequence[tuple[str, str]]
"""Names and SQL over the columns of the rows."""


@dataclass(frozen=True)
class JoinableModels:
    """Models as SQL has them: a relation with columns tusk_k0, ... and tusk_model.

    alike: of each key, whether its type is that of the rows' key; task, features, label: of all of
    them, '' or None where that is not known; nulls: whether a key of theirs is NULL; constant: SQL
    of the one model that a caller gave; options: of one of them; classifies: whether any has
    classes; several: whether any has more than two; by_name: whether they read rows with names;
    text_classes: whether any has a class whose name is not its number.
    """

    sql: str
    alike: tuple[bool, ...] = ()
    task: str = ""
    features: tuple[str, ...] | None = None
    label: str | None = None
    nulls: bool = False
    constant: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    classifies: bool = False
    several: bool = False
    by_name: bool = False
    text_classes: bool = False

    def answers(self) -> Answers:
        """Returns how the models predict. Raises DataError if their task is unknown."""
        return answers_of(self.task, self.options, self.classifies)

    def join(self, database: Database, rows: Sequence[str]) -> str:
        """The SQL that follows the rows in `FROM`; rows: SQL of their keys."""
        if self.constant is not None:
            return f"CROSS JOIN {self.sql}"
        same = [
            self.same(database, key, f"models.tusk_k{k}", alike)
            for k, (key, alike) in enumerate(zip(rows, self.alike, strict=True))
        ]
        return f"LEFT JOIN {self.sql} ON {' AND '.join(same) or 'true'}"

    def same(self, database: Database, one: str, other: str, alike: bool) -> str:
        """The condition of equal keys; a NULL key matches the group of NULLs, as in GROUP BY.

        PostgreSQL joins by hash where that is an equality, and its arrays take NULLs as equal.
        """
        if not self.nulls:
            return f"{one} = {other}"
        if alike and isinstance(database, Postgres):
            return f"ARRAY[{one}] = ARRAY[{other}]"
        return f"{one} IS NOT DISTINCT FROM {other}"


def join_models(database: Database, model: ModelLike, scope: Scope, keys: Keys) -> JoinableModels:
    """Whatever a caller may give as model."""
    if isinstance(model, Model):
        return of_model(database, model)
    if isinstance(model, Mapping):
        return of_mapping(database, model, scope, keys)
    if isinstance(model, str):
        return of_table(database, model, scope, keys)
    if hasattr(model, "fit"):
        return of_model(database, model_in(model))
    raise DataError(
        f"model is of type {type(model).__qualname__}, expected a tuskml.Model, a mapping of "
        "models by group, or the name of a table of models"
    )


def of_model(database: Database, model: Model) -> JoinableModels:
    """Joins one model, as a constant."""
    value = database.model(model)
    sql = f"(SELECT {value} AS tusk_model) AS models"
    return JoinableModels(
        sql,
        task=model.task,
        features=model.trained_columns or None,
        label=model.label,
        constant=value,
        options=model.options,
        classifies=bool(model.classes),
        several=model.many_classes,
        by_name=model.preparation is not None,
        text_classes=model.has_text_classes,
    )


def of_mapping(
    database: Database, models: Mapping[Any, Model | None], scope: Scope, keys: Keys
) -> JoinableModels:
    """Models by key, as rows of constants."""
    if not keys:
        raise DataError("model is a mapping of models by group: give group_by, the keys' columns")
    known = [model for model in models.values() if model is not None]
    if not known:
        raise DataError("model is a mapping without a model")
    types = scope.types([sql for _, sql in keys], "group_by")
    if "TIMESTAMP_NS" in types:
        raise DataError(
            "group_by has a TIMESTAMP_NS, whose nanoseconds a key of models in Python does not "
            f"have: {BY_TEXT}"
        )
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
    return JoinableModels(
        f"(VALUES {', '.join(rows)}) AS models ({names})",
        (True,) * len(keys),
        task,
        features,
        label,
        any(None in (key if isinstance(key, tuple) else (key,)) for key in models),
        options=known[0].options,
        classifies=any(model.classes for model in known),
        several=any(model.many_classes for model in known),
        by_name=any(model.preparation is not None for model in known),
        text_classes=any(model.has_text_classes for model in known),
    )


def same_in_all(models: Sequence[Model]) -> tuple[str, tuple[str, ...] | None, str | None]:
    """Task, features and label of models. Raises DataError if they differ."""
    first = models[0]
    for other in models:
        if (other.task, other.trained_columns) != (first.task, first.trained_columns):
            raise DataError(
                "model is a mapping of models of several tasks or features, expected models of "
                "one training"
            )
    return first.task, first.trained_columns or None, first.label


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


def of_table(database: Database, given: str, scope: Scope, keys: Keys) -> JoinableModels:
    """Models in a table or query, with its keys and a column `model`."""
    source = find_source(database, given)
    types = dict(database.columns(f"SELECT * FROM {source.sql}"))
    found = {}
    for name in [*(name for name, _ in keys), "model"]:
        column = column_named(name, types)
        if column is None:
            raise DataError(
                f"{source.name} has no column '{name}', expected a table of models with the "
                f"keys of group_by and a column 'model': its columns are {', '.join(types)}"
            )
        found[name] = column
    table = ModelTable(source, found["model"], list(types.items()))
    return of_one_task(table, scope, [(found[name], sql) for name, sql in keys])


def of_one_task(
    table: ModelTable, scope: Scope, keys: Keys, what: str = "group_by"
) -> JoinableModels:
    """Joins the models of a table's column, which are of one task; keys, what: as for
    `of_columns`.
    """
    database, source, model = scope.database, table.source, quote_name(table.model)
    ((count, tasks, task, options, classified, classes),) = database.fetch(
        f"SELECT count(*), count(DISTINCT ({model}).task), max(({model}).task), "
        f"max(({model}).options), count(({model}).classes), "
        f"max(array_length(({model}).classes, 1)) FROM {source.sql}"
    )
    if not tasks:
        raise DataError(f"{source.name} has no model, expected at least one")
    if not keys and count != 1:
        raise DataError(
            f"{source.name} has {count:,} models: give group_by, the names of their keys"
        )
    if tasks != 1:
        raise DataError(f"{source.name} has models of {tasks} tasks, expected one")
    return replace(
        of_columns(table, scope, keys, what),
        task=task,
        options=json.loads(options or "{}"),
        classifies=classified > 0,
        several=(classes or 0) > 2 and not of_pairs(task),
    )


def of_columns(
    table: ModelTable, scope: Scope, keys: Keys, what: str = "group_by"
) -> JoinableModels:
    """Joins the models of a table's column, of any tasks.

    keys: the table's other columns, and SQL over the rows, which errors call `what`.
    """
    database, kinds = scope.database, dict(table.others)
    columns = [quote_name(column) for column, _ in keys]
    shown = [
        *(f"{column} AS tusk_k{k}" for k, column in enumerate(columns)),
        f"{quote_name(table.model)} AS tusk_model",
    ]
    types = scope.types([sql for _, sql in keys], what) if keys else []
    alike = (kind == kinds[column] for (column, _), kind in zip(keys, types, strict=True))
    null = " OR ".join(f"{column} IS NULL" for column in columns) or "false"
    nulls = database.fetch(f"SELECT 1 FROM {table.source.sql} WHERE {null} LIMIT 1")
    sql = f"(SELECT {', '.join(shown)} FROM {table.source.sql}) AS models"
    facts = facts_of_models(database, table)
    return JoinableModels(sql, tuple(alike), nulls=bool(nulls), **facts)


def facts_of_models(database: Database, table: ModelTable) -> dict[str, Any]:
    """Facts of a table's models: the columns that they all read, where they know them, whether
    they read rows with names, and whether one has text classes.
    """
    model, rows = quote_name(table.model), f"FROM {table.source.sql}"
    ((_, kind),) = database.columns(f"SELECT {model} {rows}")
    fields = kind.replace('"', "")

    def has(field: str) -> bool:
        # models of older versions lack fields
        return not kind.startswith("STRUCT") or field in fields

    prepared = has("preparation VARCHAR") and database.fetch(
        f"SELECT ({model}).preparation {rows} WHERE ({model}).preparation IS NOT NULL LIMIT 1"
    )
    lists = (
        []
        if prepared or not has("features VARCHAR[]")
        else database.fetch(
            f"SELECT DISTINCT ({model}).features {rows} WHERE ({model}).n_features > 0 LIMIT 2"
        )
    )
    if prepared:
        features = tuple(source_kinds(prepared[0][0]))
    else:
        features = tuple(lists[0][0] or ()) if len(lists) == 1 else ()
    query = (
        f"SELECT DISTINCT ({model}).classes, ({model}).class_names {rows} "
        f"WHERE ({model}).class_names IS NOT NULL"
    )
    classes = database.fetch(query) if has("class_names VARCHAR[]") else []
    return {
        "features": features or None,
        "by_name": bool(prepared),
        "text_classes": any(has_text_classes(*pair) for pair in classes),
    }
