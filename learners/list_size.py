"""Memory of models as lists, and of models that are as long as their largest id."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import FLOOR, memory_use
from tuskml.kernels.rows.renumber import Renumbering
from tuskml.learners.models import Models

STORED = ", or option 'store', which keeps those that occur"
MOST = 1 << 25
"""Numbers of a model, which SQL keeps twice in one value."""
MOST_TOGETHER = 1 << 24
"""Numbers of the groups that train in one call, histories too, unless one of them has more."""
COPIES = 3
"""Copies of a list of coefficients, ours and the database's, which doubles its memory as it grows.
"""


def bytes_of_lists(numbers: int) -> int:
    """Bytes of lists of `numbers` doubles, with their copies."""
    return COPIES * 8 * numbers


def refuse_too_long(
    numbers: int, occur: int, listed: int, memory: int, instead: str = STORED
) -> None:
    """Raises MemoryError if models as lists exceed the account.

    numbers: of one model, `occur` of whose features occur; listed: of all models of a call so far;
    instead: the alternative to smaller ids.
    """
    size, limit = bytes_of_lists(listed), max(memory_use(memory).budget, FLOOR)
    if size > limit:
        others = "" if listed == numbers else f" (and models before it {listed - numbers})"
        raise MemoryError(
            f"the model has {numbers} coefficients{others}, of which {occur} occur: as a list, "
            f"and its copies, they take {size / 1e6:.0f} MB, and memory_limit is "
            f"{limit / 1e6:.0f} MB; expected smaller ids{instead}"
        )


def together(groups: NDArray[np.void], numbers: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """Places of the groups that train in one call: of one kind, in parts that fit into memory
    side by side. numbers: of the model and the history of each, (G,).
    """
    for kind in np.unique(groups["kind"]):
        places = np.flatnonzero(groups["kind"] == kind)
        call = np.cumsum(numbers[places]) // MOST_TOGETHER
        yield from np.split(places, np.flatnonzero(np.diff(call)) + 1)


def restore_lists(
    models: Models,
    seen: Renumbering,
    groups: NDArray[np.void],
    memory: int,
    longer: Callable[[Models, Renumbering, int, int], Models],
) -> Iterator[Models]:
    """The models, each whose group was renumbered as long as its largest id, by itself.

    groups: as they were; longer: makes one such model, from the number of features of its group
    and the account that is charged.
    """
    number = models.group.tolist()
    plain = [place for place, group in enumerate(number) if group not in seen.ids]
    if plain:
        yield models if len(plain) == len(number) else models.of(np.array(plain))
    for place, group in enumerate(number):
        if group in seen.ids:
            yield longer(models.of(np.array([place])), seen, int(groups["dim"][group]), memory)
