"""Trainings whose models lie in a store: groups side by side where threads allow, else in turn."""

import contextvars
import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import RowsError
from tuskml.groups.preparation import usable
from tuskml.groups.wide import MOST_FEATURES, NARROW, NO_IDS
from tuskml.kernels import passes
from tuskml.kernels.rows.vocabulary import Ids, number_ids
from tuskml.kvstore import StoreRoot, access
from tuskml.kvstore.access import default_root
from tuskml.kvstore.files import interruptible
from tuskml.learners.learner import Learner, Request
from tuskml.learners.models import Models
from tuskml.learners.options.kinds import DEFAULT_CACHE, LEAST_CACHE
from tuskml.learners.registry import learner_of
from tuskml.schedule import budget, shares
from tuskml.schedule.budget import look_at_limits


def train_stored(
    groups: NDArray[np.void],
    request: Request[Any, Any],
    memory: int,
    root: str | None,
    statement: int = 0,
    account: int | None = None,
) -> Iterator[Models]:
    """Trains each of the groups (`passes.GROUP`); models carry their groups' indices in `groups`.

    Groups of one name become versions of it, each model value naming its own: a database passes
    groups in any batches, so that "one name, one group" could be enforced only at times. Each of
    these versions is a lineage of its own, which the training writes down. memory: address of the
    account that copies of rows are charged to; root: the directory of all stores, None for the
    default one (`StoreRoot`); statement: a number that its batches share, 0: unknown; account: of
    the database whose rules for files hold (`access.follow_rule`).

    Cancelling the training also ends a wait for a store's lock.
    """
    mark, training = passes.cancel_mark(), training_of(statement)
    look_at_limits(memory)
    check = lambda: passes.raise_if_cancelled(mark)  # noqa: E731
    with interruptible(check):
        access.check_files(root if root is not None else default_root(), account)
        stores = StoreRoot(root, training)
        lanes = lanes_of(len(groups), request)

        def train(place: int, training: int | None) -> Models:
            with (
                passes.mark_begin(mark),
                interruptible(check),
                budget.within(lanes.threads),
                shares.within(training),
            ):
                return of_one(groups, place, lanes.request, memory, stores)

        if lanes.count == 1:
            for place in range(len(groups)):
                yield of_one(groups, place, request, memory, stores)
        else:
            yield from side_by_side(train, len(groups), lanes.count)


def of_one(
    groups: NDArray[np.void],
    place: int,
    request: Request[Any, Any],
    memory: int,
    stores: StoreRoot,
) -> Models:
    """The model of one group, by its index. A RowsError names this group."""
    learner, asked = learner_of(request.task), of_group(request, place)
    try:
        one = groups[place : place + 1]
        model = train_group(learner, one, asked, memory, stores)
    except RowsError as error:
        raise RowsError(str(error), {place: str(error)}) from error
    return model.renumber(np.array([place]))


def train_group(
    learner: Learner,
    group: NDArray[np.void],
    request: Request[Any, Any],
    memory: int,
    root: StoreRoot,
) -> Models:
    """`Stored.train` of one group, GROUP (1,), whatever its ids and the warm start's."""
    start = ids_to_start(request, root)
    if not group["wide"][0] and not len(start):
        return learner.stored.train(group, request, memory, root)
    held = learner.trials.holds_out(request.options)
    with (
        number_ids(group.copy(), start, memory, passes.cancel_mark(), held) as rows,
        usable(rows.groups, request, memory) as sound,
    ):
        from tuskml.kvstore.numbered import NumberedRoot  # wide ids are rare

        stored = NumberedRoot(root, rows.ids)
        model = learner.stored.train(sound, request, memory, stored)
        n_features = np.array([min(stored.dimension, MOST_FEATURES)], np.int64)
    return replace(model, n_features=n_features)


def ids_to_start(request: Request[Any, Any], root: StoreRoot) -> Ids:
    """The ids of the stored model that a training starts from, if some are wide."""
    warm = getattr(request.options, "warm_start", None)
    if warm is None or warm.store is None or root.version(warm.store).dimension <= NARROW:
        return NO_IDS
    with root.open(warm.store) as sealed:
        if len(sealed.metadata.get("classes") or ()) > 2:
            return NO_IDS  # which no training starts from
        return np.concatenate([NO_IDS, *(ids for ids, _ in sealed.items())])


def of_group(request: Request[Any, Any], place: int) -> Request[Any, Any]:
    """Restricts a request to one group, whose index becomes 0."""

    def here(known: Callable[[int], Any] | None) -> Callable[[int], Any] | None:
        return None if known is None else lambda _: known(place)

    lookups = ("categories", "feature_names", "terms", "preparation", "words")
    found: dict[str, Any] = {name: here(getattr(request, name)) for name in lookups}
    levels = request.by_level
    return replace(request, by_level=None if levels is None else (levels[place],), **found)


@dataclass(frozen=True)
class Lanes:
    """The number of groups that train at the same time, and the threads and request of each."""

    count: int
    threads: int
    request: Request[Any, Any]


def lanes_of(n_groups: int, request: Request[Any, Any]) -> Lanes:
    """As many lanes as threads, while each has its share of the cache.

    One if bits must be reproducible, and so must not depend on the number of processors; if a
    server is asked for the current role, which it answers on its own thread alone; and for losses
    that run in Python.
    """
    options, own = request.options, getattr(request.task, "own", None)
    alone = options.keeps_order or options.resume or own is not None or access.is_served()
    threads = budget.threads(options.threads)
    cache = options.cache or DEFAULT_CACHE
    count = 1 if alone else max(1, min(n_groups, threads, cache // LEAST_CACHE))
    if count == 1:
        return Lanes(1, threads, request)
    given = replace(options, cache=cache // count, threads=None)
    return Lanes(count, max(1, threads // count), replace(request, options=given))


def side_by_side(
    train: Callable[[int, int | None], Models], n: int, lanes: int
) -> Iterator[Models]:
    """Yields train(place, training) of each index below n, in order, with `lanes` of them running
    at the same time as parts of the calling thread's training.

    The first that fails ends those that have not started.
    """
    pool = ThreadPoolExecutor(lanes)
    with shares.split(lanes) as training:
        try:
            here = [contextvars.copy_context() for _ in range(n)]
            running = [
                pool.submit(one.run, train, place, training) for place, one in enumerate(here)
            ]
            for one in running:
                yield one.result()
        finally:
            pool.shutdown(cancel_futures=True)


_process = secrets.token_hex(8)


def training_of(statement: int) -> str:
    """The identifier that the versions of a statement share, in this process and any other."""
    given = access.training()
    if given is not None:
        return given
    return f"{_process}.{os.getpid()}.{statement}" if statement else secrets.token_hex(8)
