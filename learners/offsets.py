"""Rows with offsets, which only some tasks take."""

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.structures import OFFSETS


def refuse_offsets(groups: NDArray[np.void], task: str) -> None:
    """Raises OptionError if rows have offsets."""
    if (groups["extras"] & OFFSETS).any():
        raise OptionError(
            f"offset is not available with task '{task}', expected (task, label, features, "
            "options, weight)"
        )
