"""Folds and held-out rows of distributed parts, equal to those of rows on one worker.

Rows are dealt by hashes of their content, and equal rows are distinguished by the number of equal
rows before them. So the result does not depend on how the rows are cut: each part gets the number
of its rows that earlier parts also have, and the last key of each fold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tuskml.kernels.library import check_code, library, pointer
from tuskml.kernels.parts.message import Array, pack_message, unpack_message
from tuskml.kernels.parts.sharded import ShardedPass
from tuskml.kernels.passes import Floats, Pass
from tuskml.kernels.rows.cells import Cells
from tuskml.kernels.rows.renumber import PartOfRows
from tuskml.kernels.structures import GROUP, OFFSETS, WEIGHTS

Hashes = NDArray[np.uint64]
TOGETHER = 1 << 22
"""Approximate number of hashes that all parts send at once."""
LABELLED, WEIGHTED = 2, 4
"""Number of columns that distinguish rows of equal hash: with the label; with weight and offset
too.
"""
BUCKETS = 1 << 16
"""Number of buckets for keys of all labels."""
LAST = 2**64 - 1


@dataclass(frozen=True)
class Dealing:
    """Keys that bound each fold, by label.

    labels: (L,) rising, one if rows are dealt regardless of labels; until: (L, folds - 1), the
    last key of each fold but the last one; earlier: for each part its rows that earlier parts also
    have, as from `count_hashes`, and the number of rows of the same hash.
    """

    seed: int
    labels: Floats
    until: Hashes
    earlier: list[list[Array]]

    @property
    def messages(self) -> list[bytes]:
        """Message for each part (`dealt`)."""
        about = {"seed": self.seed}
        return [pack_message(about, [*own, self.labels, self.until]) for own in self.earlier]


def dealt(rows: Pass, told: bytes, memory: int) -> Cells:
    """Deals a part's rows to folds.

    told: from `Dealing.messages`; memory: address of the account of the copies.
    """
    header, arrays = unpack_message(told)
    until = arrays[3]
    assert until is not None
    cells = np.zeros((1, until.shape[1] + 1), GROUP)
    arguments = parted_structure(header["seed"], arrays), memory, pointer(cells)
    check_code(library().tk_deal_part(rows.struct, *arguments), "a copy of the rows")
    return Cells(cells, cells.size, 1)


def parted_structure(seed: int, arrays: Sequence[Any]) -> PartOfRows:
    """The structure for kernels; arrays: those of a dealing, which must outlive it."""
    alike, before, labels, until = arrays
    columns = alike.shape[1] if alike.ndim > 1 else 1
    folds = until.shape[1] + 1
    keys = pointer(labels), pointer(until)
    return PartOfRows(
        seed, len(alike), pointer(alike), pointer(before), columns, folds, len(labels), *keys
    )


def hashes(rows: Pass, _: Sequence[Any], given: Mapping[str, Any]) -> list[Array]:
    """Reply of a part: hashes of its rows in a slice, and number of rows of each."""
    columns = WEIGHTED if (rows.groups["extras"] & (WEIGHTS | OFFSETS)).any() else LABELLED
    bits = np.empty((int(rows.groups["n_rows"][0]), columns), np.uint64)
    check_code(library().tk_row_hashes(rows.struct, given["seed"], columns, pointer(bits)))
    return count_hashes(bits, given)


def count_hashes(found: Hashes, given: Mapping[str, Any]) -> list[Array]:
    """Distinct hashes of a slice, rising, and number of occurrences of each.

    found: (n,), or (n, columns) with columns of bits of numbers.
    """
    first = found if found.ndim == 1 else found[:, 0]
    if given["bits"]:
        found = found[first >> np.uint64(64 - given["bits"]) == given["slice"]]
    if found.ndim == 1:
        return list(np.unique(found, return_counts=True))
    found = found[order_of(found)]
    new = np.ones(len(found), bool)
    new[1:] = (found[1:] != found[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    return [found[starts], np.diff(np.append(starts, len(found)))]


def order_of(alike: Hashes) -> NDArray[np.intp]:
    """Indices sorted by hash, and then by the numbers in further columns."""
    if alike.ndim == 1:
        return np.argsort(alike, kind="stable")
    numbers = np.ascontiguousarray(alike[:, 1:].T).view(np.float64)
    return np.lexsort((*numbers[::-1], alike[:, 0]))


def earlier(ask: Callable[..., list[list[Array]]], n_rows: int) -> list[list[Array]]:
    """Returns for each part its rows that earlier parts also have, rising, and counts by hash.

    ask: requests hashes of all parts, by `bits` and `slice`; n_rows: of all parts.
    """
    bits = max(0, (n_rows // TOGETHER).bit_length())
    slices = [merge_answers(ask(bits=bits, slice=number)) for number in range(1 << bits)]
    return [
        [np.concatenate(each) for each in zip(*of_part, strict=True)]
        for of_part in zip(*slices, strict=True)
    ]


def merge_answers(answers: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The result of `earlier` for one slice."""
    every, times = (np.concatenate(each) for each in zip(*answers, strict=True))
    part = np.repeat(np.arange(len(answers)), [len(one[1]) for one in answers])
    order = order_of(every)  # stable: parts of equal rows in turn
    every, times, part = every[order], times[order], part[order]
    hashes = every if every.ndim == 1 else every[:, 0]
    first = np.ones(len(hashes), bool)
    first[1:] = hashes[1:] != hashes[:-1]
    so_far = np.cumsum(times) - times
    before = so_far - so_far[np.flatnonzero(first)[np.cumsum(first) - 1]] if len(times) else times
    return [
        [every[mine], before[mine].astype(np.int64)]
        for place in range(len(answers))
        for mine in [(part == place) & (before > 0)]
    ]


