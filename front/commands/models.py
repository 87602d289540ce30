"""`tuskml models`: the registry of models in a database, from the shell."""

import argparse
import json
from typing import Any

from tuskml import registry
from tuskml.api.model_tables import choose_keys, model_table
from tuskml.commands.terminal.rows_arguments import keys
from tuskml.commands.terminal.usage import Parser, add_command, add_json, describe, files
from tuskml.databases.opening import open_database
from tuskml.databases.script import plain
from tuskml.errors import DataError
from tuskml.model.model import Model
from tuskml.registry import Entry
from tuskml.text.expressions import quote_name
from tuskml.text.table import format_value, table

ACTIONS = {
    "create": "create the registry, the table tuskml.models, in a database",
    "register": "keep the models of a table or query as the next version of a name",
    "list": "list versions and their stage, of one model or all",
    "show": "show the deployed version of a model, or the one given",
    "deploy": "deploy a version of a model, by default its newest",
    "rollback": "undo the last deployment of a model",
    "drop": "remove a model, or one version of it",
}
EXAMPLES = {
    "create": "tuskml models create shop.duckdb",
    "register": "tuskml models register shop.duckdb late --models trained --group-by carrier",
    "list": "tuskml models list shop.duckdb --json",
    "show": "tuskml models show shop.duckdb late --group AA",
    "deploy": "tuskml models deploy shop.duckdb late --version 3",
    "rollback": "tuskml models rollback postgresql:///shop late --group AA",
    "drop": "tuskml models drop shop.duckdb late --version 1",
}
CHANGES = {"deploy": (registry.deploy, "deployed"), "drop": (registry.drop, "dropped")}
MOST = 200


def grammar(models: Parser) -> None:
    """Defines the grammar of `tuskml models`."""
    describe(
        models,
        None,
        "The registry: versions of models by name and group, of which one is deployed and "
        "answers to predict('name', features).",
        "\n".join(EXAMPLES.values()),
    )
    actions = models.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text in ACTIONS.items():
        described = text[0].upper() + text[1:] + "."
        action = add_command(actions, name, show_models, text, described, EXAMPLES[name])
        _add_arguments(action, name)
        add_json(action, "print one JSON value")


def _add_arguments(action: argparse.ArgumentParser, name: str) -> None:
    add = action.add_argument
    database = "a DuckDB file, or a URL such as postgresql://user@host/name"
    files(add("database", metavar="DATABASE", help=database))
    if name == "list":
        add("model", nargs="?", metavar="NAME", help="a model's name (default: all)")
    elif name != "create":
        add("model", metavar="NAME", help="a model's name")
    if name in ("show", "deploy", "drop"):
        default = {"show": "the deployed one", "deploy": "the newest", "drop": "all"}[name]
        add("--version", type=int, metavar="N", help=f"a version's number (default: {default})")
    if name == "register":
        models = "a table or query with a column of models, as tuskml train --into makes it"
        add("--models", required=True, metavar="TABLE", help=models)
        by = "the columns that name a group (default: all columns beside the models)"
        add("--group-by", default="", metavar="COLUMNS", help=by)
        add("--model-column", metavar="NAME", help="the column of models, if there are several")
    if name == "show":
        add("--group", default="", metavar="KEY", help="the group, for a model by group")
    elif name in ("deploy", "rollback", "drop"):
        add("--group", metavar="KEY", help="one group of a model by group (default: all)")


def show_models(args: argparse.Namespace) -> None:
    """Runs the action and prints its result."""
    found = _run(args)
    if args.json:
        print(json.dumps(plain(found), ensure_ascii=False, allow_nan=False))
    else:
        print(_text(args, found))


def _run(args: argparse.Namespace) -> Any:
    """The action's result: entries, a model, or the number of changed groups."""
    database, action = args.database, args.action
    if action == "create":
        registry.create(database)
        return {"created": "tuskml.models"}
    if action == "register":
        models = _models_of(args)
        return {"version": registry.register(database, args.model, models), "models": len(models)}
    if action == "list":
        return [entry.as_dict() for entry in registry.entries(database, args.model)]
    if action == "show":
        return registry.model(database, args.model, args.group, args.version).as_dict()
    if action == "rollback":
        return {"rolled_back": registry.rollback(database, args.model, args.group)}
    change, done = CHANGES[action]
    return {done: change(database, args.model, args.version, args.group)}


def _models_of(args: argparse.Namespace) -> dict[Any, Model]:
    """The models of a table or query by the texts of their groups' keys, without groups that have
    none.
    """
    with open_database(args.database) as database:
        found = model_table(database, args.models, args.model_column)
        names = choose_keys(found, keys(args.group_by))
        texts = [f"CAST({quote_name(name)} AS text)" for name in names]
        columns = ", ".join([*texts, quote_name(found.model)])
        rows = list(database.models(f"SELECT {columns} FROM {found.source.sql}"))
    models: dict[Any, Model] = {}
    for key, value in rows:
        group = key[0] if len(key) == 1 else tuple(key)
        if group in models:
            raise DataError(
                f"{found.source.name} has several models of the group {group!r}, expected one: "
                "--group-by names the columns that tell them apart"
            )
        if value is not None:
            models[group] = Model.of(value)
    return models


def _text(args: argparse.Namespace, found: Any) -> str:
    """The result as text."""
    if args.action == "create":
        return "the database has the registry tuskml.models"
    if args.action == "register":
        count = found["models"]
        kept = f"{count:,} model{'' if count == 1 else 's'}"
        return (
            f"registered {kept} as version {found['version']} of {args.model}, not deployed yet: "
            f"tuskml models deploy {args.database} {args.model}"
        )
    if args.action == "list":
        return _list([Entry(**entry) for entry in found])
    if args.action == "show":
        return table(
            ["field", "value"], [(name, format_value(value)) for name, value in found.items()]
        )
    (count,) = found.values()
    things = "version" if args.action == "drop" else "model"
    what = f"{count:,} {things}{'' if count == 1 else 's'} of {args.model}"
    done = {"deploy": "deployed", "rollback": "rolled back", "drop": "dropped"}[args.action]
    return f"{done} {what}" if count else f"{args.model} is deployed so already"


def _list(entries: list[Entry]) -> str:
    """A line a version."""
    names = ["name", "group", "version", "stage", "created", "task", "status", "metrics"]
    rows = [
        (
            entry.name,
            entry.group_key,
            entry.version,
            entry.stage,
            f"{entry.created:%Y-%m-%d %H:%M}",
            entry.task,
            entry.status,
            metrics_text(entry.metrics),
        )
        for entry in entries[:MOST]
    ]
    text = table(names, rows)
    if len(entries) > MOST:
        text += f"\n  ({MOST} of {len(entries)} versions; --json prints all)"
    return text


def metrics_text(metrics: dict[str, Any]) -> str:
    """Metrics in a cell, measurements before counts."""
    items = sorted(metrics.items(), key=lambda item: not isinstance(item[1], float))
    return ", ".join(f"{name} {format_value(value)}" for name, value in items)
