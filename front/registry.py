"""The registry: versions of models by name and group in `tuskml.models`, one of which is deployed.

The table lies in the database, DuckDB's or PostgreSQL's, where `predict('name', features)` finds
what is deployed (sql/duckdb/registry.sql, sql/postgres/tuskml/70_registry.sql). Every function
takes the connections that `tuskml.train` takes.

>>> import tuskml
>>> from tuskml import registry
>>> con = tuskml.connect()
>>> _ = con.execute("CREATE TABLE t AS SELECT x, 2 * x AS y FROM range(9) t(x)")
>>> registry.create(con)
>>> model = tuskml.train(con, "linear", source="t", label="y", features="x")
>>> registry.register(con, "double", model)
1
>>> registry.deploy(con, "double")
1
>>> con.execute("SELECT round(predict('double', [21.0]))").fetchone()
(42.0,)
"""

import datetime
import json
import math
import struct
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import islice
from types import UnionType
from typing import Any

import duckdb

from tuskml.databases.connection import renew_registry, run_registry_macros, sql_text
from tuskml.databases.database import Database
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.opening import open_database
from tuskml.databases.postgres import Postgres
from tuskml.errors import DataError, Interrupted, TuskError, nearest
from tuskml.model.any_model import model_in
from tuskml.model.file import as_json
from tuskml.model.group_models import BY_TEXT
from tuskml.model.model import FIELDS, Model

STAGES = ("candidate", "deployed", "retired", "withdrawn")
SAME_NAME = (
    "the database is called tuskml, as the schema of the registry is, and DuckDB cannot tell them "
    "apart: give its file another name"
)
WHO = """
SELECT pg_catalog.quote_ident(current_user), pg_catalog.quote_ident(pg_get_userbyid(relowner))
FROM pg_catalog.pg_class
WHERE oid = 'tuskml.models'::pg_catalog.regclass
"""
CANCELLED = "the call of the registry was interrupted: it changed nothing"
AGAIN = "another session changed the same models of the registry at the same time: try again"
KINDS: tuple[tuple[type | UnionType, str], ...] = (
    (bool, "boolean"),
    (str | int | Decimal | uuid.UUID, ""),
    (float, "double precision"),
    (datetime.datetime, "timestamp"),
    (datetime.date, "date"),
    (datetime.time, "time"),
)
"""Types of groups' keys in Python and SQL, which has its own texts of these, by its settings."""
MOST_NAME = 500
"""Characters of a name."""
MOST_VERSION = 1_000_000_000
NO_REGISTRY = (
    "the database has no registry of models: tuskml models create DATABASE makes one, in Python "
    "registry.create(connection)"
)


@dataclass(frozen=True)
class Entry:
    """A version of a model: a row of the registry, without the model.

    group_key: "" of a model without groups; stage: one of STAGES; created, deployed_at: in UTC;
    metrics, options: parsed JSON; recipe: how the model was made, in its maker's words;
    data_fingerprint: of the rows it was trained on.
    """

    name: str
    group_key: str
    version: int
    created: datetime.datetime
    stage: str
    deployed_at: datetime.datetime | None
    task: str | None
    status: str | None
    plan: str | None
    metrics: dict[str, Any]
    options: dict[str, Any] | None
    recipe: str | None
    data_fingerprint: str | None

    def as_dict(self) -> dict[str, Any]:
        """Column by column, for JSON."""
        return asdict(self)


COLUMNS = tuple(Entry.__dataclass_fields__)


def create(connection: Any) -> None:
    """Creates the registry; renews the models of one that an older tuskml made."""
    with open_database(connection, make=True) as database:
        if isinstance(database, DuckDB):
            if database.fetch("SELECT lower(current_database())") == [("tuskml",)]:
                raise DataError(SAME_NAME)
            renew_registry(database.connection)
            for statement in sql_text("registry.sql").split(";\n\n"):
                database.fetch(statement)
            run_registry_macros(database.connection)
        else:
            database.fetch(f"SELECT {database.function('create_registry')}()")


