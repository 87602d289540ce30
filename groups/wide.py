"""Rows with feature ids beyond 31 bits (`tusk_group.wide`): stored models have weights of them.

A model that is a value has a coefficient for each id up to the largest, which would be more than
memory holds. A stored one has weights of the ids that occur. Its training sees numbers of these.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError
from tuskml.kernels import passes
from tuskml.kernels.rows.vocabulary import Ids, Vocabulary, number_ids
from tuskml.kernels.segments import rows_of_segments

Groups = NDArray[np.void]
NARROW = 2**31 - 1
MOST_FEATURES = 2**63 - 1
NO_IDS = np.zeros(0, np.int64)


class WideIds(DataError):
    """Feature ids beyond 31 bits where a model is a value."""

    sqlstate = "22003"


def refuse_wide(groups: Groups, what: str = "") -> None:
    """Raises WideIds if rows have such ids; what: the subject that cannot take them, "":
    models without a store.
    """
    if groups["wide"].any():
        raise WideIds(refusal(what))


def refusal(what: str) -> str:
    """A sentence about such ids."""
    where, stored = what, ""
    if not what:
        where = "a model that is not stored"
        stored = "option 'store', which keeps weights of the ids that occur, or "
    return (
        f"a group has a feature id above {NARROW - 1}, the largest of {where}: give {stored}"
        "smaller ids, as hash_features makes them"
    )


def without_wide(groups: Groups, invalid: str, what: str = "") -> tuple[Groups, dict[int, str]]:
    """The groups, where option `invalid` has `skip` without the rows with such ids, which their
    `n_skipped` counts; and why no model can be trained on some of them, by place. WideIds where
    option `invalid` has `error`.
    """
    if invalid == "error":
        refuse_wide(groups, what)
    places = np.flatnonzero(groups["wide"])
    if invalid == "skip" and len(places):
        groups = groups.copy()
        left = np.array([sum(rows_of_segments(groups[place])) for place in places.tolist()])
        groups["n_skipped"][places] += groups["n_rows"][places] - left
        groups["n_rows"][places], groups["wide"][places] = left, 0
        places = places[left == 0]
    return groups, dict.fromkeys(places.tolist(), refusal(what))


@contextmanager
def narrow(groups: Groups, memory: int) -> Iterator[tuple[Groups, dict[int, Ids]]]:
    """The groups, those with wide ids as copies, and for these by index the ids of the numbers.

    memory: address of the account that copies are charged to.
    """
    places = np.flatnonzero(groups["wide"]).tolist()
    copies: dict[int, Vocabulary] = {}
    found = groups.copy() if places else groups
    try:
        for place in places:
            group = groups[place : place + 1].copy()
            copies[place] = number_ids(group, NO_IDS, memory, passes.cancel_mark())
            found[place] = copies[place].groups[0]
        yield found, {place: copy.ids for place, copy in copies.items()}
    finally:
        for copy in copies.values():
            copy.__exit__()
