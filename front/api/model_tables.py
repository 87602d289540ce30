"""Tables and queries of models: which column is the model, and which are its group's keys."""

from collections.abc import Sequence
from dataclasses import dataclass

from tuskml.databases.database import Columns, Database
from tuskml.databases.sources import Source, find_source
from tuskml.errors import DataError
from tuskml.text.expressions import column_named

GROUP_KEY = "group_key"
"""Names the group in the registry and in dbt's tables, whose other columns are no keys."""


@dataclass(frozen=True)
class ModelTable:
    """A table of models: the SQL that follows FROM, the name of the column of models, names
    and types of the others.
    """

    source: Source
    model: str
    others: Columns


def model_table(database: Database, given: str, column: str | None = None) -> ModelTable:
    """The table or query that holds models; column: its column of models, if there are several.

    Raises DataError if it holds none.
    """
    source = find_source(database, given)
    columns = database.columns(f"SELECT * FROM {source.sql}")
    found = [name for name, kind in columns if is_model(kind)]
    if column is not None:
        found = [name for name in found if name.lower() == column.lower()]
    elif "model" in found:
        found = ["model"]
    if len(found) != 1:
        named = f" column of models named {column!r}" if column else " single column of models"
        shown = ", ".join(name for name, _ in columns[:12])
        raise DataError(
            f"{source.name} has no{named}: its columns are {shown}; "
            "tuskml train --into TABLE makes such a table"
        )
    return ModelTable(source, found[0], [(n, kind) for n, kind in columns if n != found[0]])


def is_model(type_name: str) -> bool:
    """Returns whether a type is that of `train_model`'s values."""
    whole = type_name.startswith("STRUCT(task VARCHAR, ") and "payload BLOB" in type_name
    return whole or type_name.endswith("tuskml_model")


def choose_keys(found: ModelTable, given: Sequence[str]) -> list[str]:
    """The columns that name a group, as the table spells them."""
    beside = [name for name, _ in found.others]
    names = []
    for text in given:
        column = column_named(text, beside)
        if column is None:
            raise DataError(
                f"--group-by names column {text!r}, which {found.source.name} does not have: "
                f"beside its models it has {', '.join(beside) or 'no column'}"
            )
        names.append(column)
    if not names and GROUP_KEY in beside:
        return [GROUP_KEY]
    return names or beside