def register(
    connection: Any,
    name: str,
    models: "Model | Mapping[Any, Model | None]",
    *,
    metrics: Mapping[str, Any] | None = None,
    recipe: str | None = None,
) -> int:
    """Registers what `tuskml.train` returned as the next version; returns its number.

    models: a model, or models by group. All groups get one number, one more than the name's last;
    groups without a model are left out. metrics: stored with each as JSON; recipe: how the model
    was made, by default the names of its features and label as JSON. Nothing is deployed.
    """
    if hasattr(models, "fit"):
        models = model_in(models)
    batch = models if isinstance(models, Mapping) else {"": models}
    for item in batch.values():
        if not isinstance(item, Model | None):
            raise DataError(
                f"models is or has a {type(item).__qualname__}, expected what tuskml.train "
                "returned: a model, or models by group"
            )
    if not isinstance(name, str) or not name:
        raise DataError(f"name is {name!r}, expected text of at least one character")
    if len(name) > MOST_NAME:
        raise DataError(
            f"name has {len(name):,} characters, expected at most {MOST_NAME}: {name[:20]!r}..."
        )
    present = {key: model for key, model in batch.items() if model is not None}
    if not present:
        raise DataError(f"there is no model to register as {name!r}: no group has one")
    with _registry(connection) as database:
        texts = group_keys(database, present)
        if batch is models and "" in texts and list(present) != [()]:
            raise DataError(
                "the key of a group is '', which the registry has for models without groups: "
                "leave the group out, or name it"
            )
        several = [text for text, n in Counter(texts).items() if n > 1]
        if several:
            raise DataError(f"models has several groups of the key {several[0]!r}, expected one")
        rows = list(zip(texts, present.values(), strict=True))
        text = database.text
        number = f"(SELECT max(version) FROM tuskml.models WHERE name = {text(name)})"
        if database.fetch(f"SELECT {number} >= {MOST_VERSION}") == [(True,)]:
            raise DataError(
                f"{name!r} has version {MOST_VERSION:,}, the last one that there may be: drop it, "
                "or register under another name"
            )
        found = text(json.dumps(dict(metrics or {})))
        values = [
            f"({text(name)}, {text(group)}, coalesce({number}, 0) + 1, {text(model.task)}, "
            f"{text(model.status)}, {text(model.plan)}, CAST({found} AS {_json(database)}), "
            f"CAST({text(json.dumps(model.options))} AS {_json(database)}), "
            f"{_text(database, _recipe(model) if recipe is None else recipe)}, "
            f"{as_value(database, model)})"
            for group, model in rows
        ]
        given = "name, group_key, version, task, status, plan, metrics, options, recipe, model"
        made = database.fetch(
            f"INSERT INTO tuskml.models ({given}) VALUES {', '.join(values)} RETURNING version"
        )
    return int(made[0][0])


def group_key(texts: str | tuple[str, ...]) -> str:
    """The registry's key of a group whose keys have these texts: joined by `/`.

    >>> group_key(("AA", "7")), group_key("AA"), group_key(("a/b", "c"))
    ('AA/7', 'AA', 'a\\\\/b/c')
    """
    if isinstance(texts, str):
        return texts
    return "/".join(text.replace("\\", "\\\\").replace("/", "\\/") for text in texts)


def group_keys(database: Database, keys: Iterable[Any]) -> list[str]:
    """The registry's keys of groups, of the texts that the database casts their keys to: those by
    which `predict(name, CAST(key AS text), features)` asks. Raises DataError for a key that is
    NULL, or whose text Python cannot tell.
    """
    whole = list(keys)
    parts = [part for key in whole for part in (key if isinstance(key, tuple) else (key,))]
    kinds = [_kind(part) for part in parts]
    texts = [f"{part:f}" if isinstance(part, Decimal) else str(part) for part in parts]
    for kind in set(kinds) - {""}:
        places = [place for place, one in enumerate(kinds) if one == kind]
        values = ", ".join(f"({place}, {database.text(texts[place])})" for place in places)
        written = database.fetch(
            f"SELECT place, CAST(CAST(v AS {kind}) AS text) FROM (VALUES {values}) AS t (place, v)"
        )
        for place, text in written:
            texts[place] = text
    left, found = iter(texts), []
    for key in whole:
        own = tuple(islice(left, len(key) if isinstance(key, tuple) else 1))
        found.append(group_key(own if isinstance(key, tuple) else own[0]))
    return found


def _kind(value: Any) -> str:
    """The type as which SQL writes a key's text; "" where Python writes the same text."""
    if value is None:
        raise DataError(
            "the key of a group is NULL, expected values: leave the group out, or name it by "
            "coalesce"
        )
    kinds = [name for kind, name in KINDS if isinstance(value, kind)]
    if not kinds or (isinstance(value, float) and _is_single(value)):
        raise DataError(
            f"the key of a group is {value!r}, a {type(value).__qualname__} whose text in SQL "
            f"Python does not know: {BY_TEXT}"
        )
    zoned = getattr(value, "tzinfo", None) is not None
    return f"{kinds[0]} with time zone" if zoned else kinds[0]


