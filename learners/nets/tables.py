"""Embedded categories, and the length of their levels' vectors.

A category of n levels has vectors of min(50, round(1.6 n^0.56)) numbers by default: fast.ai's rule
(Howard and Gugger, Information 11, 2020, section 4), with a limit. The option `embedding`
overrides it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tuskml.learners.learner import Request
from tuskml.learners.nets.options import NetOptions
from tuskml.learners.tasks import Task

Tables = tuple[tuple[int, int, int], ...]
"""For each embedded category the first feature, the levels and the length of its vectors."""
SPARSE_FROM = 1_000_000
"""Numbers of vectors from which on steps are sparse, unless an option says so: a dense step takes
milliseconds then, whatever the batch."""
LONGEST = 50
"""Numbers of a vector, unless an option says how many."""


def usual_length(levels: int) -> int:
    """The default length of vectors of a category with `levels` levels."""
    return int(min(LONGEST, round(1.6 * levels**0.56)))


def embeds(options: NetOptions) -> bool:
    """Returns whether categories are embedded."""
    return options.embedding != 0


def sparse_steps(options: NetOptions, tables: Tables) -> bool:
    """Returns whether a step changes the vectors of the levels of its batch alone."""
    if options.sparse_embeddings is not None:
        return options.sparse_embeddings
    return sum(levels * length for _, levels, length in tables) >= SPARSE_FROM


def tables_of(request: Request[Task, NetOptions], group: int) -> Tables:
    """The tables of a group; a category of one level does not vary, and needs none."""
    options = request.options
    if request.categories is None or not embeds(options):
        return ()
    return tuple(
        (first, levels, options.embedding or usual_length(levels))
        for first, levels in request.categories(group)
        if levels > 1
    )


def by_shape(
    groups: NDArray[np.void], request: Request[Task, NetOptions]
) -> Iterator[tuple[NDArray[np.intp], Tables]]:
    """Places of the groups of one width, kind and tables."""
    found: dict[tuple[int, Tables], list[int]] = {}
    named = request.categories is not None and embeds(request.options)
    _, shape = np.unique(np.stack([groups["dim"], groups["kind"]]), axis=1, return_inverse=True)
    if not named:
        for number in range(int(shape.max()) + 1):
            yield np.flatnonzero(shape == number), ()
        return
    for place, number in enumerate(shape.tolist()):
        tables = tables_of(request, place)
        found.setdefault((number, tables), []).append(place)
    for (_, tables), places in sorted(found.items()):
        yield np.array(places, np.intp), tables
