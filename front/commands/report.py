"""`tuskml report`: one HTML page of a training, from a table of models or a script's result."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tuskml.api.drift import Drift, drifts, drifts_from_models
from tuskml.api.joining import of_one_task
from tuskml.api.model_tables import choose_keys, model_table
from tuskml.api.prediction import resolve_features
from tuskml.commands.predict import scoring_of
from tuskml.commands.sql import script
from tuskml.commands.terminal.bar import bar
from tuskml.commands.terminal.rows_arguments import add_database, keys
from tuskml.commands.terminal.usage import Parser, add_json, describe, files
from tuskml.databases.database import Database
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.opening import open_database
from tuskml.databases.script import run
from tuskml.databases.sources import find_source, scope_of, split_expressions
from tuskml.errors import DataError
from tuskml.model.file import save
from tuskml.model.model import FIELDS, LATER
from tuskml.text.expressions import quote_name, split

if TYPE_CHECKING:
    from tuskml.report import Group

EXAMPLES = """
the models that tuskml train --into models kept, a page in report.html:
  tuskml report flights.duckdb
another table and file, features by name, keys of several columns:
  tuskml report postgresql:///shop --models monthly --group-by shop,month \\
      --features price,hour --output monthly.html
with calibration and gain of predictions of these rows, and drift since others:
  tuskml report flights.duckdb --rows flights --label 'arr_delay > 15' \\
      --features dep_delay,distance --reference last_year
what a script trains: its last result that contains models
  tuskml report :memory: --script train.sql
"""


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml report`."""
    describe(
        command,
        show_report,
        "Writes one HTML page of the models of a table, a query or a script: the groups with "
        "their status, which can be searched and sorted, convergence curves, estimated and "
        "actual times, the largest coefficients with intervals, and what stored models asked of "
        "their store; of given rows the metrics of each group, the worst first, calibration and "
        "drift. The page needs no network.",
        EXAMPLES,
    )
    add = command.add_argument
    add_database(command)
    either = command.add_mutually_exclusive_group()
    models = "a table or query with a column of models (default %(default)s)"
    either.add_argument("--models", default="models", metavar="TABLE", help=models)
    text = "a SQL script to run in the DuckDB file instead; - reads standard input"
    files(either.add_argument("--script", metavar="FILE", help=text))
    by = "the columns that name a group (default: all columns beside the models)"
    add("--group-by", default="", metavar="COLUMNS", help=by)
    rows = "rows to predict by these models: a table, a query or Parquet files; needs --label"
    add("--rows", metavar="TABLE", help=rows)
    add("--label", metavar="SQL", help="with --rows: what the models predict, as SQL over them")
    reference = (
        "with --rows: rows such as those of the training, from which drift is measured (default: "
        "the histograms that models keep with option histogram)"
    )
    add("--reference", metavar="TABLE", help=reference)
    names = (
        "the features' names, with commas, in the order of the training; with --rows also their "
        "columns or SQL (default: what the models know)"
    )
    add("--features", default="", metavar="NAMES", help=names)
    add("--model-column", metavar="NAME", help="the column of models, if there are several")
    add("--title", help="the title of the page (default: from the source)")
    out = "where to write the page (default %(default)s)"
    default = Path("report.html")
    files(add("--output", type=Path, default=default, metavar="HTML", help=out))
    add_json(command, "print one JSON object about the page")


def show_report(args: argparse.Namespace) -> None:
    """Reads the models, writes the page, and says where."""
    from tuskml.report import page

    check_rows(args)
    scores: dict[str, Any] | None = None
    found_drifts: list[Drift] = []
    with open_database(args.database) as database:
        if args.script is None:
            names, groups = of_table(database, args)
            if args.rows is not None:
                scores, found_drifts = scores_of(database, args)
        else:
            names, groups = of_script(database, args)
    if not groups:
        raise DataError(f"{args.script or args.models} has no models, expected at least one row")
    features = split(args.features, "--features") if args.features.strip() else []
    check_names(features, groups)
    what = args.script or args.models
    where = "" if args.database == ":memory:" else f" in {format_database(args.database)}"
    text = page(
        groups,
        keys=names,
        features=features,
        title=args.title or "Training report",
        source=f"{what}{where}",
        scores=scores,
        drifts=found_drifts,
    )
    save(text, args.output)
    size = len(text.encode())
    if args.json:
        facts = {"page": str(args.output), "groups": len(groups), "bytes": size}
        print(json.dumps(facts | {"ok": sum(g.grade == "good" for g in groups)}))
    else:
        count = f"{len(groups):,} group{'s' if len(groups) != 1 else ''}"
        print(f"{args.output}: {count}, {size / 1024:,.0f} KiB")