def _is_single(value: float) -> bool:
    """Returns whether a fraction is that of a 32-bit float, whose text in SQL is shorter."""
    if not math.isfinite(value) or value == int(value) or not 1e-37 < abs(value) < 1e38:
        return False
    (single,) = struct.unpack("f", struct.pack("f", value))
    return bool(single == value and value != float(f"{value:.9g}"))


def entries(connection: Any, name: str | None = None) -> list[Entry]:
    """The versions of one model, or of all models, by name, group and version."""
    with _registry(connection) as database:
        chosen = "" if name is None else f"WHERE name = {database.text(name)}"
        columns = ", ".join(COLUMNS)
        rows = database.fetch(
            f"SELECT {columns} FROM tuskml.models {chosen} ORDER BY name, group_key, version"
        )
    return [_entry(row) for row in rows]


def _entry(row: tuple[Any, ...]) -> Entry:
    value = dict(zip(COLUMNS, row, strict=True))
    for time in ("created", "deployed_at"):
        if value[time] is not None:
            utc = datetime.UTC
            at = value[time]
            value[time] = at.astimezone(utc) if at.tzinfo else at.replace(tzinfo=utc)
    for column in ("metrics", "options"):
        if isinstance(value[column], str):
            value[column] = json.loads(value[column])
    return Entry(**value)


def model(connection: Any, name: str, group: Any = "", version: int | None = None) -> Model:
    """A version of a model, by default the deployed one. Raises DataError if there is none.

    group: a key of `Models`, or its text, as for `deploy`, `rollback` and `drop`.
    """
    with _registry(connection) as database:
        (group,) = group_keys(database, [group])
        chosen = "stage = 'deployed'" if version is None else f"version = {int(version)}"
        query = (
            f"SELECT recipe, model FROM tuskml.models WHERE name = {database.text(name)} "
            f"AND group_key = {database.text(group)} AND {chosen}"
        )
        for (recipe,), value in database.models(query):
            if value is not None:
                return _with_names(Model.of(value), recipe)
        _check_name(database, name)
    which = "no deployed version" if version is None else f"no version {version}"
    within = f" in group {group!r}" if group else ""
    raise DataError(f"there is {which} of a model {name!r}{within}")


def _recipe(model: Model) -> str | None:
    """The model's columns, if Python knows them: SQL's value does not hold them."""
    if not model.features:
        return None
    return json.dumps({"features": model.features, "label": model.label})


def _with_names(model: Model, recipe: str | None) -> Model:
    """The model with the names of its features, if its recipe says them, as dbt's does too."""
    try:
        known = json.loads(recipe or "null")
    except ValueError:  # a recipe is whatever its maker wrote
        return model
    features = known.get("features") if isinstance(known, dict) else None
    if not features:
        return model
    return model.trained_on(
        [features] if isinstance(features, str) else features, known.get("label")
    )


def deploy(connection: Any, name: str, version: int | None = None, group: Any = None) -> int:
    """Deploys a version, by default the newest that was not rolled back, for one group or all.

    Returns how many groups changed. Raises DataError if there is no such version.
    """
    return _change(connection, "deploy", name, to_version=version, in_group=group)


def rollback(connection: Any, name: str, group: Any = None) -> int:
    """Undoes the last deployment, or that of one group; returns how many groups changed.

    The previous versions are deployed again, and those that were deployed are withdrawn. A group
    that has no earlier version stays as it is. Raises DataError if no group has one.
    """
    return _change(connection, "rollback", name, in_group=group)


def drop(connection: Any, name: str, version: int | None = None, group: Any = None) -> int:
    """Removes a model, or a version that is not deployed; returns the number of rows removed."""
    with _registry(connection) as database:
        _check_name(database, name)
        if group is not None:
            (group,) = group_keys(database, [group])
        text = database.text
        rows = [f"name = {text(name)}"]
        rows += [] if group is None else [f"group_key = {text(group)}"]
        rows += [] if version is None else [f"version = {int(version)}"]
        chosen = f"FROM tuskml.models WHERE {' AND '.join(rows)}"
        if version is not None and database.fetch(f"SELECT 1 {chosen} AND stage = 'deployed'"):
            raise DataError(f"version {version} of {name!r} is deployed, deploy another one first")
        with naming_missing_rights(database, "drop", "DELETE"):
            found = database.fetch(f"DELETE {chosen} RETURNING version")
    if not found:
        what = "version" if version is None else f"version {version}"
        what += " of a model"
        within = "" if group is None else f" in group {group!r}"
        raise DataError(f"there is no {what} {name!r}{within}")
    return len(found)


