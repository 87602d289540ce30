"""Rows with weights and offsets, which not every training can take."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.learners.learner import Request
from tuskml.learners.registry import learner_of


def refuse_weights(groups: NDArray[np.void], request: Request[Any, Any]) -> None:
    """OptionError where rows have weights or offsets that their learner or a store cannot take."""
    if not groups["extras"].any():
        return
    if not learner_of(request.task).weighs:
        raise OptionError(
            f"weight and offset are not available with task '{request.task.name}', expected "
            "(task, label, features [, options])"
        )
    if request.options.store is not None:
        raise OptionError("option 'store' is not available with weight, expected one of them")
