"""Models of groups that learn from each other (`pooled`): the query that trains them.

`_tusk_pool` sees the rows of all groups, and `_tusk_take_model` returns the model of each
(`learners/receiving.py`).
"""

from tuskml.api.call import Training
from tuskml.databases.database import Database
from tuskml.errors import DataError, OptionError
from tuskml.groups.pooling import NO_NUMBERS, request_of
from tuskml.text.expressions import quote_name


def refuse_pooled(training: Training) -> None:
    """Raises OptionError or DataError for a training whose groups cannot be pooled."""
    if not training.keys:
        raise OptionError("option 'pooled' is given without group_by, expected both")
    request_of(training.call.task, training.options)
    if training.extras:
        raise OptionError(
            "option 'pooled' is not available with weight or offset: train without them, or "
            "without 'pooled'"
        )
    if training.text_label:
        raise DataError(
            f"the label {training.texts.label} is text, and 'pooled' takes numbers or booleans: "
            "expected an expression of one class, such as label = 'yes'"
        )
    if training.n_features == 0:
        raise DataError(NO_NUMBERS)


def pooled_query(training: Training, database: Database, column: str = "model") -> str:
    """The query that trains: the keys' columns, and the models' by this name. Raises OptionError
    and DataError.
    """
    refuse_pooled(training)
    text, function = database.text, database.function
    places = [f"tusk_key{place}" for place in range(len(training.keys))]
    keys = [f"{sql} AS {place}" for place, (_, sql) in zip(places, training.keys, strict=True)]
    given = ", ".join([*keys, f"{training.label} AS tusk_y", f"{training.features} AS tusk_x"])
    listed = ", ".join(places)
    first, options = text(training.call.task), text(training.options)
    named = [
        f"{place} AS {quote_name(name)}"
        for place, (name, _) in zip(places, training.keys, strict=True)
    ]
    return (
        f"WITH tusk_given AS (SELECT {given} FROM {training.source.sql}), "
        "tusk_rows AS MATERIALIZED (SELECT tusk_given.*, "
        f"dense_rank() OVER (ORDER BY {listed}) AS tusk_group FROM tusk_given), "
        f"tusk_pooled AS MATERIALIZED (SELECT coalesce({function('_tusk_pool')}({first}, tusk_y, "
        f"tusk_x, {options}, 1, tusk_group), '') AS tusk_handle FROM tusk_rows) "
        f"SELECT {', '.join(named)}, {function('_tusk_take_model')}(tusk_handle, "
        "CASE WHEN tusk_y IS NOT NULL THEN tusk_group END, tusk_x, '') "
        f"AS {quote_name(column)} FROM tusk_rows, tusk_pooled GROUP BY {listed}"
    )
