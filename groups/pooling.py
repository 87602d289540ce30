"""Groups that learn from each other, by the rows of all of them at once.

SQL passes all rows as one group, whose offsets are the numbers of the rows' own groups
(`tuskml.api.pooling` writes the query). Their models wait for the query to take them.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.groups.selection.search import search_of
from tuskml.kernels.passes import KINDS
from tuskml.kernels.segments import chunks, offsets_of
from tuskml.learners.classes import name_as_booleans
from tuskml.learners.learner import Arrays, Request
from tuskml.learners.models import Models, Names
from tuskml.learners.registry import learner_of, options_of, task_named

CLASSES = 2
NO_NUMBERS = (
    "the features are sparse, or a row with names, as of text or dates, and 'pooled' takes lists "
    "of numbers: expected columns or expressions of numbers or booleans"
)


def request_of(task: str, text: str) -> Request[Any, Any]:
    """The request of a call with `pooled`, without that option. Raises OptionError."""
    if search_of(task, text) is not None:
        raise OptionError("option 'pooled' is not available in a search, expected one of them")
    found = task_named(task)
    request = Request(found, options_of(found, text))
    learner_of(found).pooled.check(without_names(request))
    return request


def without_names(request: Request[Any, Any]) -> Request[Any, Any]:
    """The request without the names of features, which models get at the end."""
    options = request.options
    given = options.given - {"feature_names"}
    return replace(request, options=replace(options, feature_names=None, given=given))


def train_pooled(group: np.void, request: Request[Any, Any], booleans: bool) -> Models:
    """The models of the groups whose numbers are the offsets of these rows, by number.

    group: all rows (GROUP), whose features are lists; booleans: whether labels are. Raises
    DataError for rows that cannot be pooled, and OptionError.
    """
    if group["parts"] or group["kind"] >= KINDS.index("sparse float32"):
        raise DataError(NO_NUMBERS)
    rows, numbers = rows_of(group)
    asked, learner = without_names(request), learner_of(request.task)
    if learner.classifies(asked):
        classes = np.unique(rows.y)
        if len(classes) != CLASSES:
            raise DataError(f"the labels have {len(classes)} classes, expected two with pooled")
        low, high = classes.tolist()
        asked = replace(asked, options=replace(asked.options, classes=(low, high)))
    models = learner.pooled.train(rows, asked)
    models = models.renumber(numbers[models.group])
    names = request.options.feature_names
    if names is not None:
        if len(names) != rows.x.shape[1]:
            raise DataError(
                f"option 'feature_names' has {len(names)} names, and the rows have "
                f"{rows.x.shape[1]} features, expected a name for each"
            )
        models = replace(models, features=Names.same(names, len(models.group)))
    return name_as_booleans(models) if booleans else models


def rows_of(group: np.void) -> tuple[Arrays, NDArray[np.intp]]:
    """All rows, by groups that are counted from 0, and the number of each of these groups."""
    pieces = [(x, y) for _, x, y in chunks(group)]
    x = np.concatenate([one for one, _ in pieces]).astype(np.float64, copy=False)
    y = np.concatenate([one for _, one in pieces])
    offsets = np.concatenate(list(offsets_of(group)))
    numbers, places = np.unique(offsets.astype(np.intp), return_inverse=True)
    return Arrays(x, y, places.astype(np.intp), len(numbers)), numbers
