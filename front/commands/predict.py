"""`tuskml predict`: a table of models scores rows, each row by the model of its group.

The query is that of `tuskml.predict`, of the models in a table's column.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence

from tuskml.api.argument_checks import refuse_replace
from tuskml.api.joining import JoinableModels, Keys, of_columns
from tuskml.api.model_tables import ModelTable, model_table
from tuskml.api.prediction import NAMES, Scoring, resolve_features
from tuskml.commands.terminal.rows_arguments import (
    add_database,
    add_features,
    add_into,
    add_source,
    keys,
)
from tuskml.commands.terminal.usage import Parser, add_json, describe
from tuskml.databases.database import Database, Row
from tuskml.databases.opening import open_database
from tuskml.databases.postgres import Postgres
from tuskml.databases.results import is_file, keep, result_name
from tuskml.databases.script import plain
from tuskml.databases.sources import Scope, find_source, scope_of, split_expressions
from tuskml.errors import DataError
from tuskml.learners.options.by_name import ByName
from tuskml.text.expressions import column_named, quote_name, split_alias
from tuskml.text.table import table

MOST_ROWS = 100
Join = Callable[[ModelTable, Scope, Keys, str], JoinableModels]
ROWS_A_TIME = 10_000
KINDS = {name: kind for kind, name in NAMES.items()}
EXAMPLES = """
each flight by its carrier's model, of a table that tuskml train --into made:
  tuskml predict flights.duckdb --models models --source flights --output probability
the same rows into a new table, the probability in a column late:
  tuskml predict flights.duckdb --models models --source flights \\
      --output probability --name late --into scored
models of a list, which do not know the names of its numbers:
  tuskml predict flights.duckdb --models models --source flights \\
      --features dep_delay,distance
into a Parquet file, replacing an existing one:
  tuskml predict flights.duckdb --models models --source flights \\
      --into scored.parquet --replace
a key that is an expression over the rows:
  tuskml predict postgresql:///shop --models monthly --source sales \\
      --features price,hour --group-by 'extract(month FROM day) AS month' --json
"""


def grammar(command: Parser) -> None:
    """Defines the grammar of `tuskml predict`."""
    describe(
        command,
        show_predictions,
        "Adds a column of predictions to the rows of a table, a query or Parquet files. Each row "
        "is scored by the model of its group; rows whose group has no model get NULL.",
        EXAMPLES,
    )
    add = command.add_argument
    add_database(command)
    models = "a table or query with a column of models, and columns with their groups' keys"
    add("--models", required=True, metavar="TABLE", help=models)
    add_source(command)
    add_features(command, needed=False)
    by = "the keys in the rows (default: the columns beside the models)"
    add("--group-by", default="", metavar="SQL", help=by)
    what = (
        "prediction (default), the number or the class; class, by its name; probability, of the "
        "higher of two classes; probabilities, of all classes by name; decision, the margin; or "
        "interval, the number with its standard error and intervals"
    )
    add("--output", choices=list(KINDS), default="prediction", metavar="WHAT", help=what)
    offset = "what is added to the margin, as in the training: 'ln(exposure)'"
    add("--offset", metavar="SQL", help=offset)
    add("--level", type=float, help="the level of intervals (default: 0.95)")
    add("--name", help="the name of the new column (default: what --output says)")
    add("--model-column", metavar="NAME", help="the column of models, if there are several")
    into = "keep the rows in a new table, or a .parquet or .csv file, instead of printing them"
    add_into(command, into)
    add_json(command, "print one JSON object per row, one per line")


def show_predictions(args: argparse.Namespace) -> None:
    """Predicts, and prints rows or keeps them."""
    refuse_replace(args.replace, args.into)
    with open_database(args.database, args.into is not None) as database:
        query, names = prediction_query(database, args)
        if args.into is not None:
            count = keep(database, args.into, query, args.replace)
            kept = {"rows": count, "file" if is_file(args.into) else "table": args.into}
            rows = f"{count:,} row{'s' if count != 1 else ''}"
            print(json.dumps(kept) if args.json else f"{rows} in {result_name(args.into)}")
        elif args.json:
            for row in stream_rows(database, query):
                line = dict(zip(names, map(plain, row), strict=True))
                print(json.dumps(line, ensure_ascii=False, allow_nan=False))
        else:
            print(first_rows(names, database.fetch(f"{query} LIMIT {MOST_ROWS + 1}")))


def first_rows(names: Sequence[str], rows: Sequence[Row]) -> str:
    """Formats the first rows for a person."""
    text = table(names, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        text += f"\n  (the first {MOST_ROWS} rows; --json prints all, --into keeps them)"
    return text


def stream_rows(database: Database, query: str) -> Iterator[Row]:
    """Rows as they come, some at a time."""
    if isinstance(database, Postgres):
        with database.connection.transaction():
            cursor = database.connection.cursor("tusk_predict")
            with cursor:
                cursor.itersize = ROWS_A_TIME
                cursor.execute(query.encode(database.connection.info.encoding))
                yield from cursor
        return
    rows = database.connection.execute(query)
    while some := rows.fetchmany(ROWS_A_TIME):
        yield from some


def prediction_query(database: Database, args: argparse.Namespace) -> tuple[str, list[str]]:
    """The join, and its columns' names."""
    scoring = scoring_of(database, args, args.source)
    columns, name = scoring.scope.columns, args.name or args.output
    if column_named(name, columns) is not None:
        raise DataError(
            f"{scoring.scope.source.name} has a column '{name}' already, "
            "expected --name to be that of a new column"
        )
    names = list(columns)
    kind = KINDS[args.output]
    query = scoring.rows(kind, name, names, scoring.offset(args.offset, kind), args.level)
    return query, [*names, name]


