"""The training within a statement of `statement.py`: it trains, and returns its groups.

Workers return models as Arrow, which become `Models` as a trainer hands them to a statement.
"""

import json
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from tuskml.api.call import ExecutorChoice, Training
from tuskml.cluster.training import answers_of
from tuskml.databases.connection import ensure_macros
from tuskml.databases.duckdb import DuckDB
from tuskml.databases.duckdb_rounds import ReadingConnection
from tuskml.databases.limits import cursor_of
from tuskml.errors import DataError, Interrupted, TuskError
from tuskml.kernels import passes
from tuskml.kernels.passes import first_labels
from tuskml.learners.models import Lists, Models, Names, Strings
from tuskml.learners.receiving import new_handle, ready
from tuskml.learners.topics.training import topics_of_payload
from tuskml.learners.trees.forest import trees_of_payload
from tuskml.model.execution import Execution
from tuskml.udas.model_fields import MODEL_FIELDS

if TYPE_CHECKING:
    import pyarrow as pa


def models_of(values: "pa.StructArray") -> Models:
    """The models of model values, none of them NULL, in their order."""
    given: dict[str, Any] = {"group": np.arange(len(values))}
    for one in MODEL_FIELDS:
        if one.kind in COLUMNS:
            given[one.name] = COLUMNS[one.kind](values.field(one.name))
    given["coef"] = with_weights_of_payloads(given["coef"], values)
    return Models(**given)


def with_weights_of_payloads(coef: Lists, values: "pa.StructArray") -> Lists:
    """The coefficients, those of models that have them in their payload alone too."""
    lacking = np.flatnonzero(np.diff(coef.offsets) == 0)
    if not len(lacking):
        return coef
    parts = [coef.values[a:b] for a, b in zip(coef.offsets[:-1], coef.offsets[1:], strict=True)]
    payloads = values.field("payload")
    for place in lacking.tolist():
        payload = payloads[place].as_py()
        if payload:
            found = trees_of_payload(payload) or topics_of_payload(payload) or []
            parts[place] = np.array(found, np.float64)
    return Lists.of_parts(parts)


def text(column: "pa.Array") -> Strings:
    """Texts by dictionary."""
    return Strings(*pool_values(column.to_pylist(), str))


def texts(column: "pa.Array") -> Names:
    """Lists of texts by dictionary."""
    return Names(*pool_values(column.to_pylist(), tuple))


def pool_values(values: Sequence[Any], kind: Callable[[Any], Any]) -> tuple[tuple[Any, ...], Any]:
    """The distinct values, and the index of each, -1 for None."""
    places: dict[Any, int] = {}
    code = [-1 if one is None else places.setdefault(kind(one), len(places)) for one in values]
    return tuple(places), np.array(code, np.int32)


def number(column: "pa.Array") -> Any:
    """Doubles (n,), NaN for NULL."""
    return column.fill_null(math.nan).to_numpy(zero_copy_only=False)


def numbers(column: "pa.Array") -> Lists:
    """Lists of doubles; one that is NULL is empty, and a NULL in one is NaN."""
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Lists(number(column.flatten()), offsets)


def count(column: "pa.Array") -> Any:
    """Whole numbers (n,), 0 for NULL."""
    return column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def truth(column: "pa.Array") -> Any:
    """Booleans (n,) as bytes."""
    return column.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint8)


COLUMNS: dict[str, Callable[[Any], Any]] = {
    "TEXT": text,
    "TEXTS": texts,
    "NUMBER": number,
    "NUMBERS": numbers,
    "COUNT": count,
    "TRUTH": truth,
}
"""Functions that read a field, by its kind."""


LOOK_SECONDS = 0.05
FAILED = "!"
"""The first character of an answer that gives the reason why there are no models."""


@dataclass
class Running:
    """One statement, which may run more than once.

    account: of its database; seen: SQL of the hash of the rows that the statement sees, None for
    files; models: the handle of the models that it takes.
    """

    account: int
    where: ExecutorChoice
    training: Training
    seen: str | None
    models: str = field(default_factory=new_handle)

    def train(self, groups: NDArray[np.void], memory: int) -> str:
        """Trains all groups, or the one without a key. Returns as JSON of each its keys as text,
        its number, and the label that selects its model, null for a group without a usable row. If
        the training fails, returns FAILED and the reason.

        groups: of one row, whose label is the hash of the rows that the statement sees.
        """
        try:
            return self.train_anew(float(first_labels(groups)[0]))
        except Interrupted:
            raise
        except TuskError as error:
            return f"{FAILED}{error}"

    def train_anew(self, seen: float) -> str:
        """Trains; seen: the hash of the rows."""
        with cursor_of(self.account) as cursor:
            if cursor is None:
                raise TuskError("the database was closed")
            with ending_with_the_training(cursor):
                found = self.answers(cursor, seen)
        if found is None:
            return "[]" if self.training.keys else json.dumps([group_document((), 0, None)])
        found, estimated = found
        keys = [found.column(place).to_pylist() for place in range(found.num_columns - 1)]
        values = found.column("model").combine_chunks()
        usable = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        labels: list[float | None] = [None] * len(values)
        for place, at in enumerate(usable.tolist()):
            labels[at] = place
        if len(usable):
            models = models_of(values.take(usable))
            ready(models if estimated is None else telling(models, estimated), self.models)
        by_place = zip(*keys, strict=True) if keys else iter([()] * len(values))
        return json.dumps(
            [group_document(key, place, labels[place]) for place, key in enumerate(by_place)]
        )

    def answers(self, cursor: duckdb.DuckDBPyConnection, seen: float) -> Any:
        """The workers' answers, as `answers_of` returns them."""
        database = ReadingConnection(cursor)
        ensure_macros(cursor)
        with one_transaction(database):
            self.refuse_other_rows(database, seen)
            return answers_of(database, self.training, self.where)

    def refuse_other_rows(self, database: DuckDB, seen: float) -> None:
        """Raises DataError unless this connection sees the rows that the statement sees."""
        if self.seen is None:
            return
        ((here,),) = database.fetch(f"SELECT {self.seen} FROM {self.training.source.sql}")
        if float(here) != seen:
            raise DataError(
                f"the workers would train on other rows of {self.training.source.name} than this "
                "statement sees: commit them first, or give a source that has the same rows each "
                "time and does not depend on settings of the connection"
            )


def group_document(key: tuple[Any, ...], number: int, label: float | None) -> dict[str, Any]:
    """A group as a document for the statement."""
    return {"k": key, "n": number, "label": label}


def telling(models: Models, estimated: Execution) -> Models:
    """The models, whose plans that are texts, and not JSON, include the time on a cluster."""
    pool = tuple(
        plan if plan.startswith("{") else f"{plan}\n\n{estimated}" for plan in models.plan.pool
    )
    return replace(models, plan=Strings(pool, models.plan.code))


@contextmanager
def one_transaction(database: DuckDB) -> Iterator[None]:
    """Runs all reads within on the same rows. Rolls back all writes at the end."""
    database.fetch("BEGIN TRANSACTION")
    try:
        yield
    finally:
        database.connection.rollback()


@contextmanager
def ending_with_the_training(cursor: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Interrupts the cursor's statement when the training of this thread is cancelled."""
    mark, done = passes.cancel_mark(), threading.Event()

    def look() -> None:
        while not done.wait(LOOK_SECONDS):
            if passes.cancel_count() != mark:
                cursor.interrupt()
                return

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
