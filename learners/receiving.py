"""Rows that a query packs for Python: the packers as they are, and no training at the end.

`explain_training(token, label, features)` hands the rows that it packed to whoever waits for the
token. They live until the query ends, so a receiver copies what it wants to keep.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

Receiver = Callable[[NDArray[np.void], int], None]
"""Gets the groups (kernels.GROUP) and the address of the account for copies of their rows."""

PREFIX = "rows for "
_receivers: dict[str, Receiver] = {}


@contextmanager
def receiving(receiver: Receiver) -> Iterator[str]:
    """The token to give as the aggregate's task, while the context lasts."""
    token = PREFIX + secrets.token_hex(16)
    _receivers[token] = receiver
    try:
        yield token
    finally:
        del _receivers[token]


def receiver_of(task: str) -> Receiver | None:
    """Who waits for the rows of a query with this task."""
    return _receivers.get(task) if task.startswith(PREFIX) else None
