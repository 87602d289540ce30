"""Groups whose models do not fit into memory: they train into a store unasked, if one is known."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kvstore.access import ROOT_VARIABLE, FilesRefused, check_files, default_root
from tuskml.learners.learner import Learner, Request
from tuskml.learners.options.kinds import DEFAULT_CACHE, LEAST_CACHE

NAME = "auto"
"""The name of the store that such models become versions of."""
OF_ROOM = 0.5
"""The cache of weights, as a share of the memory that a training may take."""


def requests_into_store(
    groups: NDArray[np.void],
    learner: Learner,
    request: Request[Any, Any],
    memory: int,
    root: str | None,
    account: int | None,
) -> Mapping[int, Request[Any, Any]]:
    """Maps the index of each group that outgrows memory to a request that trains into a store.

    None if `store` is an option, or if no root of stores is configured. root: the database's;
    account: of the database whose rules for files hold.
    """
    if request.options.store is not None:
        return {}
    found = learner.stored.outgrown(groups, request, memory)
    if not found or not root_is_known(root, account):
        return {}
    return {place: into_a_store(request, one.room, one.why) for place, one in found.items()}


def root_is_known(root: str | None, account: int | None) -> bool:
    """Returns whether the root of stores is configured, and the database allows them.

    The user's data folder, which is the default root, does not count.
    """
    if root is None or (ROOT_VARIABLE not in os.environ and root == str(default_root())):
        return False
    try:
        check_files(root, account)
    except FilesRefused:
        return False
    return True


def into_a_store(request: Request[Any, Any], room: int, why: str) -> Request[Any, Any]:
    """The request with a store; room: bytes that a training in memory might take."""
    options = request.options
    cache = options.cache or max(LEAST_CACHE, min(DEFAULT_CACHE, int(OF_ROOM * room)))
    return replace(request, options=replace(options, store=NAME, cache=cache), unasked=why)
