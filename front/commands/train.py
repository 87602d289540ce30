"""`tuskml train`: a training on a table, a query or Parquet files, from the shell."""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tuskml.api.call import parse_task
from tuskml.api.training import options_text, resolve, train
from tuskml.commands.terminal.bar import training_bar
from tuskml.commands.terminal.rows_arguments import (
    add_into,
    add_training,
    all_options,
    by_name,
    in_order,
    key_names,
    keys,
    options,
)
from tuskml.commands.terminal.usage import Parser, add_json, describe, files
from tuskml.databases.database import Database
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.opening import open_database
from tuskml.databases.results import is_file, result_name
from tuskml.databases.script import plain
from tuskml.errors import ClusterWarning
from tuskml.groups.execution.choosing import place_given
from tuskml.groups.execution.leases import choose_lease
from tuskml.model.model import Model
from tuskml.model.summary import describe_absorbed
from tuskml.text.expressions import split
from tuskml.text.table import format_value, table

MOST_GROUPS = 100
EXAMPLES = """
one model of a table in a DuckDB file, by columns and expressions:
  tuskml train flights.duckdb --task logistic --source flights \\
      --label 'arr_delay > 15' --features 'dep_delay, distance, month(date) IN (6, 7, 8)'
one model per carrier, kept in a new table for tuskml predict and tuskml report:
  tuskml train flights.duckdb --task logistic --source flights --label 'arr_delay > 15' \\
      --features dep_delay,distance --group-by carrier --into models
Parquet files; stochastic gradient descent reads only as much as it needs:
  tuskml train :memory: --task linear --source 'trips/*.parquet' --label fare \\
      --features distance,passengers --option algorithm=sgd --option epsilon=0.01
PostgreSQL:
  tuskml train postgresql:///shop --task linear --source 'SELECT * FROM sales WHERE day > 7' \\
      --label amount --features 'ARRAY[price, hour]' --option l2=0.01
"""


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml train`."""
    describe(
        command,
        show_training,
        "Trains on the rows of a table, a query or Parquet files, one model or one per "
        "group, and prints coefficients and status. The numbers are those of SQL's train_model. "
        "A group that cannot be trained well is not an error: its status says what happened.",
        EXAMPLES,
    )
    command.epilog = f"{command.epilog}\n\n{all_options()}"
    add_training(command)
    executor = "train on ray, host:port of a Ray cluster, or threads; --cluster is the same"
    command.add_argument("--executor", metavar="WHERE", help=executor)
    placement = "gtp: a group on one worker, gap: large ones on all, or another, for --executor"
    command.add_argument("--placement", metavar="NAME", help=placement)
    finished = "a folder of the groups that are trained already, for --executor"
    files(command.add_argument("--finished", metavar="FOLDER", help=finished))
    timeout = "seconds after which a task of a worker is given to another one, for --executor"
    command.add_argument("--worker-timeout", type=float, metavar="SECONDS", help=timeout)
    lease = "lease the cluster's workers for this time, such as 10m, beside other trainings"
    command.add_argument("--lease", metavar="TIME", help=lease)
    add_into(command, "keep the models in a new table instead of printing them")
    add_json(command, "print one JSON object per model, one per line")


def show_training(args: argparse.Namespace) -> None:
    """Trains, and prints the models."""
    expressions = keys(args.group_by)
    with open_database(args.database, args.into is not None) as database:
        groups = number_of_groups(database, args, expressions)
        with training_bar(database, groups), notes_on_stderr():
            found: Any = run_training(database, args, expressions)
    if args.into is not None:
        place = "file" if is_file(args.into) else "table"
        as_text = json.dumps({"models": found, place: args.into}) if args.json else None
        print(as_text or summary_of_table(args, found))
        return
    names = key_names(expressions)
    rows = in_order(found.items()) if names else [((), found)]
    if args.json:
        for values, model in rows:
            print(as_json(names, values, model))
    elif names:
        print(as_rows(names, rows))
    else:
        print(table(["field", "value"], about(found, feature_names(args.features))))


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Prints warnings of a cluster that changed no model, one per line."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ClusterWarning)
        yield
    for note in found:
        print(f"tuskml: {note.message}", file=sys.stderr)


def run_training(database: Database, args: argparse.Namespace, expressions: Sequence[str]) -> Any:
    """The result of `tuskml.train` for these arguments."""
    if args.lease is not None:
        choose_lease(place_given(args.executor, options(args.option)), args.lease)
    return train(
        database.connection,
        args.task,
        source=args.source,
        label=args.label,
        features=args.features,
        weight=args.weight,
        offset=args.offset,
        group_by=expressions,
        into=args.into,
        replace=args.replace,
        executor=args.executor,
        placement=args.placement,
        finished=args.finished,
        worker_timeout=args.worker_timeout,
        **options(args.option),
    )


def number_of_groups(
    database: Database, args: argparse.Namespace, expressions: Sequence[str]
) -> int | None:
    """Counts the groups for the progress bar, if there will be one."""
    if not sys.stderr.isatty() or not isinstance(database, DuckDB):
        return None
    if not expressions:
        return 1
    found_options = options(args.option)
    place_given(None, found_options)
    call = parse_task(args.task, options_text(found_options))
    found = resolve(database, call, args.source, args.label, args.features, expressions)
    columns = ", ".join(sql for _, sql in found.keys)
    (count,) = database.fetch(
        f"SELECT count(*) FROM (SELECT DISTINCT {columns} FROM {found.source.sql})"
    )[0]
    return int(count)


def summary_of_table(args: argparse.Namespace, count: int) -> str:
    """Returns where the models are."""
    return f"{count:,} model{'s' if count != 1 else ''} in {result_name(args.into)}"


def feature_names(text: str) -> list[str]:
    """Returns the names of the features."""
    return split(text, "--features")


def as_json(names: Sequence[str], values: Sequence[Any], model: Model | None) -> str:
    """Keys and the model's fields as one JSON object, in one line."""
    fields = None if model is None else plain(model.as_dict())
    line = {"key": by_name(names, values), "model": fields} if names else fields
    return json.dumps(line, ensure_ascii=False, allow_nan=False)


def as_rows(names: Sequence[str], rows: Sequence[tuple[tuple[Any, ...], Model | None]]) -> str:
    """Formats one line per model."""
    head = [*names, "rows", "skipped", "loss", "iterations", "status", "intercept", "coef"]
    lines = []
    for values, model in rows[:MOST_GROUPS]:
        if model is None:
            lines.append([*values, 0, None, None, None, "no usable row", None, None])
        else:
            coef = by_term(model) if model.coef is not None else model.store
            rest = [model.loss, model.iterations, model.status, model.intercept, coef]
            lines.append([*values, model.n_rows, model.n_skipped, *rest])
    text = table(head, lines)
    if len(rows) > MOST_GROUPS:
        text += f"\n  ({MOST_GROUPS} of {len(rows)} models; --json prints all, --into keeps them)"
    return text


def by_term(model: Model) -> Mapping[str, float] | list[float] | None:
    """The coefficients but absorbed effects; by name those of rows with names, which differ
    between groups.
    """
    if model.preparation is None or len(model.term_names) != len(model.coef or ()):
        return model.coef
    terms = zip(model.term_names, model.coef or (), strict=True)
    return dict(term for k, term in enumerate(terms) if k not in model.absorbed)


def about(model: Model, names: Sequence[str]) -> list[tuple[str, str]]:
    """Describes one model, one fact per line; coefficients by the features' names if their
    number matches.
    """
    lines = [
        ("task", model.task),
        ("status", model.status),
        ("rows", f"{model.n_rows:,} used, {model.n_skipped:,} skipped"),
        *([("note", model.note)] if model.note else []),
        ("loss", format_value(model.loss)),
        ("plan", model.plan),
        ("iterations", f"{model.iterations:,} in {model.seconds:.3g} s"),
    ]
    if model.classes:
        lines.append(("classes", " and ".join(model.names_of_classes)))
    lines += [(name, text) for name, text in describe_counters(model.options.get("counters", {}))]
    if model.intercept is not None:
        lines.append(("intercept", format_value(model.intercept)))
    if model.coef is None:
        return [*lines, ("store", format_value(model.store))]
    has_names = model.several or model.preparation is not None
    names = list(model.term_names) if has_names else names
    if model.absorbed:
        lines.append(("absorbed", describe_absorbed(model)))
    if len(names) == len(model.coef):
        terms = enumerate(zip(names, model.coef, strict=True))
        return lines + [
            (name, format_value(c)) for k, (name, c) in terms if k not in model.absorbed
        ]
    return [*lines, ("coef", format_value(model.coef))]


def describe_counters(counters: dict[str, Any]) -> list[tuple[str, str]]:
    """Reports how much was read, and of how much."""
    if "rows_read" not in counters:
        return []
    of = [("rows_read", "rows"), ("row_groups_read", "row_groups")]
    parts = [f"{counters[a]:,} of {counters[b]:,} {b.replace('_', ' ')}" for a, b in of]
    return [("read", ", ".join(parts))]
