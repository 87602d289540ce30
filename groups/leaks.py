"""Labels among the features that they are to be predicted from."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.rows.choose import leaks
from tuskml.learners.models import Models, Strings
from tuskml.learners.statuses import LEAK, MEANINGS

LEAST_ROWS = 10
"""In fewer rows a feature is easily the label by chance."""
LESSER = frozenset(list(MEANINGS)[: list(MEANINGS).index(LEAK)])
"""Statuses that matter less."""


def with_leaks(models: Models, groups: NDArray[np.void]) -> Models:
    """The models of dense groups (kernels.GROUP), whose status says where a feature is the label;
    models carry their groups' places in `groups`."""
    found = np.flatnonzero(leaks(groups[models.group], LEAST_ROWS))
    if not len(found):
        return models
    pool, code = models.status.pool, models.status.code.copy()
    lesser = np.array([pool[one] in LESSER for one in code[found]])
    code[found[lesser]] = len(pool)
    return replace(models, status=Strings((*pool, LEAK), code))
