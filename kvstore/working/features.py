"""Conversion of a working store's weights between partitions and feature ids."""

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from tuskml.kvstore.native import Ids, Weights
from tuskml.kvstore.working.working import ModelStore
from tuskml.partitioner import IndexMap, LiveFeatures

Pair = tuple[Ids, Weights]
WINDOW = 1 << 20


def pairs_of(store: ModelStore) -> Iterator[Pair]:
    """(ids, weights) of all weights that are not 0, by rising id, in parts; where features have
    several weights the ids are those of weights (`ModelStore`).

    Memory does not grow with the model: blocks of rare features lie in the order of their keys,
    and the frequent features, which have keys of their own, are few.
    """
    live = store.index.live
    if live is not None and live.order is not None:
        yield from _in_windows(store, live)
        return
    frequent = of_weights(store.index.features, store.several)
    known = store.weights(frequent)
    done = 0  # number of frequent features already yielded
    with closing(store.scan(store.index.n_partitions)) as scan:
        for keys, starts, values in scan:
            ids, weights = _rare(store, keys, starts, values)
            if len(ids):
                end = int(np.searchsorted(frequent, ids[-1]))
                yield _merged(ids, weights, frequent[done:end], known[done:end])
                done = end
    stored = _not_zero(known[done:])
    yield frequent[done:][stored], known[done:][stored]


def _in_windows(store: ModelStore, live: LiveFeatures) -> Iterator[Pair]:
    """Yields the pairs of features that are not stored by rising id.

    They are looked up many at a time, since each lookup reads most blocks of several features.
    """
    window = max(1, WINDOW // store.several)
    for first in range(0, len(live), window):
        features = live.by_rank(np.arange(first, min(first + window, len(live))))
        ids = of_weights(features, store.several)
        weights = store.weights(ids)
        stored = _not_zero(weights)
        yield ids[stored], weights[stored]


def of_weights(features: Ids, several: int) -> Ids:
    """Ids of the weights of features with several each, (n * several,)."""
    if several == 1:
        return features
    ids: Ids = (features[:, None] * several + np.arange(several)).ravel()
    return ids


def _not_zero(weights: Weights) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Indices of the weights whose bits are not all 0: -0.0 and NaN count as weights."""
    return np.flatnonzero(weights.view(f"u{weights.dtype.itemsize}"))


def _rare(store: ModelStore, keys: Ids, starts: Ids, values: Weights) -> Pair:
    """Pairs of blocks' payloads, without slots of features stored elsewhere."""
    index: IndexMap = store.index
    first, begin, end = index.blocks.spans_of(keys - index.n_partitions)
    places = _not_zero(values)
    part = np.searchsorted(starts, places, side="right") - 1
    slots, which = np.divmod(places - starts[part], store.several)
    numbers = first[part] + slots
    inside = (numbers >= begin[part]) & (numbers < end[part])
    if len(index.features):
        at = np.minimum(np.searchsorted(index.numbers, numbers), len(index.features) - 1)
        inside &= index.numbers[at] != numbers
    named = index.named(numbers[inside])
    if store.several > 1:
        named = named * store.several + which[inside]
    return named, values[places[inside]]


def _merged(ids: Ids, weights: Weights, more: Ids, others: Weights) -> Pair:
    stored = _not_zero(others)
    both = np.concatenate((ids, more[stored]))
    order = np.argsort(both, kind="stable")
    return both[order], np.concatenate((weights, others[stored]))[order]


def fill(store: ModelStore, pairs: Iterator[Pair]) -> None:
    """Writes pairs into an empty store."""
    for ids, weights in pairs:
        store.add_weights(ids, weights.astype(store.dtype, copy=False))
