"""The arguments that say which rows: of a database, a source, its label, features and groups."""

import argparse
import json
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from tuskml.errors import DataError
from tuskml.expressions import renamed, split
from tuskml.script import plain
from tuskml.udas.options import TABLE
from tuskml.udas.tasks import TASKS
from tuskml.usage import files


def add_database(command: argparse.ArgumentParser) -> None:
    """Where rows lie."""
    text = "a DuckDB file, :memory:, or a URL such as postgresql://user@host/name"
    files(command.add_argument("database", metavar="DATABASE", help=text))


def add_source(command: argparse.ArgumentParser) -> None:
    """Rows and features."""
    add = command.add_argument
    source = "a table, a query (SELECT ...), or Parquet files in DuckDB"
    add("--source", required=True, metavar="SOURCE", help=source)
    features = "columns or expressions with commas, or one array or sparse(indices, values)"
    add("--features", required=True, metavar="SQL", help=features)


def add_training(command: argparse.ArgumentParser) -> None:
    """All that a training is asked for by."""
    add = command.add_argument
    add_database(command)
    add("--task", required=True, choices=list(TASKS), help=", ".join(TASKS), metavar="TASK")
    add_source(command)
    add("--label", required=True, metavar="SQL", help="what to predict: a column or an expression")
    keys = "columns or expressions with commas, `month(date) AS month` names one: one model each"
    add("--group-by", default="", metavar="SQL", help=keys)
    one = "an option of train_model such as l2=0.01 or algorithm=sgd; may be repeated"
    add("--option", action="append", default=[], type=option, metavar="NAME=VALUE", help=one)


def all_options() -> str:
    """The options of train_model, a line each, for help."""
    width = max(map(len, TABLE))
    further = " " * (width + 4)
    lines = [
        textwrap.fill(
            f"  {one.name.ljust(width)}  {one.kind.allowed}", 99, subsequent_indent=further
        )
        for one in TABLE.values()
    ]
    return "\n".join(["options for --option NAME=VALUE:", *lines])


def option(text: str) -> tuple[str, Any]:
    """Name and value of `NAME=VALUE`; a value that is no JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as l2=0.01")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


def options(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The options by name. DataError where one is given twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise DataError(f"--option {name} is given twice, expected each option once")
        underscored = name.replace("-", "_")
        found[underscored if underscored in TABLE else name] = value
    return found


def keys(text: str) -> list[str]:
    """The expressions of --group-by."""
    return split(text, "--group-by") if text.strip() else []


def key_names(expressions: Sequence[str]) -> list[str]:
    """What the keys are called: by AS, or as they are."""
    return [renamed(text)[1] or text for text in expressions]


def in_order(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[tuple[Any, ...], Any]]:
    """Keys, each made a tuple, and what belongs to them, by key; NULLs last."""
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