def scoring_of(
    database: Database, args: argparse.Namespace, rows: str, join: Join = of_columns
) -> Scoring:
    """The models of --models joined to the rows of a source."""
    models = model_table(database, args.models, args.model_column)
    scope = scope_of(database, find_source(database, rows))
    pairs = key_pairs(scope, models, keys(args.group_by))
    refuse_several(database, models, [column for column, _ in pairs])
    joined = join(models, scope, pairs, "--group-by")
    texts = resolve_features(args.features or None, joined, "--features")
    texts = split_expressions(texts, "features", scope.columns)
    features, _ = scope.features(texts, ByName(joined.by_name))
    return Scoring(database, scope, joined, features, tuple(pairs))


def key_pairs(
    scope: Scope, models: ModelTable, expressions: Sequence[str]
) -> list[tuple[str, str]]:
    """Columns of the models, and the SQL over the rows that each equals.

    Raises DataError if models or rows lack one.
    """
    beside = dict(models.others)
    pairs = []
    for text in expressions or list(beside):
        sql, name = split_alias(text)
        column = column_named(name or text, beside)
        if column is None:
            raise DataError(
                f"--group-by names key {name or text!r}, which {models.source.name} does not "
                f"have: beside its models it has {', '.join(beside) or 'no column'}"
            )
        if not expressions and column_named(column, scope.columns) is None:
            raise DataError(
                f"{models.source.name} has a column '{column}', which {scope.source.name} does "
                "not have: say by --group-by which columns are keys, such as "
                f"--group-by 'month(date) AS {column}'"
            )
        pairs.append((column, scope.sql(sql if name else text, "--group-by")))
    return pairs


def refuse_several(database: Database, models: ModelTable, names: Sequence[str]) -> None:
    """Raises an error if a row has more than one model."""
    by = ", ".join(map(quote_name, names))
    grouped = f"GROUP BY {by} HAVING count(*) > 1 LIMIT 1" if names else "HAVING count(*) > 1"
    if database.fetch(f"SELECT count(*) FROM {models.source.sql} {grouped}"):
        where = f"with the same {', '.join(names)}" if names else "and no column with a key"
        raise DataError(
            f"{models.source.name} has several models {where}, expected one per row: "
            "give a query as --models that picks one"
        )
