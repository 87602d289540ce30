"""When trainings end, as all learners have it: by time, or by rows that are held out."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.passes import OwnedRows, Pass, cancel_mark
from tuskml.kernels.rows.renumber import Renumbering, renumber_alike
from tuskml.kernels.structures import FOLDS
from tuskml.learners.held_out import HeldOut, count_held_out
from tuskml.learners.learner import Request
from tuskml.learners.options.table import Options
from tuskml.learners.tasks import Task
from tuskml.schedule import budget

TaskT = TypeVar("TaskT", bound=Task)
OptionsT = TypeVar("OptionsT", bound=Options)
PATIENCE = 5
"""Iterations without a gain, after which a training ends."""
Rows = AbstractContextManager[NDArray[np.void]]
"""Groups that are freed at the end, where they were copied."""


def shuffle_rows(rows: Pass, request: Request[Any, Any], memory: int) -> tuple[Rows, Rows]:
    """The rows to train on and those that `validation` holds out, ordered by a hash of their
    content; memory: address of the account that copies are charged to.

    A search chooses the rows that it holds out itself. Groups of which a column can hold out none,
    or leaves none, train on all rows.
    """
    options, how = request.options, request.held_out
    if options.validation and request.parted is not None:
        kept, held = (one[rows.groups["place"]] for one in request.parted)
        return nullcontext(kept), nullcontext(held)
    if not options.validation or how is None or how.column is None:
        counts = count_held_out(rows.groups["n_rows"], options.validation)
        if how is not None and how.column is not None:
            rows = replace(rows, groups=drop_marks(rows.groups))  # they are no hashes
        return rows.shuffle(memory, options.seed, counts)
    return by_column(rows, replace(how, share=options.validation), options.seed, memory)


@contextmanager
def apart(
    rows: Pass, request: Request[Any, Any], memory: int
) -> Iterator[tuple[Pass, Pass | None]]:
    """The passes over the parts of `shuffle_rows`, until the context ends.

    None: none is held out.
    """
    made, out = shuffle_rows(rows, request, memory)
    with made as kept, out as held:
        yield (
            replace(rows, groups=kept),
            replace(rows, groups=held) if request.options.validation else None,
        )


def deadline_of(options: Any, began: float) -> float | None:
    """The end of a training that began then, by the option `time`."""
    return None if options.time is None else began + options.time


def pass_until(groups: NDArray[np.void], loss: int, options: Any, began: float) -> Pass:
    """The pass over groups (GROUP), with the threads of the options and their deadline."""
    return Pass(
        groups,
        loss,
        threads=budget.threads(options.threads),
        cancel_mark=cancel_mark(),
        deadline=deadline_of(options, began),
    )


@contextmanager
def renumber_parts(
    request: Request[TaskT, OptionsT], seen: Renumbering, memory: int
) -> Iterator[Request[TaskT, OptionsT]]:
    """The request whose groups' parts have the ids of the groups' copies, until the context ends.

    memory: address of the account that copies are charged to.
    """
    if request.parted is None or not seen.ids:
        yield request
        return
    at = seen.groups["place"]
    ids = {int(at[place]): own for place, own in seen.ids.items()}
    kept, held = (renumber_alike(part, ids, memory, cancel_mark()) for part in request.parted)
    with kept as trained, held as judging:
        yield replace(request, parted=(trained, judging))


def by_column(rows: Pass, how: HeldOut, seed: int, memory: int) -> tuple[Rows, Rows]:
    """As `shuffle_rows`, with held-out rows chosen by a column."""
    cells = how.deal(rows.groups, seed, rows.threads, memory).cells
    cells = cells.reshape(len(rows.groups), how.stretches)
    (out,) = how.sets
    (kept,) = how.training_stretches(out)
    # In the held-out fold, the first stretch has all rows: none is near a later fold.
    made, held = (OwnedRows(np.ascontiguousarray(cells[:, one])) for one in (kept, out[0]))
    for one in set(range(how.stretches)) - {kept, out[0]}:
        with OwnedRows(np.ascontiguousarray(cells[:, one])):
            pass
    try:
        hold_none(rows, how, made.groups, held.groups, memory)
    except BaseException:
        with made, held:
            raise
    made.groups["n_skipped"] = rows.groups["n_skipped"]
    return made, held


def hold_none(
    rows: Pass, how: HeldOut, kept: NDArray[np.void], held: NDArray[np.void], memory: int
) -> None:
    """Gives groups that a gap leaves no row to train on (GROUP, in `kept`) all of their rows, and
    frees the held-out ones.
    """
    empty = np.flatnonzero(kept["n_rows"] == 0)
    if not len(empty):
        return
    with OwnedRows(held[empty]):
        held["head"][empty] = held["n_rows"][empty] = 0
    none = replace(how, column=None, in_time=False, gap=None)
    count = np.zeros(len(empty), np.int64)
    whole = none.deal(rows.groups[empty], 0, rows.threads, memory, held=count).cells
    kept[empty] = whole.reshape(len(empty), -1)[:, 0]


def drop_marks(groups: NDArray[np.void]) -> NDArray[np.void]:
    """Returns the groups without the numbers by which their rows are held out."""
    if not (groups["extras"] & FOLDS).any():
        return groups
    found = groups.copy()
    found["extras"] &= ~FOLDS
    return found
