"""Checks of the arguments of `tuskml.train` and similar functions, for any task."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuskml.databases.database import Database
from tuskml.databases.postgres import Postgres
from tuskml.databases.results import Into, is_file
from tuskml.databases.sources import Scope
from tuskml.errors import DataError, OptionError, nearest
from tuskml.groups.selection.candidates import SEARCHES
from tuskml.learners.registry import all_options
from tuskml.text.expressions import column_named, one, plain_form

KEYWORDS = (
    "source",
    "label",
    "features",
    "weight",
    "offset",
    "group_by",
    "into",
    "replace",
    "executor",
    "placement",
    "finished",
    "worker_timeout",
)
"""Arguments of `train` that are not options."""


def refuse_unknown(options: Mapping[str, Any]) -> None:
    """Raises an error for an unknown option whose name is close to that of an argument."""
    for name in options.keys() - all_options().keys() - set(SEARCHES):
        hint = nearest(name, KEYWORDS)
        if hint:
            raise OptionError(f"train has no argument and no option '{name}'{hint}")


def check_into(into: Into) -> Into:
    """Returns where models can be kept. Raises DataError for a CSV file, which has no models."""
    if is_file(into) and Path(into).suffix.lower() == ".csv":
        raise DataError(
            f"into is {str(into)!r}, but models are kept in a table or a Parquet file, as CSV has "
            "no model values"
        )
    return into


def refuse_same_names(database: Database, keys: Sequence[str]) -> None:
    """Refuses two columns of one name, since DuckDB would rename the second."""
    for place, name in enumerate(keys):
        if name.lower() == "model":
            raise DataError(
                f"group_by names a key {name!r}, as the column of the models is called: name it "
                f"otherwise, '{name} AS kind'"
            )
        if column_named(name, keys[:place], not isinstance(database, Postgres)) is not None:
            raise DataError(f"group_by names the key {name!r} twice, expected each key once")


def refuse_repeated(features: Sequence[str], argument: str = "features") -> None:
    """Features have different names, by which models tell coefficients apart; so have keys."""
    for place, name in enumerate(features):
        if name in features[:place]:
            raise DataError(f"{argument} names {name!r} twice, expected each once")


def refuse_replace(replace: bool, into: object) -> None:
    """replace belongs to into."""
    if replace and into is None:
        raise OptionError("replace is True without into, expected into, the table to replace")


def label_given(task: str, labels: bool, label: str | None, scope: Scope) -> str | None:
    """The label as one text; None where rows have none. Raises OptionError for the other way
    round.

    labels: whether the rows of the task have labels.
    """
    if not labels:
        if label is not None:
            raise OptionError(f"label is {label!r}, and task '{task}' has none: leave it out")
        return None
    if label is None:
        raise OptionError(
            f"label is not given, expected a column or an SQL expression for task '{task}'"
        )
    return one(label, "label", scope.columns)


def refuse_leaks(
    label: str | None, features: Sequence[str], scope: Scope, argument: str = "features"
) -> None:
    """Raises DataError for a label that is a feature too, whatever cast, name or factor it has
    there, or a key of the groups, each of which then has one label.
    """
    if label is None:
        return

    def form(text: str) -> str:
        column = column_named(text, scope.columns)
        name = plain_form(text, scope.columns) if column is None else column
        return column_named(name, scope.columns) or name

    own = form(label)
    for text in features:
        if form(text) == own:
            same = "" if text.strip() == label.strip() else f", as {text!r}"
            raise DataError(
                f"{argument} has the label {label!r} itself{same}: expected "
                + ("columns to predict it from" if argument == "features" else "other columns")
            )
