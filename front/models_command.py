"""`tuskml models`: the registry of models in a database, from the shell."""

import argparse
import json
from typing import Any

from tuskml import registry
from tuskml.registry import Entry
from tuskml.script import plain
from tuskml.table import shown, table
from tuskml.usage import Commands, add_command, add_json, files

ACTIONS = {
    "create": "make the registry, the table tuskml.models, in a database",
    "list": "list versions and their stage, of one model or all",
    "show": "show the deployed version of a model, or the one given",
    "deploy": "deploy a version of a model, else its newest",
    "rollback": "undo the last deployment of a model",
    "drop": "forget a model, or one version of it",
}
EXAMPLES = {
    "create": "tuskml models create shop.duckdb",
    "list": "tuskml models list shop.duckdb --json",
    "show": "tuskml models show shop.duckdb late --group AA",
    "deploy": "tuskml models deploy shop.duckdb late --version 3",
    "rollback": "tuskml models rollback postgresql:///shop late --group AA",
    "drop": "tuskml models drop shop.duckdb late --version 1",
}
MOST = 200


def add_models(commands: "Commands[Any]") -> None:
    """The grammar of `tuskml models`."""
    models = add_command(
        commands,
        "models",
        None,
        "models by name: create, list, show, deploy, rollback, drop",
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
        add("model", nargs="?", metavar="NAME", help="a model's name (else all)")
    elif name != "create":
        add("model", metavar="NAME", help="a model's name")
    if name in ("show", "deploy", "drop"):
        default = {"show": "the deployed one", "deploy": "the newest", "drop": "all"}[name]
        add("--version", type=int, metavar="N", help=f"a version's number (else {default})")
    if name == "show":
        add("--group", default="", metavar="KEY", help="of a model by group: which group")
    elif name in ("deploy", "rollback", "drop"):
        add("--group", metavar="KEY", help="one group of a model by group (else all)")


def show_models(given: argparse.Namespace) -> None:
    """Runs the action and prints what it found or did."""
    found = _run(given)
    if given.json:
        print(json.dumps(plain(found), ensure_ascii=False, allow_nan=False))
    else:
        print(_text(given, found))


def _run(given: argparse.Namespace) -> Any:
    """What the action found: entries, a model, or how many groups changed."""
    database, action = given.database, given.action
    if action == "create":
        registry.create(database)
        return {"created": "tuskml.models"}
    if action == "list":
        return [entry.as_dict() for entry in registry.entries(database, given.model)]
    if action == "show":
        return registry.model(database, given.model, given.group, given.version).as_dict()
    if action == "deploy":
        return {"deployed": registry.deploy(database, given.model, given.version, given.group)}
    if action == "rollback":
        return {"rolled_back": registry.rollback(database, given.model, given.group)}
    return {"dropped": registry.drop(database, given.model, given.version, given.group)}


def _text(given: argparse.Namespace, found: Any) -> str:
    """The same for a person."""
    if given.action == "create":
        return "the database has the registry tuskml.models"
    if given.action == "list":
        return _list([Entry(**entry) for entry in found])
    if given.action == "show":
        return table(["field", "value"], [(name, shown(value)) for name, value in found.items()])
    (count,) = found.values()
    things = "version" if given.action == "drop" else "model"
    what = f"{count:,} {things}{'' if count == 1 else 's'} of {given.model}"
    done = {"deploy": "deployed", "rollback": "rolled back", "drop": "dropped"}[given.action]
    return f"{done} {what}" if count else f"{given.model} is deployed so already"


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
            measured(entry.metrics),
        )
        for entry in entries[:MOST]
    ]
    text = table(names, rows)
    if len(entries) > MOST:
        text += f"\n  ({MOST} of {len(entries)} versions; --json prints all)"
    return text


def measured(metrics: dict[str, Any]) -> str:
    """Metrics in a cell, what is measured before what is counted."""
    items = sorted(metrics.items(), key=lambda item: not isinstance(item[1], float))
    return ", ".join(f"{name} {shown(value)}" for name, value in items)
