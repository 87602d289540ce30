"""The expected requests of a training to its store, and whether it may train in memory instead.

The keys of chunks are known, and their presence in the cache is estimated as for any cache of the
least recently used, by its characteristic time T (Che, Tung and Wang, Hierarchical web caching
systems, 2002): a key that a share p of the chunks requests is in memory with probability 1 - (1 -
p)^T, where T is the number of chunks whose keys just fill the cache.

A stored model that trains in memory has any algorithm's weights, sealed as a version at the end.
Dense rows have at most one weight for each of a row's values, so a model of them fits wherever its
rows do. There a store is where the model is kept, not where it is trained: the objective, the
algorithms and the weights, to the bit, are those of a training without the option `store`.

Where a training in memory exceeds the limit, `auto` does not train there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.errors import DataError, OptionError
from tuskml.kernels import passes
from tuskml.kernels.library import FLOOR, memory_use
from tuskml.kernels.rows.renumber import Ids, n_trained, renumber
from tuskml.kernels.stored.chunks import Chunks, Keys, Widths
from tuskml.kvstore import StoreRoot
from tuskml.kvstore.frames import frame_bytes, frame_share
from tuskml.learners.learner import Outgrown
from tuskml.learners.linear.algorithms import LAST_CHOICE, REGISTERED, STORED
from tuskml.learners.linear.own.operators import operators_of
from tuskml.learners.linear.planner.curves import Question, decades
from tuskml.learners.linear.planner.planning import statistics
from tuskml.learners.linear.renumbered import own_request
from tuskml.learners.linear.request import LinearOptions, Plan, Request
from tuskml.learners.linear.training import train_in_parts
from tuskml.learners.models import Models
from tuskml.learners.options.kinds import WarmStart
from tuskml.learners.stored.progress import DTYPE, about, model_value, pairs_of
from tuskml.schedule.budget import look_at_limits

WEIGHT_BYTES, HEADER_BYTES = 4, 12
"""Bytes of a stored weight, and of a payload besides its weights."""
MOST_KEYS = 1 << 22
"""Keys of chunks that are looked at; of more, those of evenly spread chunks."""
HALVINGS = 60


@dataclass(frozen=True)
class StoreUse:
    """The requests of a training to its store: keys read and written, and bytes of their
    payloads.
    """

    store_requests: float
    store_writes: float
    store_bytes_read: float
    store_bytes_written: float

    def __add__(self, other: "StoreUse") -> "StoreUse":
        return StoreUse(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def as_dict(self) -> dict[str, Any]:
        """Returns whole numbers for JSON."""
        return {name: round(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class Demand:
    """The keys that the chunks of an epoch request, all arrays of shape (k,).

    share: of the chunks that request each key; width: its weights; times: the number of keys it
    represents, if only some chunks were read; chunks: the number of chunks.
    """

    share: NDArray[np.float64]
    width: NDArray[np.int64]
    times: NDArray[np.float64]
    chunks: int


def demand_of(n_chunks: int, looked_at: Sequence[tuple[Keys, Widths]]) -> Demand:
    """The demand of `n_chunks` chunks, from those that were read.

    A key that only one of those requests represents others that only one of the rest requests.
    """
    keys, widths = (np.concatenate(column) for column in zip(*looked_at, strict=True))
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    looked = len(looked_at)
    times = np.where(count == 1, n_chunks / looked, 1.0)
    share = np.where(count == 1, 1.0 / n_chunks, count / looked)
    return Demand(share, widths[first].astype(np.int64), times, n_chunks)


def estimate_epochs(groups: NDArray[np.void], request: Request, plan: Plan) -> float:
    """Estimates the number of epochs of a plan's training."""
    if plan.epsilon == 0:
        return float(plan.max_iter)
    question = Question(request.task, request.options, statistics(groups), plan.threads)
    return min(float(plan.max_iter), STORED.usual(question, decades(plan.epsilon)).point)


def spread(sizes: list[int]) -> NDArray[np.int64]:
    """Numbers of chunks that are spread evenly and have about MOST_KEYS keys; sizes: of each."""
    n = len(sizes)
    some = max(1, min(n, int(n * MOST_KEYS / max(1, sum(sizes)))))
    return np.unique(np.linspace(0, n - 1, some).round().astype(np.int64))


def estimate_of(
    chunks: Chunks, sizes: list[int], cache: int, epochs: float, settles: bool
) -> StoreUse:
    """The use of a training on mapped chunks, with `sizes` keys each; else as `store_use`."""
    looked_at = [(one.keys, one.widths) for one in map(chunks.__getitem__, spread(sizes))]
    return store_use(demand_of(len(chunks), looked_at), cache, epochs, settles)


