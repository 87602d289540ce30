"""Models whose training in memory exceeds the limit, so that `auto` does not train them there."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.library import FLOOR, memory_use
from tuskml.kernels.rows.renumber import n_trained
from tuskml.learners.learner import Outgrown
from tuskml.learners.linear.algorithms import LAST_CHOICE
from tuskml.learners.linear.own.operators import operators_of
from tuskml.learners.linear.request import Request
from tuskml.schedule.budget import look_at_limits

DOUBLE = 8


def groups_beyond_memory(
    groups: NDArray[np.void], request: Request, memory: int
) -> Mapping[int, Outgrown]:
    """Groups (`passes.GROUP`), by index, that the rule's choice for wide rows cannot train.

    It keeps a fixed number of vectors of the weights that a training in memory has. memory:
    address of the account; 0: there is no limit.
    """
    if not memory or not could_be_stored(request):
        return {}
    wide = np.flatnonzero((groups["kind"] >= 2) & (bytes_of(groups["dim"]) > FLOOR))
    if not len(wide):
        return {}
    look_at_limits(memory)
    room, found = room_of(memory), {}
    for place in wide[bytes_of(groups["dim"][wide]) > room].tolist():
        features = n_trained(groups[place : place + 1], memory, passes.cancel_mark())
        needed = int(bytes_of(np.array(features)))
        if needed > room:
            why = (
                f"to train {features:,} weights in memory takes {needed / 1e6:,.0f} MB of "
                f"{room / 1e6:,.0f} MB"
            )
            found[place] = Outgrown(room, why)
    return found


def could_be_stored(request: Request) -> bool:
    """Returns whether a training from a store supports all options of the request."""
    task, options = request.task, request.options
    return (
        (task.own is not None or not task.general)
        and options.algorithm == "auto"
        and not operators_of(options)
        and not options.explain
        and options.device != "gpu"
        and ("converge" not in options.given or options.converge == "loss")
    )


def bytes_of(features: NDArray[np.integer]) -> NDArray[np.float64]:
    """Returns the bytes of the weight vectors that a training in memory keeps."""
    return np.asarray(LAST_CHOICE.vectors * DOUBLE * (features + 1.0))


def room_of(memory: int) -> int:
    """Bytes that a training may still take, in addition to the rows."""
    use = memory_use(memory)
    return max(use.budget - use.resident, use.budget // 4, FLOOR)
