"""DuckDB's `train(...)`: the text of a statement that reads some row groups, in rounds.

A macro's statement is written once, before anything has been read. So it has the reads of all
rounds (`learners/linear/streamed/rounds.py`), and of all rows at the end. Each read is joined with
the numbers of its rows, or if the round before left nothing to read with a number that no row has:
DuckDB skips the row groups that have none of them, before it reads any. Everything runs in the
caller's transaction. Sizes come from another connection, which may see another table: the first
round runs only if the caller sees a table of that size.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import duckdb

from tuskml.databases.database import Row, kind_of
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.duckdb_row_groups import DuckRowGroups, row_groups_of, width
from tuskml.errors import DataError
from tuskml.learners.learner import ALL, DONE, MORE, Request, Rounds
from tuskml.learners.models import Names
from tuskml.learners.options.by_name import ByName, by_name
from tuskml.learners.receiving import handle_of, new_handle, ready, standing
from tuskml.learners.registry import learner_of, options_of, task_named
from tuskml.text.expressions import QUOTED, column_named, quote_name, split, unquote

FILES = re.compile(r"\s*'((?:[^']|'')+\.parquet)'\s*", re.IGNORECASE)
QUERY = re.compile(r"[\s(]*(SELECT|WITH|FROM|VALUES)\b", re.IGNORECASE)
TABLE = re.compile(r'\s*(?:(?:\w+|"(?:[^"]|"")+")\.){0,2}(?:\w+|"(?:[^"]|"")+")\s*')
LABELS = re.compile(r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")


def statement(cursor: duckdb.DuckDBPyConnection, given: Sequence[str]) -> str | None:
    """The text for source, task, label, features, options, weight, offset, the options with the
    names of features, and the keys of groups as a JSON list; None where all rows are to be read
    and their features are numbers.

    label, features, weight and offset are SQL expressions, the last two "" without one. Raises
    nothing that the other statement would not.
    """
    statement_by_name = features_by_name(ReadingConnection(cursor), given)
    if statement_by_name is not None or any(given[5:7]) or json.loads(given[8]):
        return statement_by_name
    return in_rounds(cursor, given)


def in_rounds(cursor: duckdb.DuckDBPyConnection, given: Sequence[str]) -> str | None:
    """The statement that reads some row groups; None where all rows are to be read."""
    source, task_name, label, features, *_, options, _ = given
    files = FILES.fullmatch(source)
    if not files and not TABLE.fullmatch(source):
        return None
    task = task_named(task_name)
    request = Request(task, options_of(task, options))
    learner = learner_of(task)
    if not learner.streamed.is_wanted(request) and not request.options.explain:
        return None
    database = ReadingConnection(cursor)
    relation = f"read_parquet({source})" if files else source
    paths = [files[1].replace("''", "'")] if files else []
    groups = row_groups_of(database, relation, paths, label, features)
    if groups is None:
        return None
    n_features = width(database, relation, features)
    kind = database.columns(f"SELECT {label} AS y FROM {relation}")[0][1]
    names = request.options.feature_names
    if (
        not n_features
        or not LABELS.fullmatch(kind)
        or len(names or [0] * n_features) != n_features
    ):
        return None
    texts = source, label, features
    return statement_of(database, groups, request, texts, (task_name, n_features, options))


def statement_of(
    database: DuckDB,
    groups: DuckRowGroups,
    request: Request[Any, Any],
    texts: tuple[str, str, str],
    call: tuple[str, int, str],
) -> str | None:
    """The statement for source, label and features; call: the task, their number, the options.

    None if all rows are to be read and nothing is to be explained.
    """
    learner, (task, n_features, options) = learner_of(request.task), call
    rounds, whole = None, Whole(task, options)
    if learner.streamed.is_wanted(request):
        rounds = learner.streamed.rounds(groups.storage, request, n_features)
    if request.options.explain:
        plans = learner.streamed.plans(groups.storage, request, n_features)
        if plans is not None:
            whole = replace(whole, handle=handle_of(task, plans))
    if rounds is not None:
        names = request.options.feature_names
        return Text(database, groups, rounds, texts, names).whole(whole)
    if not whole.handle:
        return None
    source, label, features = texts
    trained = whole.call(database, label, features)
    return f"SELECT {trained} AS _tusk_trained FROM {relation_of(source)}"


def features_by_name(database: DuckDB, given: Sequence[str]) -> str | None:
    """The statement that trains by name on a list of columns with text or dates among them, or on
    numbers and booleans as numbers; None for other features."""
    source, task, label, _, _, weight, offset, *_ = given
    found = columns_by_name(database, given)
    if found is None:
        return None
    features, options = found
    arguments = [database.text(task), label, features, database.text(options)]
    arguments += extras_of(weight, offset)
    trained = f"tuskml_train_model({', '.join(arguments)}) AS _tusk_trained"
    return group_query(trained, relation_of(source), given[8])


def extras_of(weight: str, offset: str) -> list[str]:
    """The arguments of `train_model` after the options; weight, offset: SQL, "" without one."""
    extras = [f"({weight or 1}\n)"] if weight or offset else []
    return [*extras, f"({offset}\n)"] if offset else extras


def columns_by_name(database: DuckDB, given: Sequence[str]) -> tuple[str, str] | None:
    """Features and options of a list of columns with text or dates among them, which becomes a
    row, or of numbers and booleans; None for other features."""
    source, _, _, features, options, _, _, with_names, *_ = given
    if not (features.startswith("[") and features.endswith("\n]")):
        return None
    texts = split(features[1:-1], "features")
    relation = relation_of(source)
    listed = ", ".join(f"({text}\n) AS tusk_{place}" for place, text in enumerate(texts))
    kinds = [kind_of(kind) for _, kind in database.columns(f"SELECT {listed} FROM {relation}")]
    requirements = by_name(options)
    one_row = len(kinds) == 1 and not {"boolean", "number", "category", "date"} & set(kinds)
    if {"category", "date"} & set(kinds) or (requirements.row and not one_row):
        names = [unquote(text) if QUOTED.fullmatch(text) else text for text in texts]
        items = {name: f"({text}\n)" for name, text in zip(names, texts, strict=True)}
        whole = len(items) == len(texts)
        row = (
            database.row(items | marks_in(database, relation, requirements, items))
            if whole
            else None
        )
    elif set(kinds) == {"boolean", "number"}:
        row, options = database.array([f"({text}\n)::DOUBLE" for text in texts]), with_names
    else:
        return None
    return row or features, options


def group_query(trained: str, relation: str, keys: str) -> str:
    """The query of the expression that trains; keys: a JSON list of columns or expressions."""
    listed = [f"{key}\n" for key in json.loads(keys)]
    by = " GROUP BY ALL" if listed else ""
    return f"SELECT {', '.join([*listed, trained])} FROM {relation}{by}"


def marks_in(
    database: DuckDB, relation: str, requirements: ByName, items: Collection[str]
) -> dict[str, str]:
    """The columns of a row's cluster and fold by their names, where the row lacks them."""
    there = set(map(str.lower, items))
    lacking = {name for name in requirements.marks.values() if name.lower() not in there}
    if not lacking:
        return {}
    columns = [name for name, _ in database.columns(f"SELECT * FROM {relation}")]
    found = {name: column_named(name, columns) for name in sorted(lacking)}
    return {name: quote_name(column) for name, column in found.items() if column is not None}


