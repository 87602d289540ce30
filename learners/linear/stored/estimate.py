"""The expected requests of a training to its store, before its first epoch.

The keys of chunks are known, and their presence in the cache is estimated as for any cache of the
least recently used, by its characteristic time T (Che, Tung and Wang, Hierarchical web caching
systems, 2002): a key that a share p of the chunks requests is in memory with probability 1 - (1 -
p)^T, where T is the number of chunks whose keys just fill the cache.
"""

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.stored.chunks import Chunks, Keys, Widths
from tuskml.kvstore.frames import frame_bytes, frame_share
from tuskml.learners.linear.algorithms import STORED
from tuskml.learners.linear.planner.curves import Question, decades
from tuskml.learners.linear.planner.planning import statistics
from tuskml.learners.linear.request import Plan, Request

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
