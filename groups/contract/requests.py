"""What a batch asks for: options as text, and weights of rows."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import OptionError
from tuskml.kernels.passes import SQUARED, Floats, Pass
from tuskml.learners import registry
from tuskml.learners.learner import Request
from tuskml.learners.options.table import MAX_TEXT, Options
from tuskml.learners.registry import learner_of
from tuskml.learners.tasks import Task
from tuskml.schedule.budget import look_at_limits

READ_BYTES, KEPT_BYTES = 72, 32
"""Of a number: two objects and their places in a list and a tuple; an object and its place."""
PAIR_BYTES = 320
"""Of a name and its value: both, a tuple of them, and places in a list and a dict."""


@contextmanager
def options_of(task: Task, text: bytes, memory: int) -> Iterator[Options]:
    """The options, whose memory is in the account of the training (`working.counted`) meanwhile.

    memory: address of that account.
    MemoryError where there is no room for them; OptionError for what they must not be.
    """
    if len(text) <= MAX_TEXT:
        yield registry.options_of(task, text.decode())
        return
    look_at_limits(memory)
    held = reserved(bytes_to_read(text), text)
    options = registry.options_of(task, text.decode())
    kept = len(options.warm_start.coef) if options.warm_start is not None else 0
    del held
    held = reserved(len(text) + kept * KEPT_BYTES, text)
    yield options
    del held


def bytes_to_read(text: bytes) -> int:
    """At most so many are taken at a time while a text is read, its copies in C and Python too."""
    copies = 3 if text.isascii() else 9
    return copies * len(text) + text.count(b",") * READ_BYTES + text.count(b":") * PAIR_BYTES


def reserved(size: int, text: bytes) -> NDArray[Any]:
    """Counts so many bytes until it goes; nothing is written to them."""
    try:
        return np.empty(size, np.uint8)
    except MemoryError:
        raise MemoryError(
            f"no memory to read options of {len(text):,} characters, which take about "
            f"{size >> 20:,} MB: raise memory_limit, or start from a model in a store"
        ) from None


# Rows with weights and offsets, which not every training can take.


def refuse_weights(groups: NDArray[np.void], request: Request[Any, Any]) -> None:
    """OptionError where rows have weights or offsets that their learner or a store cannot take."""
    if not groups["extras"].any():
        return
    if not learner_of(request.task).facts.weighs:
        raise OptionError(
            f"weight and offset are not available with task '{request.task.name}', expected "
            "(task, label, features [, options])"
        )
    if request.options.store is not None:
        raise OptionError("option 'store' is not available with weight, expected one of them")


def first_labels(groups: NDArray[np.void]) -> Floats:
    """The least label of each group, (G,): the label of a group of one row."""
    least = Pass(groups, SQUARED, None, None, True, 1).labels()["low"]
    return np.ascontiguousarray(least)
