"""Trainings whose models lie in a store, a group at a time."""

import os
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels import passes
from tuskml.kernels.charged import look_at_limits
from tuskml.kvstore import StoreRoot, access, file_rules, hosting
from tuskml.kvstore.files.locks import interruptible
from tuskml.kvstore.roots.names import default_root
from tuskml.learners.learner import Request
from tuskml.learners.models import Models
from tuskml.learners.registry import learner_of


def train_stored(
    groups: NDArray[np.void],
    request: Request[Any, Any],
    memory: int,
    root: str | None,
    statement: int = 0,
    account: int | None = None,
) -> Iterator[Models]:
    """Trains each of the groups (`passes.GROUP`); models carry their groups' places in `groups`.

    Groups of one name become versions of it, each model value naming its own: a database hands
    groups over in batches as it likes, so that "one name, one group" could be refused now and then
    only. Each of these versions is a lineage of its own, which the training writes down. memory:
    address of the account that copies of rows are charged to; root: the directory of all stores,
    None for the default one (`StoreRoot`); statement: a number that its batches share, 0: unknown;
    account: of the database whose rules for files hold (`file_rules`).

    Waiting for a store's lock is ended as the training is.
    """
    access.serve(hosting.host)
    learner = learner_of(request.task)
    mark, training = passes.cancel_mark(), training_of(statement)
    look_at_limits(memory)
    with interruptible(lambda: passes.raise_if_cancelled(mark)):
        file_rules.check(root if root is not None else default_root(), account)
        stores = StoreRoot(root, training)
        for place in range(len(groups)):
            model = learner.train_stored(groups[place : place + 1], request, memory, stores)
            yield model.numbered(np.array([place]))


_process = secrets.token_hex(8)


def training_of(statement: int) -> str:
    """What the versions of a statement have in common, in this process and any other."""
    given = access.training()
    if given is not None:
        return given
    return f"{_process}.{os.getpid()}.{statement}" if statement else secrets.token_hex(8)
