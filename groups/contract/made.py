"""Models that were made before a query asks for them, by the token in the place of its task."""

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import SQUARED, Floats, Pass
from tuskml.learners.models import Models
from tuskml.learners.receiving import finished_of, numbered_of


def made_for(task: str, groups: NDArray[np.void]) -> Models | None:
    """Of a query's groups, whose rows say which; None for a task that is to be trained."""
    made = finished_of(task)
    if made is not None:
        return made
    numbered = numbered_of(task)
    return None if numbered is None else numbered(first_labels(groups).astype(np.intp))


def first_labels(groups: NDArray[np.void]) -> Floats:
    """The least label of each group, (G,): the label of a group of one row."""
    least = Pass(groups, SQUARED, None, None, True, 1).labels()["low"]
    return np.ascontiguousarray(least)