def check_rows(args: argparse.Namespace) -> None:
    """Raises DataError unless --rows has the options that it requires."""
    if args.rows is None and args.label is None:
        if args.reference is not None:
            raise DataError("--reference is given without --rows, expected both")
        return
    for name, value in (("--rows", args.rows), ("--label", args.label)):
        if not value:
            raise DataError(f"{name} is not given, expected --rows and --label together")
    if args.script is not None:
        raise DataError("--rows is given with --script, expected a table of models: --models")


def scores_of(database: Database, args: argparse.Namespace) -> tuple[dict[str, Any], list[Drift]]:
    """The metrics and curves of each group by name, '' where there are no keys; and the drift of
    features.
    """
    scoring = scoring_of(database, args, args.rows, of_one_task)
    found = scoring.metrics(args.label, curves=True)
    by_name = {format_key(key): one for key, one in found.items()} if scoring.keys else {"": found}
    if args.reference is None:
        return by_name, drifts_from_models(scoring)
    reference = scope_of(database, find_source(database, args.reference))
    known = resolve_features(args.features or None, scoring.models, "--features")
    texts = split_expressions(known, "--features", scoring.scope.columns)
    return by_name, drifts(scoring.scope, reference, texts)


def format_key(key: Any) -> str:
    """A group's name as the table of groups has it."""
    values = key if isinstance(key, tuple) else (key,)
    return ", ".join("NULL" if value is None else str(value) for value in values)


def check_names(features: Sequence[str], groups: Sequence["Group"]) -> None:
    """Raises DataError unless there are as many names as some model has features; sparse
    models may have fewer.
    """
    found = sorted({len(group.weights) for group in groups if group.linear})
    if features and found and len(features) not in found:
        counts = f"{found[0]}" if len(found) == 1 else f"from {found[0]} to {found[-1]}"
        raise DataError(
            f"--features has {len(features)} names, but the models have {counts} features, "
            "expected one for each, in the order of the training"
        )


def format_database(database: str) -> str:
    """A path's last part; a URL without its user, password and options."""
    if "://" not in database:
        return Path(database).name
    return database.partition("?")[0].rpartition("@")[2].rpartition("/")[2] or "PostgreSQL"


def of_table(database: Database, args: argparse.Namespace) -> tuple[list[str], list["Group"]]:
    """Names of keys and the models of a table or query."""
    from tuskml.report import group_of

    found = model_table(database, args.models, args.model_column)
    names = choose_keys(found, keys(args.group_by))
    columns = ", ".join(map(quote_name, [*names, found.model]))
    rows = database.models(f"SELECT {columns} FROM {found.source.sql}")
    return names, [group_of(key, value) for key, value in rows]


def of_script(database: Database, args: argparse.Namespace) -> tuple[list[str], list["Group"]]:
    """Names of keys and the models of the last result that has some."""
    from tuskml.report import group_of

    if not isinstance(database, DuckDB):
        raise DataError("--script runs in DuckDB: make a table with psql, and report its --models")
    last = None
    with bar():
        for result in run(database.connection, *script(args.script)):
            places = [k for k in range(len(result.names)) if has_models(result.rows, k)]
            last = (result, places[0]) if places else last
    if last is None:
        raise DataError(f"no result of {args.script} has a column of models, expected SELECT ...")
    result, place = last
    names = [name for k, name in enumerate(result.names) if k != place]
    groups = [
        group_of([value for k, value in enumerate(row) if k != place], row[place])
        for row in result.rows
    ]
    return names, groups


def has_models(rows: Sequence[Sequence[Any]], place: int) -> bool:
    """Returns whether a column's first value is a model."""
    values = (row[place] for row in rows)
    first = next((value for value in values if value is not None), None)
    return isinstance(first, dict) and set(FIELDS) - set(LATER) <= set(first)