def store_use(demand: Demand, cache: int, epochs: float, settles: bool) -> StoreUse:
    """Estimates the use of the store by `epochs` of a new model and the objective at their end.

    cache: bytes of memory for weights; settles: whether penalties are brought up to date for all
    keys at the end.
    """
    size, payload = frame_sizes(demand.width), HEADER_BYTES + WEIGHT_BYTES * demand.width
    times, whole = demand.times, frame_share(cache, 1)
    keys, new_bytes = float(times.sum()), float(times @ payload)
    if times @ size <= whole:
        return StoreUse(keys, keys, 0.0, new_bytes)
    absent = (1 - demand.share) ** time_of(demand.share, times * size, whole)
    each = demand.chunks * demand.share * times * absent
    a_pass, a_pass_bytes = float(each.sum()), float(each @ payload)
    more = max(0.0, epochs - 1)
    trained = max(a_pass, keys) + more * a_pass
    trained_bytes = max(a_pass_bytes, new_bytes) + more * a_pass_bytes
    swept = float(times @ absent) if settles else 0.0
    swept_bytes = float(times @ (absent * payload)) if settles else 0.0
    return StoreUse(
        trained + swept + a_pass,
        trained + swept,
        trained_bytes - new_bytes + swept_bytes + a_pass_bytes,
        trained_bytes + swept_bytes,
    )


def estimate_routed_use(
    buckets: float, weights: float, epochs: float, runs: float | None = None
) -> StoreUse:
    """Estimates the use of a training whose weights travel between chunks, and of its objective.

    buckets, weights: taken over in an epoch from chunks other than the one just before; runs: in
    which they are written, if not each bucket is one.
    """
    passes = epochs + 1
    moved = passes * weights * WEIGHT_BYTES
    writes = passes * (buckets if runs is None else runs)
    return StoreUse(passes * buckets, writes, moved, moved)


def frame_sizes(width: NDArray[np.int64]) -> NDArray[np.float64]:
    """Bytes of the frames of payloads with `width` weights, (k,)."""
    distinct, place = np.unique(width, return_inverse=True)
    each = [frame_bytes(int(one), WEIGHT_BYTES) for one in distinct]
    return np.array(each, np.float64)[place]


def time_of(share: NDArray[np.float64], size: NDArray[np.float64], cache: float) -> float:
    """Returns the number of chunks whose keys fill the cache: its characteristic time."""
    low, high = 0.0, 1.0
    stays = np.log1p(-np.minimum(share, 1 - 1e-12))

    def holding_time(time: float) -> float:
        return float(size @ -np.expm1(time * stays))

    while holding_time(high) < cache and high < 1e12:
        high *= 2
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if holding_time(middle) < cache else (low, middle)
    return low


ALGORITHMS = ("auto", *(one.name for one in REGISTERED if one.stored))
"""The algorithms for stores."""


def in_memory(groups: NDArray[np.void], request: Request) -> bool:
    """Returns whether groups (`passes.GROUP`) train in memory in spite of the option `store`.

    So do those with more than two classes, which only their labels show.
    """
    options = request.options
    dense, task = bool(groups["kind"][0] < 2), request.task
    if task.general and task.own is None:  # a loss that the kernels for stores lack
        return True
    return dense or options.algorithm not in ALGORITHMS or bool(operators_of(options))


def without_store(request: Request) -> Request:
    """The request of the training in memory, for its explanation."""
    options = replace(request.options, store=None)
    if options.warm_start is not None and options.warm_start.store is not None:
        options = replace(options, warm_start=None)  # the explanation does not read the store
    return replace(request, options=options)


MOST_START = 1 << 24
"""Weights of a stored model that a training in memory can start from."""


def train_in_memory(
    groups: NDArray[np.void], request: Request, memory: int, root: StoreRoot, many: bool = False
) -> Models:
    """Trains one group (`passes.GROUP`) and seals its weights; many: it has over two classes.

    A group of one class has a constant model, which is a value and not stored. Raises DataError,
    OptionError, StoreError, and MemoryError where the training needs more than it may have.
    """
    options = request.options
    if options.resume:
        raise OptionError(
            "option 'resume' is for trainings on sparse features by an algorithm for stores: "
            "this one trains in memory, and an interrupted one leaves nothing to go on with"
        )
    assert options.store is not None
    with renumber(groups, memory, passes.cancel_mark(), bool(request.options.validation)) as seen:
        ids, width = seen.ids.get(0), int(groups["dim"][0])
        start = load_start(options, ids, width, root)
        own = replace(request, options=replace(start, store=None))
        if start is options:
            own = own_request(own, ids, width)
        try:
            (model,) = train_in_parts(seen.groups, np.zeros(1, np.intp), own, memory)
        except MemoryError as error:
            raise no_room(error, groups, options, many) from None
        if model.status.pool[model.status.code[0]] == "one class":
            return replace(model, n_features=groups["dim"].astype(np.int64))
        weights, places, dimension = lay_out_weights(model, ids, width)
        pairs = pairs_of(weights, places)
        given = DTYPE, dimension, about(model), continued_model(options)
        n = len(model.classes.values)
        several = n if n > 2 else 1
        version = root.publish_pairs(options.store, pairs, *given, several=several)
    return model_value(model, version.reference, width)


