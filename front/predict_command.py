"""`tuskml predict`: a table of models scores rows, each row by the model of its group.

It writes the join of rows and models that a person would write.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tuskml.databases import Database, DuckDB, Postgres, Row, opened
from tuskml.errors import DataError
from tuskml.expressions import column_named, quoted, renamed
from tuskml.model_tables import ModelTable, model_table
from tuskml.rows_arguments import add_database, add_source, keys
from tuskml.script import plain
from tuskml.sources import Scope, find_source, listed
from tuskml.table import table
from tuskml.training import new_table
from tuskml.usage import Commands, add_command, add_json

MOST_ROWS = 100
ROWS_A_TIME = 10_000
FUNCTIONS = {"prediction": "predict", "probability": "predict_proba", "decision": "decision"}
EXAMPLES = """
each flight by its carrier's model, of a table that tuskml train --into made:
  tuskml predict flights.duckdb --models models --source flights \\
      --features dep_delay,distance --output probability
the same rows into a new table, the probability in a column late:
  tuskml predict flights.duckdb --models models --source flights \\
      --features dep_delay,distance --output probability --name late --into scored
a key that is an expression over the rows:
  tuskml predict postgresql:///shop --models monthly --source sales \\
      --features price,hour --group-by 'extract(month FROM day) AS month' --json
"""


def add_predict(commands: "Commands[Any]") -> None:
    """The grammar of `tuskml predict`."""
    command = add_command(
        commands,
        "predict",
        show_predictions,
        "score rows by the models of a table",
        "Adds a column of predictions to the rows of a table, a query or Parquet files. Each row "
        "is scored by the model of its group; rows whose group has no model get NULL.",
        EXAMPLES,
    )
    add = command.add_argument
    add_database(command)
    models = "a table or query with a column of models, and columns with their groups' keys"
    add("--models", required=True, metavar="TABLE", help=models)
    add_source(command)
    by = "the keys in the rows (else the columns that stand beside the models)"
    add("--group-by", default="", metavar="SQL", help=by)
    what = "prediction (default), probability (logistic), or decision, the margin"
    add("--output", choices=list(FUNCTIONS), default="prediction", metavar="WHAT", help=what)
    add("--name", help="of the new column (default: what --output says)")
    add("--model-column", metavar="NAME", help="where there are several columns of models")
    add("--into", metavar="TABLE", help="keep the rows in a new table instead of printing them")
    add_json(command, "print one JSON object a row, a line each")


def show_predictions(given: argparse.Namespace) -> None:
    """Predicts, and prints rows or keeps them."""
    with opened(given.database) as database:
        query, names = prediction_query(database, given)
        if given.into is not None:
            count = database.create(new_table(given.into), query)
            kept = {"rows": count, "table": given.into}
            print(json.dumps(kept) if given.json else f"{count:,} rows in table {given.into}")
        elif given.json:
            for row in streamed(database, query):
                line = dict(zip(names, map(plain, row), strict=True))
                print(json.dumps(line, ensure_ascii=False, allow_nan=False))
        else:
            print(first_rows(names, database.fetch(f"{query} LIMIT {MOST_ROWS + 1}")))


def first_rows(names: Sequence[str], rows: Sequence[Row]) -> str:
    """For a person."""
    text = table(names, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        text += f"\n  (the first {MOST_ROWS} rows; --json prints all, --into keeps them)"
    return text


def streamed(database: Database, query: str) -> Iterator[Row]:
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


def prediction_query(database: Database, given: argparse.Namespace) -> tuple[str, list[str]]:
    """The join, and its columns' names."""
    models = model_table(database, given.models, given.model_column)
    source = find_source(database, given.source)
    columns = database.columns(f"SELECT * FROM {source.sql}")
    scope = Scope(database, source, dict(columns))
    name = given.name or given.output
    if column_named(name, scope.columns) is not None:
        raise DataError(
            f"{source.name} has a column '{name}' already, "
            "expected --name to be that of a new column"
        )
    pairs = key_pairs(scope, models, keys(given.group_by))
    refuse_several(database, models, [name for name, _, _ in pairs])
    features, _ = scope.features(listed(given.features, "features"))
    inner = [quoted(name) for name, _ in columns]
    inner += [f"{features} AS tusk_features"]
    inner += [f"{sql} AS tusk_key_{i}" for i, (_, sql, _) in enumerate(pairs)]
    function = database.function(FUNCTIONS[given.output])
    outer = [f"tusk_rows.{quoted(name)}" for name, _ in columns]
    outer += [f"{function}(tusk_predictor, tusk_features) AS {quoted(name)}"]
    query = (
        f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM {source.sql}) "
        f"AS tusk_rows LEFT JOIN ({predictors(database, models, pairs)}) AS tusk_models "
        f"ON {matching(database, pairs)}"
    )
    return query, [*(name for name, _ in columns), name]


KeyPair = tuple[str, str, bool]
"""A column of the models, the SQL over the rows that it equals, and whether types are the same."""


def key_pairs(scope: Scope, models: ModelTable, expressions: Sequence[str]) -> list[KeyPair]:
    """The keys. DataError where models or rows lack one."""
    beside = dict(models.others)
    pairs = []
    for text in expressions or list(beside):
        sql, name = renamed(text)
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
        found = scope.sql(sql if name else text, "--group-by")
        (kind,) = scope.types([found], "--group-by")
        pairs.append((column, found, kind == beside[column]))
    return pairs


def refuse_several(database: Database, models: ModelTable, names: Sequence[str]) -> None:
    """A row must have at most one model."""
    by = ", ".join(map(quoted, names))
    grouped = f"GROUP BY {by} HAVING count(*) > 1 LIMIT 1" if names else "HAVING count(*) > 1"
    if database.fetch(f"SELECT count(*) FROM {models.source.sql} {grouped}"):
        where = f"with the same {', '.join(names)}" if names else "and no column with a key"
        raise DataError(
            f"{models.source.name} has several models {where}, expected one a row: "
            "give a query as --models that picks one"
        )


def predictors(database: Database, models: ModelTable, pairs: Sequence[KeyPair]) -> str:
    """Keys, and what predictions need of each model."""
    columns = [f"{quoted(name)} AS tusk_of_{i}" for i, (name, _, _) in enumerate(pairs)]
    columns.append(f"{database.function('predictor')}({quoted(models.model)}) AS tusk_predictor")
    return f"SELECT {', '.join(columns)} FROM {models.source.sql}"


def matching(database: Database, pairs: Sequence[KeyPair]) -> str:
    """The condition of the join; a NULL key matches the group of NULLs, as in GROUP BY.

    PostgreSQL joins by hash where that is an equality, and its arrays take NULLs as equal.
    """
    conditions = []
    for i, (_, _, same) in enumerate(pairs):
        if isinstance(database, DuckDB):
            conditions.append(f"tusk_of_{i} IS NOT DISTINCT FROM tusk_key_{i}")
        elif same:
            conditions.append(f"ARRAY[tusk_of_{i}] = ARRAY[tusk_key_{i}]")
        else:
            conditions.append(f"tusk_of_{i} = tusk_key_{i}")
    return " AND ".join(conditions) or "true"