def relation_of(source: str) -> str:
    """The SQL after FROM, for a table, a query, or a quoted file."""
    return f"({'' if QUERY.match(source) else 'FROM '}{source}\n)"


class ReadingConnection(DuckDB):
    """A connection that only reads; tuskml is loaded in its database."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection

    def fetch(self, query: str) -> list[Row]:
        """As in its base; raises DataError if a caller's text adds a second statement."""
        if len(self.connection.extract_statements(query)) != 1:
            raise DataError("the texts make more than one statement, expected expressions")
        return super().fetch(query)


@dataclass(frozen=True)
class Whole:
    """The training on all rows. handle: of the plans that it is compared with."""

    task: str
    options: str
    handle: str = ""

    def call(self, database: DuckDB, label: str, features: str) -> str:
        """The call of the aggregate."""
        name = database.function("_tusk_take_model" if self.handle else "train_model")
        first, options = (database.text(text) for text in (self.handle or self.task, self.options))
        return f"{name}({first}, {label}, {features}, {options})"


class Text:
    """The statement's parts; source: the relation of all rows, and label and features."""

    def __init__(
        self,
        database: DuckDB,
        groups: DuckRowGroups,
        rounds: Rounds,
        source: tuple[str, str, str],
        names: tuple[str, ...] | None,
    ) -> None:
        self.database, self.groups, self.rounds, self.names = database, groups, rounds, names
        self.rows = sum(groups.sizes)
        self.relation, self.label, self.features = source
        self.model = new_handle()

    def _take(self, number: int, groups: Any, memory: int) -> str:
        said = self.rounds.take(number, groups, memory)
        models = self.rounds.models
        if said == DONE and models is not None:
            if self.names is not None:
                models = replace(models, features=Names.same(self.names, 1))
            ready(models, self.model)
        return said

    def whole(self, whole: Whole) -> str:
        """The whole statement, with one column, _tusk_trained."""
        text = self.database.text
        parts = [self.first_gate()]
        for number in range(len(self.rounds.rounds)):
            parts.append(self.round(number))
        done = " UNION ALL ".join(
            f"SELECT 1 FROM tusk_round{number} WHERE said = '{DONE}'"
            for number in range(len(self.rounds.rounds))
        )
        parts.append(f"tusk_done AS MATERIALIZED ({done})")
        parts.append(
            "tusk_some AS MATERIALIZED (SELECT "
            f"_tusk_take_model({text(self.model)}, 0.0::DOUBLE, [0.0::DOUBLE]) AS m "
            "FROM tusk_done)"
        )
        parts.append("tusk_rest AS MATERIALIZED (SELECT NOT EXISTS (FROM tusk_done) AS tusk_open)")
        parts.append(
            "tusk_all AS MATERIALIZED (SELECT "
            f"{whole.call(self.database, self.label, self.features)} AS m FROM {self.all_rows()})"
        )
        return (
            f"WITH {', '.join(parts)} SELECT coalesce(tusk_some.m, tusk_all.m) AS _tusk_trained "
            "FROM tusk_some, tusk_all"
        )

    def all_rows(self) -> str:
        """All rows, if no round was the last; for files, DuckDB skips by their names."""
        places = self.groups.places
        if not places[0].file:
            return f"(FROM {self.relation}\n), (FROM tusk_rest WHERE tusk_open)"
        names = ", ".join(sorted({self.database.text(place.file) for place in places}))
        chosen = f"unnest(CASE WHEN tusk_open THEN [{names}] ELSE [''] END) AS tusk_name"
        return (
            "(SELECT tusk_source.* EXCLUDE (tusk_file) FROM "
            f"read_parquet({self.relation}, filename = 'tusk_file') AS tusk_source "
            f"JOIN (SELECT {chosen} FROM tusk_rest) AS tusk_names ON tusk_file = tusk_name)"
        )

    def first_gate(self) -> str:
        """A row if the caller's rows are those that were looked at."""
        places = self.groups.places
        if places[0].column == "rowid":
            seen = f"(SELECT max(rowid) FROM {self.relation}) = {self.rows - 1}"
        else:
            listed = ", ".join(sorted({self.database.text(place.file) for place in places}))
            seen = f"(SELECT sum(num_rows) FROM parquet_file_metadata([{listed}])) = {self.rows}"
        return f"tusk_gate0 AS MATERIALIZED (SELECT coalesce({seen}, false) AS tusk_open)"

    def round(self, number: int) -> str:
        """The read of a round, and the row that opens the next one."""
        gate = f"tusk_gate{number}"
        pieces = " UNION ALL ".join(
            self.groups.rows_of(piece, gate, "tusk_open") for piece in self.rounds.rounds[number]
        )
        handle = self.database.text(standing(partial(self._take, number), ALL))
        return (
            f"tusk_round{number} AS MATERIALIZED (SELECT "
            f"_tusk_send_rows({handle}, {self.label}, {self.features}) AS said "
            f"FROM ({pieces}) AS tusk_rows), "
            f"tusk_gate{number + 1} AS MATERIALIZED "
            f"(SELECT coalesce(said = '{MORE}', false) AS tusk_open FROM tusk_round{number})"
        )