def no_room(
    error: MemoryError, groups: NDArray[np.void], options: LinearOptions, many: bool
) -> MemoryError:
    """The error for weights that do not fit into memory, with the options that could store
    them.
    """
    if groups["kind"][0] < 2:  # dense rows take more than their weights
        return error
    what = "a model of more than two classes" if many else f"algorithm '{options.algorithm}'"
    instead = f"give algorithm '{STORED.name}'" if many else "leave 'algorithm' out"
    return MemoryError(
        f"no memory for the training: {what} trains in memory, also with option 'store'; "
        f"raise memory_limit, or {instead}, so that the weights may lie on disk"
    )


def load_start(
    options: LinearOptions, ids: Ids | None, width: int, root: StoreRoot
) -> LinearOptions:
    """The options with the weights of a stored model to start from, of these ids alone.

    They are as they were where they start at no stored model.
    """
    start = options.warm_start
    if start is None or start.store is None:
        return options
    with root.open(start.store) as sealed:
        if sealed.dimension > width:
            raise DataError(
                f"warm_start has {sealed.dimension} coefficients, expected {width} as the features"
            )
        n = sealed.dimension if ids is None else len(ids)
        if n > MOST_START:
            raise OptionError(
                f"warm_start has {n} weights, expected at most {MOST_START} in a training in "
                "memory, or no 'algorithm' with option 'store'"
            )
        coef = sealed.weights(np.arange(n) if ids is None else ids.astype(np.int64))
    weights = tuple(np.asarray(coef, float).tolist())
    return replace(options, warm_start=WarmStart(weights, start.intercept))


def lay_out_weights(
    model: Models, ids: Ids | None, width: int
) -> tuple[NDArray[np.float64], NDArray[np.integer] | None, int]:
    """The weights of a model, the ids in the store that are theirs, and how many there may be.

    Of K > 2 classes, weight k of feature i has id (i + 1) K + k, and the intercepts have the ids
    below K, so that a row finds those of a feature side by side.
    """
    n = len(model.classes.values)
    if n <= 2:
        return model.coef.values, ids, width
    weights = np.ascontiguousarray(model.coef.values.reshape(n, -1).T)
    places: NDArray[np.int64] | None = None
    if ids is not None:
        features = np.concatenate(([0], ids.astype(np.int64) + 1))
        places = (features[:, None] * n + np.arange(n)).ravel()
    return weights.ravel(), places, (width + 1) * n


def continued_model(options: LinearOptions) -> str | None:
    """The stored model that the training began with."""
    return None if options.warm_start is None else options.warm_start.store


DOUBLE = 8


def groups_beyond_memory(
    groups: NDArray[np.void], request: Request, memory: int
) -> Mapping[int, Outgrown]:
    """Groups (`passes.GROUP`), by index, that the rule's choice for wide rows cannot train.

    It keeps a fixed number of vectors of the weights that a training in memory has. memory:
    address of the account; 0: there is no limit.
    """
    if not memory or not could_be_stored(request):
        return {}
    wide = np.flatnonzero((groups["kind"] >= 2) & (bytes_of(groups["dim"]) > FLOOR))
    if not len(wide):
        return {}
    look_at_limits(memory)
    room, found = room_of(memory), {}
    for place in wide[bytes_of(groups["dim"][wide]) > room].tolist():
        features = n_trained(groups[place : place + 1], memory, passes.cancel_mark())
        needed = int(bytes_of(np.array(features)))
        if needed > room:
            why = (
                f"to train {features:,} weights in memory takes {needed / 1e6:,.0f} MB of "
                f"{room / 1e6:,.0f} MB"
            )
            found[place] = Outgrown(room, why)
    return found


def could_be_stored(request: Request) -> bool:
    """Returns whether a training from a store supports all options of the request."""
    task, options = request.task, request.options
    return (
        (task.own is not None or not task.general)
        and options.algorithm == "auto"
        and not operators_of(options)
        and not options.explain
        and options.device != "gpu"
        and ("converge" not in options.given or options.converge == "loss")
    )


def bytes_of(features: NDArray[np.integer]) -> NDArray[np.float64]:
    """Returns the bytes of the weight vectors that a training in memory keeps."""
    return np.asarray(LAST_CHOICE.vectors * DOUBLE * (features + 1.0))


def room_of(memory: int) -> int:
    """Bytes that a training may still take, in addition to the rows."""
    use = memory_use(memory)
    return max(use.budget - use.resident, use.budget // 4, FLOOR)