def key_counts(rows: Pass, arrays: Sequence[Any], given: Mapping[str, Any]) -> list[Array]:
    """Reply of a part: its labels, and number of keys of each label by bucket; or the keys in some
    buckets, and the number of rows of each.
    """
    *table, labels, buckets = arrays
    n = int(rows.groups["n_rows"][0])
    key, label = np.empty(n, np.uint64), np.empty(n)
    spec = parted_structure(given["seed"], [*table, labels, np.zeros((len(labels), 1), np.uint64)])
    check_code(library().tk_part_rows(rows.struct, spec, pointer(key), pointer(label)))
    if not given["by_label"]:
        label[:] = labels[0]
    bucket = (key >> np.uint64(64 - given["bits"])).astype(np.int64)
    if buckets is None:
        own, place = np.unique(label, return_inverse=True)
        at = place * (1 << given["bits"]) + bucket
        counts = np.bincount(at, minlength=len(own) << given["bits"])
        return [own, counts.reshape(len(own), -1)]
    at = (np.searchsorted(labels, label) << given["bits"]) + bucket
    keys = [key[at == one] for one in buckets]
    return [np.concatenate([*keys, key[:0]]), np.array([len(one) for one in keys], np.int64)]


def dealing_of(rows: ShardedPass, seed: int, folds: int, by_label: bool = False) -> Dealing:
    """Deals rows to folds of equal size, optionally evenly by label, like `tk_deal` by chance."""

    def sizes(begin: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
        turn = folds - 1 - np.arange(folds)
        return np.asarray((end[:, None] + turn) // folds - (begin[:, None] + turn) // folds)

    return _dealing(rows, seed, by_label, sizes)


def holding_of(rows: ShardedPass, seed: int, held: int) -> Dealing:
    """Deals `held` rows to the first fold and the others to the second one, like
    `Pass.shuffle`.
    """
    return _dealing(rows, seed, False, lambda _, end: np.array([[held, int(end[0]) - held]]))


Sizes = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]
"""Number of rows of each fold by label, (L, folds), from each label's first and end index among
all rows sorted by label.
"""


def _dealing(rows: ShardedPass, seed: int, by_label: bool, sizes: Sizes) -> Dealing:
    seed &= LAST
    n_rows = int(rows.groups["n_rows"][0])
    table = earlier(lambda **given: rows.ask("row_hashes", seed=seed, **given), n_rows)
    labels = np.zeros(1)
    bits = int(min(BUCKETS, max(n_rows // 16, 2))).bit_length() - 1

    def ask(buckets: Array | None) -> list[list[Any]]:
        given = {"seed": seed, "bits": bits, "by_label": by_label}
        each = {place: [*own, labels, buckets] for place, own in enumerate(table)}
        return rows.ask_each("key_counts", each, **given)

    found = ask(None)
    labels = np.unique(np.concatenate([one[0] for one in found]))
    counts = np.zeros((len(labels), 1 << bits), np.int64)
    for own, some in found:
        counts[np.searchsorted(labels, own)] += some
    all_of = counts.sum(axis=1)
    end = np.cumsum(all_of)
    ranks = np.cumsum(sizes(end - all_of, end), axis=1)[:, :-1]
    until = np.where(ranks >= all_of[:, None], np.uint64(LAST), np.uint64(0))
    upto = np.cumsum(counts, axis=1)
    inner = np.argwhere((ranks > 0) & (ranks < all_of[:, None]))
    bucket = np.array([np.searchsorted(upto[c], ranks[c, f]) for c, f in inner], np.int64)
    wanted = np.unique((inner[:, 0] << bits) + bucket)
    keys = keys_in(ask(wanted), len(wanted)) if len(wanted) else []
    for (c, f), one in zip(inner, bucket, strict=True):
        left = ranks[c, f] - (upto[c, one - 1] if one else 0)
        until[c, f] = keys[int(np.searchsorted(wanted, (c << bits) + one))][left - 1]
    return Dealing(seed, labels, until, table)


def keys_in(answers: Sequence[Sequence[Any]], n: int) -> list[Hashes]:
    """Keys in each of n buckets, rising; answers: from `key_counts`."""
    cut = [np.split(keys, np.cumsum(counts)[:-1]) for keys, counts in answers]
    return [np.sort(np.concatenate([one[k] for one in cut])) for k in range(n)]
