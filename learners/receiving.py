"""Rows that a query sends to Python, and models that a query takes from Python.

Two aggregates of each database are the package's own. In the place of a task they have a handle,
which names an object of this process:

`_tusk_send_rows(handle, label, features)` sends the rows that it packed to a receiver, and returns
its answer. The rows live until the query ends, so a receiver copies what it wants to keep. Where
rows have no labels, the name of their task and a slash are before the handle.
`_tusk_take_model(handle, label, features)` returns models that are ready, for each group by the
label of its first row. Where the handle names a comparison of plans, it trains on all rows, with
the options that it has as `train_model` has them, and explains what was compared with that.

`_tusk_pool(task, label, features, options, 1, group)` trains models of groups that learn from each
other, by the numbers of rows' groups, and returns the handle by which the former returns them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, RowsError
from tuskml.learners.models import Models

Receiver = Callable[[NDArray[np.void], int], None]
"""Gets the groups (kernels.GROUP) and the address of the account for copies of their rows."""
Answering = Callable[[NDArray[np.void], int], str]
"""A receiver whose answer the query returns."""
MOST_RECEIVERS, MOST_MODELS, MOST_COMPARISONS = 1024, 16, 1024
"""Objects that wait for queries. The oldest goes when there are more: a query may fail before it
asks, and no database reports when a prepared statement is forgotten."""
RECEIVED = "received"
FORGOTTEN = "the statement was prepared too long ago: prepare it again"
Item = TypeVar("Item")


@dataclass
class _Receiving:
    """A receiver of rows. on_invalid: the answer for rows that no model can be trained on; None:
    the query fails, and `why` has the reason.
    """

    receive: Answering
    on_invalid: str | None = None
    why: str | None = None


@dataclass
class Ready:
    """Models of one task that queries take. left: models that have not been taken yet; of_rows:
    whether the query that takes a model has the rows of its group.
    """

    models: Models
    left: int
    of_rows: bool = False

    @property
    def task(self) -> str:
        """The name of the first one's task."""
        return str(self.models.task.pool[self.models.task.code[0]])


@dataclass(frozen=True)
class PlanComparison:
    """A task, and the plans (`Streamed.plans`) that the training on all rows is compared with."""

    task: str
    plans: dict[str, Any]


_receiving: dict[str, _Receiving] = {}
_standing: dict[str, _Receiving] = {}
_ready: dict[str, Ready] = {}
_compared: dict[str, PlanComparison] = {}


def new_handle() -> str:
    """A new handle that cannot be guessed."""
    return os.urandom(16).hex()


def _keep(items: dict[str, Item], handle: str, item: Item, most: int) -> str:
    """Adds an item, the newest, and drops the oldest ones."""
    items.pop(handle, None)
    while len(items) >= most:
        del items[next(iter(items))]
    items[handle] = item
    return handle


@contextmanager
def receiving(receiver: Receiver) -> Iterator[str]:
    """The handle of a receiver, while the context lasts. Raises RowsError for invalid rows."""

    def receive(groups: NDArray[np.void], memory: int) -> str:
        receiver(groups, memory)
        return RECEIVED

    handle, one = new_handle(), _Receiving(receive)
    _receiving[handle] = one
    try:
        yield handle
    except Exception:
        if one.why is not None:  # it came back as a database's error, without its type
            raise RowsError(one.why) from None
        raise
    finally:
        del _receiving[handle]


def standing(receive: Answering, on_invalid: str) -> str:
    """The handle of a receiver that a statement may call whenever it runs."""
    return _keep(_standing, new_handle(), _Receiving(receive, on_invalid), MOST_RECEIVERS)


def send(handle: str, groups: NDArray[np.void], memory: int, flaw: str | None) -> str:
    """The receiver's answer. flaw: why no model can be trained on the rows; None if one can."""
    one = _receiving.get(handle) or _standing.get(handle)
    if one is None:
        raise DataError(FORGOTTEN)
    if flaw is None:
        return one.receive(groups, memory)
    if one.on_invalid is not None:
        return one.on_invalid
    one.why = flaw
    raise RowsError(flaw)


def ready(models: Models, handle: str | None = None, of_rows: bool = False) -> str:
    """The handle of models, each of which a query takes once for each call with this handle."""
    handle = handle or new_handle()
    before = _ready.get(handle)
    left = len(models.group) + (before.left if before else 0)
    return _keep(_ready, handle, Ready(models, left, of_rows), MOST_MODELS)


def handle_of(task: str, plans: dict[str, Any]) -> str:
    """The handle of the training on all rows after a comparison of plans."""
    return _keep(_compared, new_handle(), PlanComparison(task, plans), MOST_COMPARISONS)


def object_of(handle: str) -> Ready | PlanComparison:
    """The object that `_tusk_take_model` returns or trains. Raises DataError if it was dropped."""
    found = _ready.get(handle) or _compared.get(handle)
    if found is None:
        raise DataError(FORGOTTEN)
    return found


def take_models(handle: str, numbers: NDArray[np.intp]) -> Models:
    """The models of the groups of these numbers among those that are ready."""
    found = _ready[handle]
    found.left -= len(numbers)
    if found.left <= 0:
        _ready.pop(handle, None)
    places = np.searchsorted(found.models.group, numbers) if found.of_rows else numbers
    return found.models.of(places).renumber(np.arange(len(numbers)))
