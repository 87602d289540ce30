"""`tuskml train`: a training on a table, a query or Parquet files, from the shell."""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from tuskml.errors import DataError
from tuskml.expressions import renamed, split
from tuskml.model import Model
from tuskml.script import plain
from tuskml.table import shown, table
from tuskml.training import train
from tuskml.udas.options import TABLE
from tuskml.udas.tasks import TASKS

MOST_GROUPS = 100
EXAMPLES = """\
examples:
  one model of a table in a DuckDB file, by columns and expressions:
    tuskml train flights.duckdb --task logistic --source flights \\
        --label 'arr_delay > 15' --features 'dep_delay, distance, month(date) IN (6, 7, 8)'
  one model a carrier, kept in a new table for predict():
    tuskml train flights.duckdb --task logistic --source flights --label 'arr_delay > 15' \\
        --features dep_delay,distance --group-by carrier --into models
  Parquet files, of which stochastic gradient descent reads what it needs:
    tuskml train :memory: --task linear --source 'trips/*.parquet' --label fare \\
        --features distance,passengers --option algorithm=sgd --option epsilon=0.01
  PostgreSQL:
    tuskml train postgresql:///shop --task linear --source 'SELECT * FROM sales WHERE day > 7' \\
        --label amount --features 'ARRAY[price, hour]' --option l2=0.01
"""


def add_train(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The grammar of `tuskml train`."""
    command = commands.add_parser(
        "train",
        help="train on a table, a query or Parquet files, and print the models",
        description="Trains on the rows of a table, a query or Parquet files, one model or one a "
        "group, and prints coefficients and status. The numbers are those of SQL's train_model.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = command.add_argument
    database = "a DuckDB file, :memory:, or a URL such as postgresql://user@host/name"
    add("database", metavar="DATABASE", help=database)
    add("--task", required=True, metavar="TASK", help=", ".join(TASKS))
    add("--source", required=True, metavar="SOURCE", help="a table, a query, or Parquet files")
    add("--label", required=True, metavar="SQL", help="what to predict: a column or an expression")
    features = "columns or expressions with commas, or one array or sparse(indices, values)"
    add("--features", required=True, metavar="SQL", help=features)
    keys = "columns or expressions with commas, `month(date) AS month` names one: one model each"
    add("--group-by", default="", metavar="SQL", help=keys)
    one = "an option of train_model such as l2=0.01 or algorithm=sgd; may be repeated"
    add("--option", action="append", default=[], type=option, metavar="NAME=VALUE", help=one)
    add("--into", metavar="TABLE", help="keep the models in a new table instead of printing them")
    add("--json", action="store_true", help="print one JSON object a model, a line each")


def option(text: str) -> tuple[str, Any]:
    """Name and value of `NAME=VALUE`; a value that is no JSON is text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, such as l2=0.01")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


def show_training(given: argparse.Namespace) -> None:
    """Trains, and prints the models."""
    keys = split(given.group_by, "--group-by") if given.group_by.strip() else []
    found: Any = train(
        given.database,
        given.task,
        source=given.source,
        label=given.label,
        features=given.features,
        group_by=keys,
        into=given.into,
        **options(given.option),
    )
    if given.into is not None:
        print(
            json.dumps({"models": found, "table": given.into})
            if given.json
            else kept(given, found)
        )
        return
    names = [renamed(key)[1] or key for key in keys]
    rows = in_order(found) if keys else [((), found)]
    if given.json:
        for values, model in rows:
            print(as_json(names, values, model))
    elif keys:
        print(as_rows(names, rows))
    else:
        print(table(["field", "value"], about(found, feature_names(given.features))))


def options(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The options by name. DataError where one is given twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise DataError(f"--option {name} is given twice, expected each option once")
        underscored = name.replace("-", "_")
        found[underscored if underscored in TABLE else name] = value
    return found


def kept(given: argparse.Namespace, count: int) -> str:
    """Where the models are."""
    return f"{count:,} model{'s' if count != 1 else ''} in table {given.into}"


def in_order(found: dict[Any, Model | None]) -> list[tuple[tuple[Any, ...], Model | None]]:
    """Keys and models, by key; NULLs last."""
    rows = [(key if isinstance(key, tuple) else (key,), model) for key, model in found.items()]

    def order(row: tuple[tuple[Any, ...], Model | None]) -> list[tuple[bool, str, Any]]:
        return [(key is None, type(key).__name__, key) for key in row[0]]

    try:
        return sorted(rows, key=order)
    except TypeError:  # keys such as lists of NULLs have no order
        return rows


def feature_names(text: str) -> list[str]:
    """What the features are called."""
    return split(text, "--features")


def as_json(names: Sequence[str], values: Sequence[Any], model: Model | None) -> str:
    """Keys and the model's fields as one JSON object, in one line."""
    keys = {name: plain(value) for name, value in zip(names, values, strict=True)}
    fields = None if model is None else plain(model.as_dict())
    line = {"key": keys, "model": fields} if names else fields
    return json.dumps(line, ensure_ascii=False, allow_nan=False)


def as_rows(names: Sequence[str], rows: Sequence[tuple[tuple[Any, ...], Model | None]]) -> str:
    """One line a model."""
    head = [*names, "rows", "skipped", "loss", "iterations", "status", "intercept", "coef"]
    lines = []
    for values, model in rows[:MOST_GROUPS]:
        if model is None:
            lines.append([*values, 0, None, None, None, "no usable row", None, None])
        else:
            coef = model.coef if model.coef is not None else model.store
            rest = [model.loss, model.iterations, model.status, model.intercept, coef]
            lines.append([*values, model.n_rows, model.n_skipped, *rest])
    text = table(head, lines)
    if len(rows) > MOST_GROUPS:
        text += f"\n  ({MOST_GROUPS} of {len(rows)} models; --json prints all, --into keeps them)"
    return text


def about(model: Model, names: Sequence[str]) -> list[tuple[str, str]]:
    """One model, a line a fact; coefficients by the features' names where there are as many."""
    lines = [
        ("task", model.task),
        ("status", model.status),
        ("rows", f"{model.n_rows:,} used, {model.n_skipped:,} skipped"),
        ("loss", shown(model.loss)),
        ("plan", model.plan),
        ("iterations", f"{model.iterations:,} in {model.seconds:.3g} s"),
    ]
    if model.classes:
        lines.append(("classes", " and ".join(f"{value:g}" for value in model.classes)))
    lines += [(name, text) for name, text in counted(model.options.get("counters", {}))]
    lines.append(("intercept", shown(model.intercept)))
    if model.coef is None:
        return [*lines, ("store", shown(model.store))]
    if len(names) == len(model.coef):
        return lines + [(name, shown(c)) for name, c in zip(names, model.coef, strict=True)]
    return [*lines, ("coef", shown(model.coef))]


def counted(counters: dict[str, Any]) -> list[tuple[str, str]]:
    """How much was read, of how much."""
    if "rows_read" not in counters:
        return []
    of = [("rows_read", "rows"), ("row_groups_read", "row_groups")]
    parts = [f"{counters[a]:,} of {counters[b]:,} {b.replace('_', ' ')}" for a, b in of]
    return [("read", ", ".join(parts))]
