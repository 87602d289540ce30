"""A working store's weights by feature id, and back: between partitions and sealed files."""

from collections.abc import Iterator

import numpy as np

from tuskml.kvstore.native import Ids, Weights
from tuskml.kvstore.working.working import ModelStore
from tuskml.partitioner import IndexMap, LiveFeatures

Pair = tuple[Ids, Weights]
WINDOW = 1 << 20


def pairs_of(store: ModelStore) -> Iterator[Pair]:
    """(ids, weights) of all weights that are not 0, by rising feature id, in parts.

    Memory does not grow with the model: blocks of rare features lie in the order of their keys,
    and the frequent features, which have keys of their own, are few.
    """
    live = store.index.live
    if live is not None and live.order is not None:
        yield from _in_windows(store, live)
        return
    frequent = store.index.features
    known = store.weights(frequent)
    done = 0  # frequent features that have had their turn
    for keys, starts, values in store.scan(store.index.n_partitions):
        ids, weights = _rare(store.index, keys, starts, values)
        if len(ids):
            end = int(np.searchsorted(frequent, ids[-1]))
            yield _merged(ids, weights, frequent[done:end], known[done:end])
            done = end
    stored = _not_zero(known[done:])
    yield frequent[done:][stored], known[done:][stored]


def _in_windows(store: ModelStore, live: LiveFeatures) -> Iterator[Pair]:
    """The pairs of features that do not lie by rising id: looked up, many at a time, since each
    time most blocks of several features are read.
    """
    for first in range(0, len(live), WINDOW):
        ids = live.by_rank(np.arange(first, min(first + WINDOW, len(live))))
        weights = store.weights(ids)
        stored = _not_zero(weights)
        yield ids[stored], weights[stored]


def _not_zero(weights: Weights) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Places of the weights whose bits are not all 0: -0.0 and NaN are weights too."""
    return np.flatnonzero(weights.view(f"u{weights.dtype.itemsize}"))


def _rare(index: IndexMap, keys: Ids, starts: Ids, values: Weights) -> Pair:
    """The pairs of blocks' payloads, less slots of features that do not live there."""
    first, begin, end = index.blocks.spans_of(keys - index.n_partitions)
    places = _not_zero(values)
    part = np.searchsorted(starts, places, side="right") - 1
    numbers = first[part] + places - starts[part]
    inside = (numbers >= begin[part]) & (numbers < end[part])
    if len(index.features):
        at = np.minimum(np.searchsorted(index.numbers, numbers), len(index.features) - 1)
        inside &= index.numbers[at] != numbers
    return index.named(numbers[inside]), values[places[inside]]


def _merged(ids: Ids, weights: Weights, more: Ids, others: Weights) -> Pair:
    stored = _not_zero(others)
    both = np.concatenate((ids, more[stored]))
    order = np.argsort(both, kind="stable")
    return both[order], np.concatenate((weights, others[stored]))[order]


def fill(store: ModelStore, pairs: Iterator[Pair]) -> None:
    """Writes pairs into an empty store."""
    for ids, weights in pairs:
        store.add_weights(ids, weights.astype(store.dtype, copy=False))
