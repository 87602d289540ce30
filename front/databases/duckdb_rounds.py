"""DuckDB's `train(...)`: the text of a statement that reads some row groups, in rounds.

A macro's statement is written once, before anything has been read. So it has the reads of all
rounds (`learners/linear/streamed/rounds.py`), and of all rows at the end. Each read is joined with
the numbers of its rows, or if the round before left nothing to read with a number that no row has:
DuckDB skips the row groups that have none of them, before it reads any. Everything runs in the
caller's transaction. Sizes come from another connection, which may see another table: the first
round runs only if the caller sees a table of that size.
"""

import ctypes
import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

import duckdb

from tuskml.databases.duckdb import DuckDB
from tuskml.databases.duckdb_row_groups import DuckRowGroups, row_groups_of, width
from tuskml.databases.limits import cursor_of
from tuskml.learners.learner import DONE, MORE, Request, Rounds
from tuskml.learners.models import Names
from tuskml.learners.receiving import FINISHED, finished, standing
from tuskml.learners.registry import learner_of, options_of, task_named

FILES = re.compile(r"\s*'((?:[^']|'')+\.parquet)'\s*", re.IGNORECASE)
TABLE = re.compile(r'\s*(?:(?:\w+|"(?:[^"]|"")+")\.){0,2}(?:\w+|"(?:[^"]|"")+")\s*')
LABELS = re.compile(r"BOOLEAN|U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*")


def statement(cursor: duckdb.DuckDBPyConnection, given: tuple[str, ...]) -> str | None:
    """The text for source, task, label, features and options; None where all rows are to be read.

    label and features are SQL expressions. Raises nothing that the other statement would not.
    """
    source, task_name, label, features, options = given
    files = FILES.fullmatch(source)
    if not files and not TABLE.fullmatch(source):
        return None
    task = task_named(task_name)
    request = Request(task, options_of(task, options))
    learner = learner_of(task)
    if not learner.streams(request):
        return None
    database = Unloaded(cursor)
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
    rounds = learner.rounds(groups.sizes, request, n_features)
    if rounds is None:
        return None
    return Text(database, groups, rounds, (source, label, features), names).whole(
        task_name, options
    )


class Unloaded(DuckDB):
    """A connection that only reads; tuskml is loaded in its database."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection


class Text:
    """The statement's parts; source: what all rows are read from, and label and features."""

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
        self.token = standing(self._take)
        self.model = FINISHED + self.token

    def _take(self, number: int, groups: Any, memory: int) -> str:
        said = self.rounds.take(number, groups, memory)
        models = self.rounds.models
        if said == DONE and models is not None:
            if self.names is not None:
                models = replace(models, features=Names.same(self.names, 1))
            finished(models, self.model)
        return said

    def whole(self, task: str, options: str) -> str:
        """All of it, with one column, tuskml_trained."""
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
            f"train_model({text(self.model)}, 0.0::DOUBLE, [0.0::DOUBLE]) AS m FROM tusk_done)"
        )
        parts.append("tusk_rest AS MATERIALIZED (SELECT NOT EXISTS (FROM tusk_done) AS tusk_open)")
        parts.append(
            "tusk_all AS MATERIALIZED (SELECT "
            f"train_model({text(task)}, {self.label}, {self.features}, {text(options)}) AS m "
            f"FROM {self.all_rows()})"
        )
        return (
            f"WITH {', '.join(parts)} SELECT coalesce(tusk_some.m, tusk_all.m) AS tuskml_trained "
            "FROM tusk_some, tusk_all"
        )

    def all_rows(self) -> str:
        """All of them, if no round was the last; of files, DuckDB skips by the names of these."""
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
        task = self.database.text(f"{self.token}/{number}")
        return (
            f"tusk_round{number} AS MATERIALIZED (SELECT "
            f"explain_training({task}, {self.label}, {self.features}) AS said "
            f"FROM ({pieces}) AS tusk_rows), "
            f"tusk_gate{number + 1} AS MATERIALIZED "
            f"(SELECT coalesce(said = '{MORE}', false) AS tusk_open FROM tusk_round{number})"
        )


TEXT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_char_p] * 5)
_library: list[ctypes.CDLL] = []


def _write(where: int, account: int, *given: bytes) -> None:
    """Called while DuckDB plans `train(...)`. Where something is wrong with what was given, there
    is no text, and the statement on all rows says what it is."""
    with suppress(BaseException):
        with cursor_of(account) as cursor:
            if cursor is None:
                return
            text = statement(cursor, tuple(part.decode() for part in given))
        if text is not None:
            _library[0].tusk_rounds_text(ctypes.c_void_p(where), text.encode())


_callback = TEXT(_write)


def share_rounds(library: ctypes.CDLL) -> None:
    """Lets the extension ask."""
    _library[:] = [library]
    library.tusk_set_rounds(_callback)
