"""`tuskml.train` with `pooled`: models of groups that learn from each other.

It needs the rows of all groups at once, which an aggregate does not see: they are read into the
client's memory.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.api.call import Training
from tuskml.api.collecting import by_keys, sort_by_key
from tuskml.databases.database import Database
from tuskml.errors import DataError, OptionError
from tuskml.learners.learner import Arrays
from tuskml.learners.registry import learner_of
from tuskml.learners.remarks import LABEL, Place, Remarks, with_notes
from tuskml.model.group_models import BY_TEXT, Models, as_key
from tuskml.model.model import Model

CLASSES = 2


def train_pooled(database: Database, training: Training) -> Models:
    """The best of three models of each group. Raises DataError for rows that cannot be pooled."""
    if training.call.searches:
        raise OptionError("option 'pooled' is not available in a search, expected one of them")
    if not training.keys:
        raise OptionError("option 'pooled' is given without group_by, expected both")
    refuse_rows(training)
    keys, rows, skipped, remarks = rows_of(database, training)
    request = training.call.requests[0]
    if learner_of(request.task).classifies(request):
        classes = np.unique(rows.y)
        if len(classes) != CLASSES:
            raise DataError(f"the labels have {len(classes)} classes, expected two with pooled")
        low, high = classes.tolist()
        request = replace(request, options=replace(request.options, classes=(low, high)))
    found = learner_of(request.task).pooled.train(rows, request)
    found = training.classes_named(replace(found, n_skipped=skipped))
    found = with_notes(found, dict(enumerate(remarks)))
    models = {
        as_key(key): training.texts.name_columns(Model.of_batch(found, place))
        for place, key in enumerate(keys)
    }
    return by_keys(models, training)


def refuse_rows(training: Training) -> None:
    """Raises OptionError or DataError for rows that pooling does not know."""
    if training.extras:
        raise OptionError(
            "option 'pooled' is not available with weight or offset: train without them, or "
            "without 'pooled'"
        )
    if training.text_label:
        raise DataError(
            f"the label {training.label} is text, and 'pooled' takes numbers or booleans: "
            "expected an expression of one class, such as label = 'yes'"
        )
    if not training.n_features:
        raise DataError(
            "the features are an array, or have text among them, and 'pooled' takes columns or "
            "expressions of numbers or booleans: expected a list of such"
        )


def rows_of(
    database: Database, training: Training
) -> tuple[list[tuple[Any, ...]], Arrays, NDArray[np.int64], list[Remarks]]:
    """The keys of the groups, their rows, how many rows of each had a NULL, and where."""
    columns = [sql for _, sql in training.keys]
    columns += [database.as_double(training.label, ""), training.features]
    found = database.fetch(f"SELECT {', '.join(columns)} FROM {training.source.sql}")
    n = len(training.keys)
    each = alike([tuple(row[:n]) for row in found])
    distinct = f"SELECT DISTINCT {', '.join(columns[:n])} FROM {training.source.sql}"
    if database.fetch(f"SELECT count(*) FROM ({distinct}) AS groups") != [(len(set(each)),)]:
        raise DataError(f"group_by has different keys that are alike in Python: {BY_TEXT}")
    numbers = {key: place for place, (key, _) in enumerate(sort_by_key(dict.fromkeys(each)))}
    group = np.array([numbers[key] for key in each], np.intp)
    none: Sequence[Any] = [None] * (training.n_features or 0)
    values = [[row[n], *(none if row[n + 1] is None else row[n + 1])] for row in found]
    table = np.array(values, np.float64).reshape(len(found), -1)
    gaps = np.isnan(table)
    missing = gaps.any(axis=1)
    if np.isinf(table).any():
        raise DataError("a label or a feature is infinite, expected finite numbers")
    used = np.unique(group[~missing])
    if not len(used):
        raise DataError(f"{training.source.name} has no row whose label and features are not NULL")
    place = np.full(len(numbers), -1)
    place[used] = np.arange(len(used))
    kept = ~missing
    skipped = np.bincount(group[missing], minlength=len(numbers))[used]
    remarks = [Remarks() for _ in used]
    for column, gap in enumerate(gaps.T, LABEL):
        lost = np.bincount(group[gap], minlength=len(numbers))[used]
        for k in np.flatnonzero(lost).tolist():
            remarks[k].gaps[Place(column, None)] = int(lost[k])
    keys = list(numbers)
    y, x = np.ascontiguousarray(table[kept, 0]), np.ascontiguousarray(table[kept, 1:])
    rows = Arrays(x, y, place[group[kept]], len(used))
    return [keys[g] for g in used.tolist()], rows, skipped, remarks


def alike(keys: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The keys, whose NaN are one object: two would be two groups. Raises DataError for lists."""
    nan: dict[type, Any] = {}

    def value_of(value: Any) -> Any:
        is_nan = isinstance(value, float | Decimal) and math.isnan(value)
        return nan.setdefault(type(value), value) if is_nan else value

    return [as_key(tuple(map(value_of, key))) for key in keys]
