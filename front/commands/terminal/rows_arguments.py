"""The arguments that say which rows: of a database, a source, its label, features and groups."""

import argparse
import json
import textwrap
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from tuskml.commands.terminal.usage import files
from tuskml.databases.script import plain
from tuskml.errors import DataError
from tuskml.groups.selection.candidates import SEARCHES
from tuskml.groups.selection.search import ANY_TASK
from tuskml.learners import registry
from tuskml.learners.options.kinds import BOOLEAN
from tuskml.learners.registry import TASKS
from tuskml.learners.tasks import ALIASES
from tuskml.text.expressions import QUOTED, split, split_alias, unquote


def add_database(command: argparse.ArgumentParser) -> None:
    """Adds the argument of the database."""
    text = "a DuckDB file, :memory:, or a URL such as postgresql://user@host/name"
    files(command.add_argument("database", metavar="DATABASE", help=text))


def add_source(command: argparse.ArgumentParser) -> None:
    """Rows."""
    source = "a table, a query (SELECT ...), or Parquet files in DuckDB"
    command.add_argument("--source", required=True, metavar="SOURCE", help=source)


def add_features(command: argparse.ArgumentParser, needed: bool = True) -> None:
    """Their features; needed: whether no model knows them."""
    text = "columns or expressions with commas, or one array or sparse(indices, values)"
    if not needed:
        text += " (default: the columns that the models were trained on, where they know them)"
    command.add_argument("--features", required=needed, metavar="SQL", help=text)


def add_training(command: argparse.ArgumentParser) -> None:
    """Adds all arguments of a training."""
    add = command.add_argument
    add_database(command)
    tasks = [*TASKS, ANY_TASK]
    names = [*tasks, *ALIASES]
    add("--task", required=True, choices=names, help=", ".join(tasks), metavar="TASK")
    add_source(command)
    add_features(command)
    what = "what to predict: a column or an expression; lda and kmeans have none"
    add("--label", metavar="SQL", help=what)
    add("--weight", metavar="SQL", help="the row's weight: a column or an expression")
    add("--offset", metavar="SQL", help="what is added to the margin: 'ln(exposure)'")
    keys = "columns or expressions with commas, `month(date) AS month` names one: one model each"
    add("--group-by", default="", metavar="SQL", help=keys)
    one = "an option of train_model such as l2=0.01, may be repeated; --l2 0.01 is the same"
    add("--option", action="append", default=[], type=option, metavar="NAME=VALUE", help=one)
    add_options(command)


def add_into(command: argparse.ArgumentParser, text: str) -> None:
    """Adds the options of where results are stored."""
    files(command.add_argument("--into", metavar="TABLE", help=text))
    replace = "let --into replace an existing table or file"
    command.add_argument("--replace", action="store_true", help=replace)


def add_options(command: argparse.ArgumentParser) -> None:
    """Adds a flag for each option of train_model, as listed in the help."""
    known = registry.all_options()
    for name in (*known, *SEARCHES):
        flags = list(dict.fromkeys((f"--{name.replace('_', '-')}", f"--{name}")))
        truth: dict[str, Any] = (
            {"nargs": "?", "const": (name, True)}
            if name in known and known[name].kind is BOOLEAN
            else {}
        )
        command.add_argument(
            *flags,
            dest="option",
            action="append",
            default=[],
            type=partial(parse_option, name),
            metavar="VALUE",
            help=argparse.SUPPRESS,
            **truth,
        )


def all_options() -> str:
    """The options of train_model, a line each, for help."""
    options = registry.all_options()
    width = max(map(len, options))
    further = " " * (width + 4)
    lines = [
        textwrap.fill(
            f"  {one.name.ljust(width)}  {one.kind.allowed}", 99, subsequent_indent=further
        )
        for one in options.values()
    ]
    return "\n".join(["options for --option NAME=VALUE, or --NAME VALUE:", *lines])


def option(text: str) -> tuple[str, Any]:
    """Name and value of `NAME=VALUE`; a value that is not JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as l2=0.01")
    return parse_option(name.strip(), value)


def parse_option(name: str, text: str) -> tuple[str, Any]:
    """An option's name and value; a value that is not JSON is text."""
    try:
        return name, json.loads(text)
    except (ValueError, RecursionError):
        return name, text


def options(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The options by name. Raises DataError for one that occurs twice."""
    found: dict[str, Any] = {}
    known = {*registry.all_options(), *SEARCHES}
    for name, value in pairs:
        if name in found:
            raise DataError(f"--option {name} is given twice, expected each option once")
        underscored = name.replace("-", "_")
        found[underscored if underscored in known else name] = value
    return found


def keys(text: str) -> list[str]:
    """The expressions of --group-by."""
    return split(text, "--group-by") if text.strip() else []


def key_names(expressions: Sequence[str]) -> list[str]:
    """The names of the keys: by AS, or their texts."""
    named = (split_alias(text)[1] or text for text in expressions)
    return [unquote(name) if QUOTED.fullmatch(name) else name for name in named]


def in_order(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[tuple[Any, ...], Any]]:
    """Pairs sorted by key, each key made a tuple; NULLs last."""
    rows = [(key if isinstance(key, tuple) else (key,), item) for key, item in pairs]

    def order(row: tuple[tuple[Any, ...], Any]) -> list[tuple[bool, str, Any]]:
        return [(key is None, type(key).__name__, key) for key in row[0]]

    try:
        return sorted(rows, key=order)
    except TypeError:  # keys such as lists of NULLs have no order
        return rows


def by_name(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """A group's keys, for JSON."""
    return {name: plain(value) for name, value in zip(names, values, strict=True)}