# --- the two databases ---


@contextmanager
def _registry(connection: Any) -> Iterator[Database]:
    """The database, if it has a registry. An interrupt there cancels no training."""
    try:
        with open_database(connection) as database:
            if database.relation(["tuskml", "models"]) is None:
                raise DataError(NO_REGISTRY)
            yield database
    except Interrupted as error:
        raise Interrupted(CANCELLED) from error
    except TuskError as error:
        if _is_lost_race(error.__cause__):
            raise DataError(AGAIN) from error
        raise


def _is_lost_race(error: BaseException | None) -> bool:
    """Returns whether a database refused a statement because another one changed the same rows."""
    text = str(error)
    if isinstance(error, duckdb.ConstraintException):
        return "primary key" in text or "unique" in text
    if isinstance(error, duckdb.TransactionException):
        return "onflict" in text
    return getattr(error, "sqlstate", None) in ("23505", "40001", "40P01")


@contextmanager
def naming_missing_rights(database: Database, action: str, right: str) -> Iterator[None]:
    """Turns PostgreSQL's error for a missing right into a sentence with the GRANT that adds it."""
    try:
        yield
    except DataError as error:
        if getattr(error.__cause__, "sqlstate", "") != "42501" or "models" not in str(error):
            raise
        ((user, owner),) = database.fetch(WHO)
        raise DataError(
            f"{user} may not {action} models: GRANT {right} ON tuskml.models TO {user} lets "
            f"it, which {owner} may do"
        ) from error


def _check_name(database: Database, name: str) -> None:
    """Raises unless the registry has versions of the name; the error has the nearest name."""
    names = [row[0] for row in database.fetch("SELECT DISTINCT name FROM tuskml.models")]
    if name not in names:
        raise DataError(
            f"there is no model {name!r} in the registry, tuskml.models lists what there is"
            f"{nearest(name, names)}"
        )


def _change(connection: Any, function: str, name: str, **given: Any) -> int:
    """Calls deploy or rollback: in PostgreSQL a function, in DuckDB a macro of changed rows."""
    with _registry(connection) as database:
        _check_name(database, name)
        if given["in_group"] is not None:
            (given["in_group"],) = group_keys(database, [given["in_group"]])
        named = [f"{key} := {_literal(database, v)}" for key, v in given.items() if v is not None]
        call = f"{database.function(function)}({', '.join([database.text(name), *named])})"
        if isinstance(database, Postgres):
            with naming_missing_rights(database, function, "UPDATE (stage, deployed_at)"):
                return int(database.fetch(f"SELECT {call}")[0][0])
        rows = database.fetch(
            f"INSERT OR REPLACE INTO tuskml.models BY NAME FROM {call} RETURNING stage"
        )
        return sum(stage == "deployed" for (stage,) in rows)


def _text(database: Database, value: str | None) -> str:
    return "NULL" if value is None else database.text(value)


def _literal(database: Database, value: int | str) -> str:
    return str(value) if isinstance(value, int) else database.text(value)


def _json(database: Database) -> str:
    return "JSON" if isinstance(database, DuckDB) else "jsonb"


def as_value(database: Database, model: Model) -> str:
    """A model value as SQL."""
    given = asdict(model) | {
        "options": model.options_text,
        "features": list(model.features) or None,
        "trials": None if model.trials is None else json.dumps(model.trials),
    }
    if isinstance(database, Postgres):
        fields = database.record({n: _plain(given[n]) for n in FIELDS})
    else:
        fields = "{" + ", ".join(f"'{n}': {_sql(database, given[n])}" for n in FIELDS) + "}"
    return f"{database.function('with_payload')}({fields})"


def _plain(value: Any) -> Any:
    """A field of a model as JSON; infinite and NaN numbers as PostgreSQL reads them."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return as_json(value) if isinstance(value, float) else value


def _sql(database: Database, value: Any) -> str:
    """A field of a model as SQL; floats as text, since DuckDB may read a literal as DECIMAL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"'{value!r}'::double precision" if isinstance(value, float) else str(value)
    if isinstance(value, str):
        return database.text(value)
    if value and isinstance(value[0], str):
        return database.array([database.text(item) for item in value])
    items = ", ".join("NULL" if item is None else f"'{float(item)!r}'" for item in value)
    return f"{database.array([items] if items else [])}::double precision[]"
