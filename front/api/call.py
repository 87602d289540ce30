"""The task and options of a call of `tuskml.train` or of the command line, without a database."""

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from tuskml.databases.database import Database
from tuskml.databases.sources import Source
from tuskml.errors import OptionError, one_of
from tuskml.groups.execution.choosing import place_given
from tuskml.groups.selection.search import Search, search_of
from tuskml.learners.classes import name_as_booleans
from tuskml.learners.learner import Request
from tuskml.learners.models import Models
from tuskml.learners.options.table import MAX_TEXT
from tuskml.learners.registry import (
    TASKS,
    how_to_classify,
    learner_of,
    options_of,
    task_named,
)
from tuskml.model.model import Model
from tuskml.text.expressions import quote_name


@dataclass(frozen=True)
class TaskCall:
    """A task by its SQL name, options as JSON text, and the parsed requests.

    requests: one, or those of all candidates of a search.
    """

    task: str
    options: str
    requests: tuple[Request[Any, Any], ...]
    search: Search | None = None

    @property
    def searches(self) -> bool:
        """Returns whether there are several candidates."""
        return self.search is not None

    @property
    def labels(self) -> bool:
        """Returns whether rows have labels."""
        return any(one.task.has_labels for one in self.requests)

    @property
    def classifies(self) -> bool:
        """Returns whether labels are classes."""
        return any(learner_of(one.task).classifies(one) for one in self.requests)

    @property
    def remedy(self) -> str:
        """The end of an error about labels that are text."""
        return "" if self.searches else how_to_classify(self.requests[0].task)


@dataclass(frozen=True)
class ExecutorChoice:
    """The arguments of `train` that say where groups are trained; explain: whether to estimate it
    for a task without the option explain."""

    executor: str | None = None
    placement: str | None = None
    finished: str | PathLike[str] | None = None
    worker_timeout: float | None = None
    explain: bool = False


def pop_explain(task: object, options: dict[str, Any]) -> bool:
    """Removes `explain` from the options of a task on workers that has none, and returns it: the
    placement is explained, whatever the task.
    """
    known = TASKS.get(task) if isinstance(task, str) else None
    if known is None or "explain" in learner_of(known).options.by_name:
        return False
    return isinstance(options.get("explain"), bool) and bool(options.pop("explain"))


def parse_task(task: object, text: str) -> TaskCall:
    """Parses a task and the JSON text of its options. Raises OptionError."""
    if not isinstance(task, str):
        raise OptionError(
            f"task is of type {type(task).__qualname__}, expected {one_of(TASKS)}: "
            "train(connection, task, source=..., label=..., features=...)"
        )
    search = search_of(task, text) if len(text) <= MAX_TEXT else None
    if search is not None:
        candidates = tuple(Request(one.task, one.options) for one in search.candidates)
        return TaskCall(task, text, candidates, search)
    found = task_named(task)
    return TaskCall(task, text, (Request(found, options_of(found, text)),))


def pop_pooled_and_place(options: dict[str, Any], executor: str | None) -> tuple[bool, str | None]:
    """Removes `pooled`, and `cluster` if it is a place, from the options of an aggregate, and
    returns them.
    """
    executor = place_given(executor, options)
    pooled = options.pop("pooled", False)
    if not isinstance(pooled, bool):
        raise OptionError(f"option 'pooled' is {pooled!r}, expected true or false")
    if pooled and executor is not None:
        raise OptionError(
            "option 'pooled' is not available with executor or cluster: its groups train together"
        )
    return pooled, executor


@dataclass(frozen=True)
class ColumnTexts:
    """The caller's texts, which a model remembers."""

    features: tuple[str, ...]
    label: str | None
    group_by: tuple[str, ...]

    def name_columns(self, model: Model) -> Model:
        """Returns the model with the names of its columns; names by option `feature_names`
        stay.
        """
        if model.preparation is not None:
            return replace(model, label=self.label)
        return model.trained_on(model.features or self.features, self.label)


@dataclass(frozen=True)
class Training:
    """A checked request: SQL expressions over the source's columns; keys have names and SQL.

    n_features: None where they are one array, 0 where they are a row with names; label_kind: of
    `kind_of`, such as `category` for text; extras: SQL of the weight, or of the weight and the
    offset; compared: the handle of the plans that it is compared with (`learners/receiving.py`).
    """

    call: TaskCall
    source: Source
    label: str
    features: str
    keys: tuple[tuple[str, str], ...]
    options: str
    n_features: int | None
    texts: ColumnTexts
    label_kind: str = "number"
    extras: tuple[str, ...] = ()
    compared: str | None = None

    @property
    def text_label(self) -> bool:
        """Returns whether labels are text."""
        return self.label_kind == "category"

    def classes_named(self, models: Models) -> Models:
        """Models that were trained on the labels as numbers, with the names of their classes."""
        return name_as_booleans(models) if self.label_kind == "boolean" else models

    def after(self, handle: str) -> "Training":
        """Returns the training with a comparison of plans, which it explains."""
        return replace(self, compared=handle)

    def query(
        self, database: Database, aggregate: str = "train_model", column: str = "model"
    ) -> str:
        """The query that trains: the keys' columns, and the model's, with this name.

        aggregate: another with the same arguments, such as explain_training.
        """
        first = self.call.task
        if self.compared is not None:
            aggregate, first = "_tusk_take_model", self.compared
        plain = self.options == "{}" and not self.extras
        given = "" if plain else ", ".join(["", database.text(self.options), *self.extras])
        model = (
            f"{database.function(aggregate)}({database.text(first)}, {self.label}, "
            f"{self.features}{given})"
        )
        keys = [f"{sql} AS {quote_name(name)}" for name, sql in self.keys]
        query = f"SELECT {', '.join([*keys, f'{model} AS {column}'])} FROM {self.source.sql}"
        if keys:
            query += " GROUP BY " + ", ".join(sql for _, sql in self.keys)
        return query
