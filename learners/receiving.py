"""Rows that a query packs for Python, and models that Python hands to a query.

`explain_training(token, label, features)` hands the rows that it packed to whoever waits for the
token. They live until the query ends, so a receiver copies what it wants to keep.
`train_model(token, 0.0, [0.0])` returns the model that was finished under the token, once.
`train_model(token, number, [0.0])` returns one of several, for each group by the label of its row.
`train_model(token/task, ...)` trains on all rows, and explains what was compared with that.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, RowsError
from tuskml.learners.models import Models

Receiver = Callable[[NDArray[np.void], int], None]
"""Gets the groups (kernels.GROUP) and the address of the account for copies of their rows."""
Rounds = Callable[[int, NDArray[np.void], int], str]
"""The same of the rows of a round, the first being 0; returns what the query shall know."""

PREFIX = "rows for "
RECEIVED = "received"
_receivers: dict[str, Receiver] = {}
_invalid: dict[str, str] = {}
"""Why no model can be trained on the rows of a query, by its token."""
MOST_STANDING = 64
_standing: dict[str, Rounds] = {}


@contextmanager
def receiving(receiver: Receiver) -> Iterator[str]:
    """The token to give as the aggregate's task, while the context lasts. RowsError for rows that
    the packers refuse."""
    token = PREFIX + secrets.token_hex(16)
    _receivers[token] = receiver
    try:
        yield token
    except Exception:
        if token in _invalid:  # it came back as a database's error, without its type
            raise RowsError(_invalid[token]) from None
        raise
    finally:
        del _receivers[token]
        _invalid.pop(token, None)


def standing(rounds: Rounds) -> str:
    """The token under which the rows of several rounds come, each with its number after a slash.

    It stands until MOST_STANDING others have come: nobody tells when a statement, which may be
    prepared, is forgotten.
    """
    while len(_standing) >= MOST_STANDING:
        del _standing[next(iter(_standing))]
    token = PREFIX + secrets.token_hex(16)
    _standing[token] = rounds
    return token


def receiver_of(task: str) -> Callable[[NDArray[np.void], int], str] | None:
    """Who waits for the rows of a query with this task, and returns what it shall know."""
    if not task.startswith(PREFIX):
        return None
    token, _, number = task.partition("/")
    if number and token in _standing:
        rounds = _standing[token]
        return lambda groups, memory: rounds(int(number), groups, memory)
    one = _receivers.get(task)
    if one is None:
        raise DataError("the statement was prepared too long ago: prepare it again")

    def receive(groups: NDArray[np.void], memory: int) -> str:
        one(groups, memory)
        return RECEIVED

    return receive


def invalid(task: str, why: str) -> str:
    """What a query with this task shall know whose rows no model can be trained on: of a round
    that all rows are to be read; RowsError otherwise."""
    if task.partition("/")[0] in _standing:
        return "all"  # `learner.ALL`
    _invalid[task] = why
    raise RowsError(why)


FINISHED = "model of "
MOST_FINISHED = 16
"""Models that wait for their query; the oldest goes where a query failed before it asked."""
_finished: dict[str, Models] = {}


def finished(models: Models, token: str | None = None) -> str:
    """The token under which a query gets these models, once; the one given, if there is one."""
    while len(_finished) >= MOST_FINISHED:
        del _finished[next(iter(_finished))]
    token = token or FINISHED + secrets.token_hex(16)
    _finished[token] = models
    return token


def finished_of(task: str) -> Models | None:
    """The models that were finished under this token."""
    return _finished.pop(task, None) if task.startswith(FINISHED) else None


NUMBERED = "models by number of "
_numbered: dict[str, "Numbered"] = {}


@dataclass
class Numbered:
    """Models that a query asks for by their numbers, the label of one row per group.

    left: how many it has not had yet.
    """

    models: Models
    left: int


def numbered(token: str, models: Models) -> None:
    """The models that a query gets under this token, once for each time that this is called."""
    before = _numbered.pop(token, None)
    while len(_numbered) >= MOST_FINISHED:
        del _numbered[next(iter(_numbered))]
    n = len(models.group)
    _numbered[token] = Numbered(models, n + (before.left if before else 0))


def numbered_of(task: str) -> Callable[[NDArray[np.intp]], Models] | None:
    """What has the models of these numbers, for such a token. DataError if they are not there."""
    if not task.startswith(NUMBERED):
        return None
    found = _numbered.get(task)
    if found is None:
        raise DataError("the statement's models are gone: run it again")

    def take(numbers: NDArray[np.intp]) -> Models:
        found.left -= len(numbers)
        if found.left <= 0:
            _numbered.pop(task, None)
        return found.models.of(numbers).numbered(np.arange(len(numbers)))

    return take


COMPARED = "plans for "
_compared: dict[str, dict[str, Any]] = {}


def compared(task: str, source: dict[str, Any]) -> str:
    """What stands for the task in a training on all rows of a source, after a comparison of plans.

    source: that comparison (`Streamed.plans`). It is kept until MOST_STANDING others have
    come: nobody tells when a statement, which may be prepared, is forgotten.
    """
    while len(_compared) >= MOST_STANDING:
        del _compared[next(iter(_compared))]
    token = COMPARED + secrets.token_hex(16)
    _compared[token] = source
    return f"{token}/{task}"


def is_token(task: str) -> bool:
    """Whether a text stands for rows or models that are known already, in the place of a task."""
    return task.startswith((PREFIX, FINISHED, NUMBERED))


def compared_of(task: str) -> tuple[str, dict[str, Any] | None]:
    """The task, and what plans were compared; None where there were none or they are forgotten."""
    if not task.startswith(COMPARED):
        return task, None
    token, _, name = task.partition("/")
    return name, _compared.get(token)
